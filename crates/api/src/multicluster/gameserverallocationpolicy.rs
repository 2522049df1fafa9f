//! GameServerAllocationPolicy: one cluster that allocations may be sent to.

use std::sync::LazyLock;

use decide::allocation::ClusterPolicy;
use k8s_openapi::ByteString;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema::Schema;
use crate::{Admission, Kind, Problem, Scope, admit};

/// The priority, weight and endpoints of a cluster.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "multicluster.agones.dev",
    version = "v1",
    kind = "GameServerAllocationPolicy",
    plural = "gameserverallocationpolicies",
    shortname = "gsap",
    namespaced,
    doc = "One cluster that allocations may be sent to.",
    derive = "Default",
    derive = "PartialEq",
    crates(kube_core = "kube_core", k8s_openapi = "k8s_openapi", serde = "serde")
)]
#[serde(rename_all = "camelCase")]
pub struct GameServerAllocationPolicySpec {
    /// Clusters with a lower number are tried first.
    #[schemars(range(min = 0))]
    pub priority: i32,
    /// How often this cluster is tried first, relative to others of the same priority. 0: never.
    #[schemars(range(min = 0))]
    pub weight: i64,
    /// How to reach the cluster.
    #[serde(default)]
    pub connection_info: ConnectionInfo,
}

/// How to reach a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionInfo {
    /// The name of the cluster. Policies with the same name are about one cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    /// Where its allocator listens, tried in order; without any it is this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub allocation_endpoints: Option<Vec<String>>,
    /// The secret with the certificate to show, and perhaps the authority to trust.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub secret_name: String,
    /// The namespace to allocate from.
    pub namespace: String,
    /// The authority to trust, as PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::base64")]
    pub server_ca: Option<ByteString>,
}

impl GameServerAllocationPolicy {
    /// Converts the object into the input of the choice of a cluster.
    pub fn view(&self) -> ClusterPolicy {
        ClusterPolicy {
            cluster: self.spec.connection_info.cluster_name.as_str().into(),
            priority: self.spec.priority,
            weight: i32::try_from(self.spec.weight).unwrap_or(i32::MAX),
        }
    }
}

/// GameServerAllocationPolicy, as engines and `evaluate` see it.
pub(crate) static KIND: Kind = Kind {
    group: "multicluster.agones.dev",
    version: "v1",
    kind: "GameServerAllocationPolicy",
    plural: "gameserverallocationpolicies",
    scope: Scope::Namespaced,
    crd: Some(crd),
    prepare: |_, _| {},
    admit: admit_policy,
};

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::from_crd(&crd()));

fn crd() -> CustomResourceDefinition {
    GameServerAllocationPolicy::crd()
}

fn admit_policy(value: &mut Value, _: &Admission<'_>) -> Result<(), Vec<Problem>> {
    admit::tidy(value, None);
    admit::fit(value, &SCHEMA)?;
    admit::read::<GameServerAllocationPolicy>(value, &SCHEMA).map(drop)
}
