//! The pods of a Service, and what its endpoints need to know of each.

use cluster::CacheEntry;
use k8s_openapi::api::core::v1::{ContainerPort, ObjectReference, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// The cached part of a pod: there may be many, and few fields of each are used.
#[derive(Clone, Debug, Default, Serialize, Deserialize, kube::Resource)]
#[resource(inherit = Pod)]
pub(super) struct EndpointPod {
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    pub(super) spec: EndpointPodSpec,
    #[serde(default)]
    pub(super) status: EndpointPodStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EndpointPodSpec {
    pub(super) node_name: Option<String>,
    pub(super) hostname: Option<String>,
    pub(super) subdomain: Option<String>,
    pub(super) containers: Vec<ServingContainer>,
    pub(super) init_containers: Vec<ServingContainer>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ServingContainer {
    pub(super) ports: Vec<ContainerPort>,
    pub(super) restart_policy: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EndpointPodStatus {
    pub(super) phase: String,
    #[serde(rename = "podIP")]
    pub(super) pod_ip: String,
    pub(super) conditions: Vec<ReadyCondition>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ReadyCondition {
    #[serde(rename = "type")]
    pub(super) type_: String,
    pub(super) status: String,
}

impl CacheEntry for EndpointPod {
    type Object = Self;

    fn from_object(mut object: Self) -> Self {
        object.metadata.managed_fields = None;
        object.metadata.annotations = None;
        object.status.conditions.retain(|condition| condition.type_ == "Ready");
        object
    }

    fn decode(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text).map(Self::from_object)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl EndpointPod {
    pub(super) fn is_ready(&self) -> bool {
        self.status.conditions.iter().any(|condition| condition.status == "True")
    }

    pub(super) fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether it can be an endpoint at all: it has an address, and has not ended.
    pub(super) fn has_address(&self) -> bool {
        !self.status.pod_ip.is_empty()
            && !matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Whether another version of the pod leads to the same endpoint.
    pub(super) fn serves_like(&self, other: &Self) -> bool {
        let meta = (&self.metadata.uid, &self.metadata.labels, self.is_terminating());
        meta == (&other.metadata.uid, &other.metadata.labels, other.is_terminating())
            && self.spec == other.spec
            && self.status == other.status
    }

    pub(super) fn reference(&self) -> ObjectReference {
        ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: self.metadata.namespace.clone(),
            name: self.metadata.name.clone(),
            uid: self.metadata.uid.clone(),
            ..ObjectReference::default()
        }
    }

    /// Returns the name under which the pod is known in the domain of a Service, if it asks for one.
    pub(super) fn hostname_in(&self, service: &Service) -> Option<String> {
        let is_in_domain = self.spec.subdomain.is_some()
            && self.spec.subdomain == service.metadata.name
            && self.metadata.namespace == service.metadata.namespace;
        self.spec.hostname.clone().filter(|name| is_in_domain && !name.is_empty())
    }

    /// Returns the number of a named port. Of init containers only sidecars serve.
    pub(super) fn named_port(&self, name: &str, protocol: &str) -> Option<i32> {
        let sidecars = self.spec.init_containers.iter();
        let sidecars = sidecars.filter(|c| c.restart_policy.as_deref() == Some("Always"));
        let ports = self.spec.containers.iter().chain(sidecars).flat_map(|c| &c.ports);
        let is_it = |port: &&ContainerPort| {
            port.name.as_deref() == Some(name)
                && port.protocol.as_deref().unwrap_or("TCP") == protocol
        };
        ports.into_iter().find(is_it).map(|port| port.container_port)
    }
}

/// Whether the endpoints of a Service follow from a selector.
pub(super) fn has_selector(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    let is_external = spec.is_some_and(|spec| spec.type_.as_deref() == Some("ExternalName"));
    spec.and_then(|spec| spec.selector.as_ref()).is_some_and(|all| !all.is_empty()) && !is_external
}

/// Whether a Service selects a pod.
pub(super) fn selects(service: &Service, pod: &EndpointPod) -> bool {
    let Some(selector) = service.spec.as_ref().and_then(|spec| spec.selector.as_ref()) else {
        return false;
    };
    let has = |(name, value): (&String, &String)| {
        pod.metadata.labels.as_ref().and_then(|labels| labels.get(name)) == Some(value)
    };
    service.metadata.namespace == pod.metadata.namespace
        && !selector.is_empty()
        && selector.iter().all(has)
}

/// Whether unready pods count as ready.
pub(super) fn publishes_unready(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses) == Some(true)
}

/// Whether a Service has no address of its own.
pub(super) fn is_headless(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None")
}
