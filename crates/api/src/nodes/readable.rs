//! Objects of the kinds that decisions about nodes use, read from JSON.

use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::plimsoll::NodeGroup;
use crate::{Problem, decode};

/// Checks that an object of a kind that matters here can be read, and passes over every other.
pub(super) fn check(value: &Value) -> Result<(), Vec<Problem>> {
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    match (text("apiVersion"), text("kind")) {
        ("v1", "Node") => read::<core::Node>(value),
        ("v1", "Pod") => read::<core::Pod>(value),
        ("v1", "Namespace") => read::<core::Namespace>(value),
        ("v1", "ReplicationController") => read::<core::ReplicationController>(value),
        ("v1", "PersistentVolumeClaim") => read::<core::PersistentVolumeClaim>(value),
        ("v1", "PersistentVolume") => read::<core::PersistentVolume>(value),
        ("storage.k8s.io/v1", "StorageClass") => read::<StorageClass>(value),
        ("storage.k8s.io/v1", "CSINode") => read::<CSINode>(value),
        ("policy/v1", "PodDisruptionBudget") => read::<PodDisruptionBudget>(value),
        ("apps/v1", "DaemonSet") => read::<apps::DaemonSet>(value),
        ("apps/v1", "ReplicaSet") => read::<apps::ReplicaSet>(value),
        ("apps/v1", "StatefulSet") => read::<apps::StatefulSet>(value),
        ("batch/v1", "Job") => read::<Job>(value),
        ("plimsoll.dev/v1alpha1", "NodeGroup") => read::<NodeGroup>(value),
        _ => Ok(()),
    }
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<(), Vec<Problem>> {
    decode::lenient::<T>(value)?;
    if value["metadata"]["name"].as_str().unwrap_or_default().is_empty() {
        return Err(vec![Problem::new("metadata.name", "required")]);
    }
    Ok(())
}
