//! The cached form of each kind: the object without its field managers, with the defaults of admission.

mod buffer;
mod gameserver;
mod node;
mod node_pod;
mod object;
mod pod;
mod scaler;
mod workload;

use api::agones::{Fleet, GameServerSet};
use api::autoscaling::FleetAutoscaler;
use api::plimsoll::{AutoScalePolicy, MetricSource, ScalingPolicy};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::CacheEntry;
pub use buffer::{CapacityBuffer, CapacityBufferSpec, CapacityBufferStatus, LocalRef, ScalableRef};
pub use gameserver::CachedGameServer;
pub use node::{CachedNode, CachedNodeSpec, CachedNodeStatus, unneeded_since};
pub use object::{CachedObject, CachedWhole};
pub use pod::{
    CachedPod, CachedPodSpec, CachedPodStatus, HOST_PORTS_ANNOTATION, PodCondition, PodIp,
};
pub use scaler::{HorizontalPodAutoscaler, ScaleTargetRef, ScaledObject};

impl CacheEntry for Fleet {
    type Object = Self;

    fn from_object(mut object: Self) -> Self {
        object.metadata.managed_fields = None;
        object.spec.fill();
        object
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl CacheEntry for FleetAutoscaler {
    type Object = Self;

    fn from_object(mut object: Self) -> Self {
        object.metadata.managed_fields = None;
        object.spec.fill();
        object
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl CacheEntry for ScalingPolicy {
    type Object = Self;

    fn from_object(mut object: Self) -> Self {
        object.metadata.managed_fields = None;
        object
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl CacheEntry for AutoScalePolicy {
    type Object = Self;

    fn from_object(mut object: Self) -> Self {
        object.metadata.managed_fields = None;
        object
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl CacheEntry for MetricSource {
    type Object = Self;

    fn from_object(mut object: Self) -> Self {
        object.metadata.managed_fields = None;
        object
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl CacheEntry for GameServerSet {
    type Object = Self;

    fn from_object(mut object: Self) -> Self {
        object.metadata.managed_fields = None;
        object
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}
