//! FleetAutoscaler: sizes one fleet by one policy.

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_core::CustomResourceExt;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Policy, dialect, parse};
use crate::schema::{Schema, words};
use crate::{Admission, Kind, Problem, Scope, admit, unset};

/// Which fleet to size, and how.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "autoscaling.agones.dev",
    version = "v1",
    kind = "FleetAutoscaler",
    plural = "fleetautoscalers",
    shortname = "fas",
    namespaced,
    status = "FleetAutoscalerStatus",
    doc = "Sizes one fleet by one policy.",
    derive = "PartialEq",
    crates(kube_core = "kube_core", k8s_openapi = "k8s_openapi", serde = "serde")
)]
#[serde(rename_all = "camelCase")]
pub struct FleetAutoscalerSpec {
    /// The fleet to size, in the same namespace.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub fleet_name: String,
    /// How to size it.
    pub policy: Policy,
    /// How often the fleet is evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<Sync>,
}

/// How often the fleet is evaluated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sync {
    /// The kind of interval.
    #[serde(rename = "type", default)]
    pub type_: SyncType,
    /// The interval, with `FixedInterval`.
    #[serde(default)]
    pub fixed_interval: FixedInterval,
}

/// The kind of interval between evaluations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SyncType {
    /// At the latest after a number of seconds.
    #[default]
    FixedInterval,
}

/// An evaluation at the latest after a number of seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FixedInterval {
    /// The longest time between two evaluations, in seconds: 30 unless given. A change of the fleet is evaluated at once.
    #[serde(default = "half_a_minute")]
    #[schemars(range(min = 1))]
    pub seconds: i32,
}

/// The result of the last evaluation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FleetAutoscalerStatus {
    /// The number of game servers at the last evaluation.
    pub current_replicas: i32,
    /// The desired number of game servers.
    pub desired_replicas: i32,
    /// When the fleet was last resized.
    pub last_scale_time: Option<Time>,
    /// Whether the policy returned a size.
    pub able_to_scale: bool,
    /// Whether a limit changed the size that the policy returned.
    pub scaling_limited: bool,
    /// The policy that decided, such as `Buffer` or `Chain:night:Schedule`.
    pub last_applied_policy: String,
    /// Whether it can scale and whether it is limited, with reasons and messages. Agones has no such field.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// FleetAutoscaler, as engines and `evaluate` see it.
pub(crate) static KIND: Kind = Kind {
    group: "autoscaling.agones.dev",
    version: "v1",
    kind: "FleetAutoscaler",
    plural: "fleetautoscalers",
    scope: Scope::Namespaced,
    crd: Some(published),
    prepare,
    admit: admit_autoscaler,
};

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::from_crd(&crd()));

fn crd() -> CustomResourceDefinition {
    FleetAutoscaler::crd()
}

impl Default for FixedInterval {
    fn default() -> Self {
        Self { seconds: half_a_minute() }
    }
}

fn half_a_minute() -> i32 {
    30
}

/// Returns the CRD that is served to clients.
fn published() -> CustomResourceDefinition {
    let mut crd = crd();
    words::for_autoscalers(&mut crd);
    crd
}

/// Upstream fills in new and changed autoscalers alike.
fn prepare(value: &mut Value, admission: &Admission<'_>) {
    unset::keep_status::<FleetAutoscalerStatus>(value, admission);
    unset::remove_empty(value, "/spec", &["sync.type"]);
    let functions = ["wasm.function", "schedule.policy.wasm.function", "chain[].wasm.function"];
    unset::remove_empty(value, "/spec/policy", &functions);
}

fn admit_autoscaler(value: &mut Value, admission: &Admission<'_>) -> Result<(), Vec<Problem>> {
    // A schedule that is over may stay as it is; what is new or changed must have its end before it.
    let is_unchanged = admission.old.is_some_and(|old| old.get("spec") == value.get("spec"));
    let now = (!is_unchanged).then_some(admission.now);
    prepare(value, admission);
    let renames = dialect::autoscaler(value);
    renames.put_back(unset::without_new_status(value, admission, |value| enter(value, now)))
}

fn enter(value: &mut Value, now: Option<jiff::Timestamp>) -> Result<(), Vec<Problem>> {
    admit::tidy(value, None);
    let autoscaler: FleetAutoscaler = admit::read(value, &SCHEMA)?;
    let mut spec = autoscaler.spec;
    spec.fill();
    value["spec"] = admit::json(&spec);
    admit::fit(value, &SCHEMA)?;
    parse::admitted(&spec.policy, "spec.policy", now).map(drop)
}

impl FleetAutoscalerSpec {
    /// Fills in what was left out.
    pub fn fill(&mut self) {
        let sync = self.sync.get_or_insert_with(|| Sync {
            type_: SyncType::FixedInterval,
            fixed_interval: FixedInterval::default(),
        });
        if sync.fixed_interval.seconds == 0 {
            sync.fixed_interval.seconds = half_a_minute();
        }
    }
}
