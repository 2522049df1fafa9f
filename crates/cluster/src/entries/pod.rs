//! What is kept of a pod: there are as many as game servers, and little of each is of interest.

use cluster::CacheEntry;
use decide::gameserver::PodHealth;
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// The annotation of a pod that says which host ports its game server has, in the order of its ports. The server itself says so
/// only once it has an address: that saves a write, and a restart in between finds them here.
pub const HOST_PORTS_ANNOTATION: &str = "plimsoll.dev/host-ports";

/// The pod of a game server.
#[derive(Clone, Debug, Default, Serialize, Deserialize, kube::Resource)]
#[resource(inherit = v1::Pod)]
pub struct Pod {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// What it should be.
    #[serde(default)]
    pub spec: Spec,
    /// What it is.
    #[serde(default)]
    pub status: Status,
}

/// What a pod should be.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// The node it is on.
    pub node_name: Option<String>,
}

/// What a pod is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Where it is in its life.
    pub phase: String,
    /// Why it is there.
    pub reason: String,
    /// Why, in words.
    pub message: String,
    /// Its addresses.
    #[serde(rename = "podIPs")]
    pub pod_ips: Vec<PodIp>,
    /// What is known about it.
    pub conditions: Vec<Condition>,
}

/// An address of a pod.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PodIp {
    /// The address.
    pub ip: String,
}

/// Something known about a pod.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it is so.
    pub status: String,
    /// Why.
    pub reason: String,
    /// Why, in words.
    pub message: String,
}

impl Pod {
    /// How it is.
    pub fn health(&self) -> PodHealth {
        match self.status.phase.as_str() {
            _ if self.status.reason == "Evicted" => PodHealth::Failed,
            "Failed" => PodHealth::Failed,
            "Succeeded" => PodHealth::Succeeded,
            _ => PodHealth::Well,
        }
    }

    /// Why there is no node for it now, in the scheduler's words; `None`: there is one, or nobody has looked yet.
    pub fn unschedulable(&self) -> Option<&str> {
        let is_it = |condition: &&Condition| {
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

    /// What became of it, in words, where its status says more than that it failed.
    pub fn failure(&self) -> Option<String> {
        let Status { reason, message, .. } = &self.status;
        let parts: Vec<&str> =
            [reason, message].into_iter().map(String::as_str).filter(|s| !s.is_empty()).collect();
        (!parts.is_empty()).then(|| parts.join(": "))
    }

    /// The host ports that it was made with.
    pub fn host_ports(&self) -> Option<Vec<u16>> {
        let annotations = self.metadata.annotations.as_ref()?;
        serde_json::from_str(annotations.get(HOST_PORTS_ANNOTATION)?).ok()
    }
}

impl CacheEntry for Pod {
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
