//! The cached part of a game server's pod: there are as many pods as game servers, and few fields of each are used.

use decide::gameserver::PodHealth;
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::CacheEntry;

/// The annotation of a pod with the host ports of its game server, in the order of its ports. The server itself has them
/// only once it has an address: that saves a write, and a restart in between finds them here.
pub const HOST_PORTS_ANNOTATION: &str = "plimsoll.dev/host-ports";

/// The pod of a game server.
#[derive(Clone, Debug, Default, Serialize, Deserialize, kube::Resource)]
#[resource(inherit = v1::Pod)]
pub struct CachedPod {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// The spec.
    #[serde(default)]
    pub spec: CachedPodSpec,
    /// The status.
    #[serde(default)]
    pub status: CachedPodStatus,
}

/// The spec of a pod.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CachedPodSpec {
    /// The node that it is bound to.
    pub node_name: Option<String>,
}

/// The status of a pod.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CachedPodStatus {
    /// The phase.
    pub phase: String,
    /// The reason for the phase.
    pub reason: String,
    /// The reason, in words.
    pub message: String,
    /// The addresses.
    #[serde(rename = "podIPs")]
    pub pod_ips: Vec<PodIp>,
    /// The conditions.
    pub conditions: Vec<PodCondition>,
}

/// An address of a pod.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PodIp {
    /// The address.
    pub ip: String,
}

/// A condition of a pod.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PodCondition {
    /// The type.
    #[serde(rename = "type")]
    pub type_: String,
    /// The status: `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason.
    pub reason: String,
    /// The reason, in words.
    pub message: String,
}

impl CachedPod {
    /// Returns its health.
    pub fn health(&self) -> PodHealth {
        match self.status.phase.as_str() {
            _ if self.status.reason == "Evicted" => PodHealth::Failed,
            "Failed" => PodHealth::Failed,
            "Succeeded" => PodHealth::Succeeded,
            _ => PodHealth::Healthy,
        }
    }

    /// Returns why no node fits it now, as the scheduler reports it; `None` if it has a node, or was not scheduled yet.
    pub fn unschedulable(&self) -> Option<&str> {
        let is_it = |condition: &&PodCondition| {
            condition.type_ == "PodScheduled"
                && condition.status == "False"
                && condition.reason == "Unschedulable"
        };
        self.status.conditions.iter().find(is_it).map(|condition| condition.message.as_str())
    }

    /// Whether its host ports are taken on a node that would do otherwise: in Kubernetes' words, or in those of the embedded scheduler.
    pub fn lacks_ports(&self) -> bool {
        let lacks = |why: &str| why.contains("free ports") || why.contains("host port");
        self.unschedulable().is_some_and(lacks)
    }

    /// Returns why it failed, if its status has a reason.
    pub fn failure(&self) -> Option<String> {
        let CachedPodStatus { reason, message, .. } = &self.status;
        let parts: Vec<&str> =
            [reason, message].into_iter().map(String::as_str).filter(|s| !s.is_empty()).collect();
        (!parts.is_empty()).then(|| parts.join(": "))
    }

    /// Returns the host ports that it was created with.
    pub fn host_ports(&self) -> Option<Vec<u16>> {
        let annotations = self.metadata.annotations.as_ref()?;
        serde_json::from_str(annotations.get(HOST_PORTS_ANNOTATION)?).ok()
    }
}

impl CacheEntry for CachedPod {
    type Object = Self;

    fn from_object(mut object: Self) -> Self {
        object.metadata.managed_fields = None;
        object.metadata.labels = None;
        if let Some(annotations) = &mut object.metadata.annotations {
            annotations.retain(|name, _| name == HOST_PORTS_ANNOTATION);
        }
        object.status.conditions.retain(|condition| condition.type_ == "PodScheduled");
        object
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}
