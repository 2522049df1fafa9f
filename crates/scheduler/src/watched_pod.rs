//! A pod as its watch delivers it.
//!
//! Most events about a pod are changes of its status. So only the fields that may change and matter to scheduling are decoded; all
//! else stays text until it is needed, which is once for most pods.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A pod of which only what may change is decoded.
#[derive(Clone, Debug)]
pub(crate) struct WatchedPod {
    /// The name, namespace, uid, version, generation, labels and time of deletion.
    pub(crate) metadata: ObjectMeta,
    /// The node that it is bound to; empty: none.
    pub(crate) node_name: Box<str>,
    pub(crate) scheduler_name: Box<str>,
    pub(crate) is_gated: bool,
    /// It has succeeded or failed: it takes no room any more.
    pub(crate) is_finished: bool,
    pub(crate) scheduled: Option<ScheduledCondition>,
    /// The node on which room is being made for it.
    pub(crate) nominated: Option<Box<str>>,
    text: Arc<str>,
}

/// The condition `PodScheduled`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ScheduledCondition {
    #[serde(rename = "type")]
    type_: Box<str>,
    pub(crate) status: Box<str>,
    pub(crate) reason: Option<Box<str>>,
    pub(crate) message: Option<Box<str>>,
    pub(crate) last_transition_time: Option<Time>,
}

impl WatchedPod {
    /// Decodes the whole pod.
    pub(crate) fn decode(&self) -> serde_json::Result<Pod> {
        serde_json::from_str(&self.text)
    }

    /// Whether a scheduler of this name may bind it now or later.
    pub(crate) fn is_unbound(&self, scheduler_name: &str) -> bool {
        self.node_name.is_empty() && &*self.scheduler_name == scheduler_name
    }

    /// Whether it may be bound now, if it is unbound.
    pub(crate) fn is_schedulable(&self) -> bool {
        !self.is_gated && self.metadata.deletion_timestamp.is_none()
    }
}

impl<'de> Deserialize<'de> for WatchedPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&'de RawValue>::deserialize(deserializer)?.get();
        let Head { metadata, spec, status } =
            serde_json::from_str(text).map_err(D::Error::custom)?;
        let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
        let mut conditions = status.conditions.into_iter().flatten();
        Ok(Self {
            metadata: ObjectMeta {
                name: metadata.name,
                namespace: metadata.namespace,
                uid: metadata.uid,
                resource_version: metadata.resource_version,
                generation: metadata.generation,
                labels: metadata.labels,
                deletion_timestamp: metadata.deletion_timestamp,
                ..ObjectMeta::default()
            },
            node_name: spec.node_name.unwrap_or_default(),
            scheduler_name: spec.scheduler_name.unwrap_or_default(),
            is_gated: spec.scheduling_gates.is_some_and(|gates| !gates.is_empty()),
            is_finished: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            scheduled: conditions.find(|c| &*c.type_ == "PodScheduled"),
            nominated: status.nominated_node_name.filter(|name| !name.is_empty()),
            text: text.into(),
        })
    }
}

#[derive(Deserialize)]
struct Head {
    metadata: HeadMetadata,
    spec: Option<HeadSpec>,
    status: Option<HeadStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadMetadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    deletion_timestamp: Option<Time>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadSpec {
    node_name: Option<Box<str>>,
    scheduler_name: Option<Box<str>>,
    scheduling_gates: Option<Vec<IgnoredAny>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadStatus {
    phase: Option<Box<str>>,
    nominated_node_name: Option<Box<str>>,
    conditions: Option<Vec<ScheduledCondition>>,
}

impl Resource for WatchedPod {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(dynamic: &()) -> Cow<'_, str> {
        Pod::kind(dynamic)
    }

    fn group(dynamic: &()) -> Cow<'_, str> {
        Pod::group(dynamic)
    }

    fn version(dynamic: &()) -> Cow<'_, str> {
        Pod::version(dynamic)
    }

    fn plural(dynamic: &()) -> Cow<'_, str> {
        Pod::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_change_is_decoded_and_the_rest_can_be() {
        let text = r#"{"metadata": {"name": "a", "namespace": "n", "uid": "u", "labels": null, "resourceVersion": "7"},
            "spec": {"schedulerName": "s", "containers": [{"name": "c"}], "schedulingGates": []},
            "status": {"phase": "Pending", "conditions": [
                {"type": "Other", "status": "True"},
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m",
                 "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}"#;
        let pod: WatchedPod = serde_json::from_str(text).unwrap();
        assert_eq!(pod.metadata.name.as_deref(), Some("a"));
        assert!(pod.is_unbound("s") && !pod.is_unbound("t") && pod.is_schedulable());
        assert!(!pod.is_finished);
        let condition = pod.scheduled.clone().unwrap();
        assert_eq!((&*condition.status, condition.message.as_deref()), ("False", Some("m")));
        assert!(condition.last_transition_time.is_some());
        assert_eq!(pod.decode().unwrap().spec.unwrap().containers[0].name, "c");
    }
}
