//! The objects of Cluster API, in v1beta1 and v1beta2, reduced to what matters here.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Deserialize;
use serde_json::value::RawValue;

pub(super) const MACHINE_DEPLOYMENT: &str = "MachineDeployment";
pub(super) const MACHINE_SET: &str = "MachineSet";
pub(super) const MACHINE_POOL: &str = "MachinePool";
pub(super) const MACHINE: &str = "Machine";

/// A page of a list. Objects are decoded one by one, so that one that cannot be decoded does not hide the others.
#[derive(Deserialize)]
pub(super) struct Page {
    pub(super) metadata: PageMetadata,
    pub(super) items: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
pub(super) struct PageMetadata {
    #[serde(rename = "continue")]
    pub(super) next: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) creation_timestamp: Option<String>,
    pub(super) deletion_timestamp: Option<String>,
    owner_references: Vec<Owner>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Owner {
    kind: String,
    name: String,
}

/// A MachineDeployment, MachineSet or MachinePool.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Scalable {
    /// Set by the list that it comes from.
    #[serde(skip)]
    pub(super) kind: &'static str,
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) spec: ScalableSpec,
    #[serde(default)]
    pub(super) status: ScalableStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ScalableSpec {
    pub(super) replicas: Option<u32>,
    pub(super) cluster_name: Option<String>,
    #[serde(rename = "providerIDList")]
    pub(super) provider_id_list: Vec<String>,
    pub(super) template: MachineTemplate,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ScalableStatus {
    pub(super) replicas: Option<u32>,
    pub(super) node_refs: Vec<NodeRef>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MachineTemplate {
    pub(super) metadata: Metadata,
    pub(super) spec: MachineTemplateSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MachineTemplateSpec {
    pub(super) infrastructure_ref: Option<InfrastructureRef>,
    pub(super) taints: Vec<Taint>,
}

/// The reference to an infrastructure template, which has `apiVersion` in v1beta1 and `apiGroup` in v1beta2.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct InfrastructureRef {
    api_version: String,
    api_group: String,
    pub(super) kind: String,
    pub(super) name: String,
}

/// The template of a provider's machines.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Infrastructure {
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) status: InfrastructureStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct InfrastructureStatus {
    pub(super) capacity: BTreeMap<String, Quantity>,
    pub(super) node_info: NodeInfo,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeInfo {
    pub(super) architecture: String,
    pub(super) operating_system: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Machine {
    pub(super) metadata: Metadata,
    #[serde(default)]
    spec: MachineSpec,
    #[serde(default)]
    status: MachineStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct MachineSpec {
    #[serde(rename = "providerID")]
    provider_id: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MachineStatus {
    node_ref: NodeRef,
    phase: String,
    failure_message: Option<String>,
    deprecated: Deprecated,
}

/// Where v1beta2 keeps the fields that it no longer has.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Deprecated {
    v1beta1: DeprecatedStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeprecatedStatus {
    failure_message: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeRef {
    pub(super) name: String,
}

impl Metadata {
    pub(super) fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// Returns the name of the owner of a kind.
    pub(super) fn owner(&self, kind: &str) -> Option<&str> {
        let found = self.owner_references.iter().find(|owner| owner.kind == kind);
        found.map(|owner| owner.name.as_str()).filter(|name| !name.is_empty())
    }
}

impl Scalable {
    pub(super) fn id(&self) -> String {
        id(self.kind, &self.metadata.namespace, &self.metadata.name)
    }
}

impl InfrastructureRef {
    /// Returns the API group.
    pub(super) fn group(&self) -> &str {
        match self.api_version.split_once('/') {
            Some((group, _)) => group,
            None => &self.api_group,
        }
    }
}

impl Machine {
    /// Returns the providerID, once the infrastructure has one.
    pub(super) fn provider_id(&self) -> Option<&str> {
        Some(self.spec.provider_id.as_str()).filter(|id| !id.is_empty())
    }

    /// Returns the name of its Node, once there is one.
    pub(super) fn node(&self) -> Option<&str> {
        Some(self.status.node_ref.name.as_str()).filter(|name| !name.is_empty())
    }

    /// Whether it is being deleted.
    pub(super) fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Returns why it has failed for good.
    pub(super) fn failure(&self) -> Option<&str> {
        let status = &self.status;
        let message = status.failure_message.as_deref();
        let message = message.or(status.deprecated.v1beta1.failure_message.as_deref());
        message.filter(|_| status.phase == "Failed")
    }
}

/// Returns the id of a group.
pub(super) fn id(kind: &str, namespace: &str, name: &str) -> String {
    format!("{kind}/{namespace}/{name}")
}
