//! An object that is cached as it is, apart from what is never read of it.

use std::fmt::Debug;
use std::ops::Deref;

use api::plimsoll::{NodeAutoscaler, NodeGroup};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate,
    ReplicationController, Service,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;

use super::node_pod;
use crate::{CacheEntry, CapacityBuffer};

/// A kind whose objects are cached as they are.
pub trait CachedWhole {
    /// Removes what is never read, where there are so many objects that it matters.
    fn prune(&mut self) {}
}

macro_rules! cached_whole {
    ($($kind:ty),* $(,)?) => { $(impl CachedWhole for $kind {})* };
}

cached_whole!(
    CapacityBuffer,
    CSINode,
    DaemonSet,
    Deployment,
    Endpoints,
    EndpointSlice,
    Job,
    Namespace,
    Node,
    NodeAutoscaler,
    NodeGroup,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    PodTemplate,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    StorageClass,
);

impl CachedWhole for Pod {
    fn prune(&mut self) {
        node_pod::prune(self);
    }
}

/// An object without its field managers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CachedObject<K>(pub K);

impl<K> Deref for CachedObject<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.0
    }
}

impl<K> CacheEntry for CachedObject<K>
where
    K: CachedWhole
        + Resource<DynamicType = ()>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static,
{
    type Object = K;

    fn from_object(mut object: K) -> Self {
        object.meta_mut().managed_fields = None;
        object.prune();
        Self(object)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }
}
