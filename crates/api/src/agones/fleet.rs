//! Fleet: so many game servers of one template, replaced step by step when the template changes.

mod admission;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    AggregateCount, AllocationOverflow, GameServerTemplate, PlayerAggregate, Priority, Scheduling,
};

pub(crate) use admission::KIND;

/// How many game servers there should be, and how to get there.
#[expect(clippy::duplicated_attributes, reason = "columns share their types")]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "agones.dev",
    version = "v1",
    kind = "Fleet",
    plural = "fleets",
    shortname = "flt",
    namespaced,
    status = "FleetStatus",
    doc = "So many game servers of one template.",
    derive = "Default",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.labelSelector"
    ),
    printcolumn(name = "Scheduling", type_ = "string", json_path = ".spec.scheduling"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "Allocated", type_ = "integer", json_path = ".status.allocatedReplicas"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    crates(kube_core = "kube_core", k8s_openapi = "k8s_openapi", serde = "serde")
)]
#[serde(rename_all = "camelCase")]
pub struct FleetSpec {
    /// How many game servers there should be.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// Labels and annotations for Allocated game servers beyond `replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation_overflow: Option<AllocationOverflow>,
    /// How game servers are replaced when the template changes.
    #[serde(default)]
    pub strategy: Strategy,
    /// How game servers are spread over nodes, and with it which go first.
    #[serde(default)]
    pub scheduling: Scheduling,
    /// Which game servers go first when there are too many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub priorities: Vec<Priority>,
    /// The template of the game servers.
    pub template: GameServerTemplate,
}

/// How game servers are replaced when the template changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Strategy {
    /// `RollingUpdate` unless given.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<StrategyType>,
    /// How fast a rolling update goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
}

/// How fast a rolling update goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// How many game servers there may be beyond `replicas`, as a number or a share: `25%` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
    /// How many game servers may be missing, as a number or a share: `25%` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
}

/// How game servers are replaced when the template changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StrategyType {
    /// A few at a time.
    #[default]
    RollingUpdate,
    /// All at once.
    Recreate,
}

/// How many game servers there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FleetStatus {
    /// All that are not going away.
    pub replicas: i32,
    /// Those in the state Ready.
    pub ready_replicas: i32,
    /// Those in the state Reserved.
    pub reserved_replicas: i32,
    /// Those in the state Allocated.
    pub allocated_replicas: i32,
    /// How many allocations there were.
    pub allocations: i64,
    /// Player tracking, which lists have replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub players: Option<PlayerAggregate>,
    /// The counters, summed up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<BTreeMap<String, AggregateCount>>,
    /// The lists, summed up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lists: Option<BTreeMap<String, AggregateCount>>,
}
