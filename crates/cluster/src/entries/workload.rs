//! The workloads of Kubernetes, which the embedded engine controls: whole objects, without their field managers.

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::CacheEntry;

macro_rules! whole_object {
    ($($kind:ty),*) => {$(
        impl CacheEntry for $kind {
            type Object = Self;

            fn from_object(mut object: Self) -> Self {
                object.metadata.managed_fields = None;
                object
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }
        }
    )*};
}

whole_object!(ControllerRevision, DaemonSet, Deployment, Job, ReplicaSet);
