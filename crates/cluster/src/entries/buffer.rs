//! CapacityBuffers: room that the Cluster Autoscaler's users ask nodes to keep free.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::Resource;
use serde::{Deserialize, Serialize};

/// A CapacityBuffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CapacityBuffer {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// The spec.
    #[serde(default)]
    pub spec: CapacityBufferSpec,
    /// The status.
    #[serde(default)]
    pub status: Option<CapacityBufferStatus>,
}

/// The spec of a CapacityBuffer: how many pods of which template there is to be room for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacityBufferSpec {
    /// The strategy; by default nodes keep room.
    pub provisioning_strategy: Option<String>,
    /// The PodTemplate.
    pub pod_template_ref: Option<LocalRef>,
    /// The controller whose pods are the template.
    pub scalable_ref: Option<ScalableRef>,
    /// The number of pods.
    pub replicas: Option<i32>,
    /// The number of pods in percent of the controller's.
    pub percentage: Option<i32>,
    /// What all pods may request together.
    pub limits: Option<BTreeMap<String, Quantity>>,
}

/// An object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LocalRef {
    /// The name.
    pub name: String,
}

/// A controller in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScalableRef {
    /// The API group.
    pub api_group: Option<String>,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
}

/// The status of a CapacityBuffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacityBufferStatus {
    /// The PodTemplate that is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalRef>,
    /// The number of pods that there is to be room for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The generation of the PodTemplate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    /// The last observations of its state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The strategy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
}

impl CapacityBuffer {
    /// The group and version of the kind.
    pub const API_VERSION: &str = "autoscaling.x-k8s.io/v1beta1";
}

impl Resource for CapacityBuffer {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "CapacityBuffer".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "autoscaling.x-k8s.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1beta1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "capacitybuffers".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
