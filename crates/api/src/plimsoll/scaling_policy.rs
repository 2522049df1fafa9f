//! ScalingPolicy: how many units a target should have, by checks and rules.

mod behavior;
mod convert;
mod rule;
mod strategy;
mod target;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_core::CustomResourceExt;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Checks, Span};
use crate::{Admission, Kind, Problem, Scope};
pub use behavior::{BehaviorSpec, ScalingSpec, SelectSpec, StepSpec, UnitSpec};
pub use rule::{RuleAction, RuleMetric, RuleSpec};
pub use strategy::{FixedValueSpec, PassThroughSpec, StrategySpec, TargetValueSpec, ThresholdSpec};
pub use target::{
    Aws, CountFrom, Docker, Named, NodeGroupName, Nomad, Rancher, SecretKey, TargetSpec, Webhook,
};

/// How many units a target should have
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "plimsoll.dev",
    version = "v1alpha1",
    kind = "ScalingPolicy",
    namespaced,
    shortname = "sp",
    status = "ScalingPolicyStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Target", "type": "string", "jsonPath": ".spec.target.name"}"#,
    printcolumn = r#"{"name": "Min", "type": "integer", "jsonPath": ".spec.min"}"#,
    printcolumn = r#"{"name": "Max", "type": "integer", "jsonPath": ".spec.max"}"#,
    printcolumn = r#"{"name": "Current", "type": "integer", "jsonPath": ".status.currentCount"}"#,
    printcolumn = r#"{"name": "Enabled", "type": "boolean", "jsonPath": ".spec.enabled"}"#,
    printcolumn = r#"{"name": "Last-Action", "type": "date", "jsonPath": ".status.lastAction.at"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct ScalingPolicySpec {
    /// The object to scale.
    pub target: TargetSpec,
    /// The smallest size.
    #[serde(default)]
    pub min: i64,
    /// The largest size.
    pub max: i64,
    /// Whether the policy is evaluated.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Whether decisions are only recorded, and the target is not scaled.
    #[serde(default)]
    pub dry_run: bool,
    /// The longest time between two evaluations; 10s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation_interval: Option<Span>,
    /// The time after an action in which the target is not scaled; 5m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooldown: Option<Span>,
    /// The time after a scale-up in which the target is not scaled; `cooldown` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooldown_on_scale_up: Option<Span>,
    /// The effect of a check that fails or has no data.
    #[serde(default)]
    pub on_check_error: OnErrorSpec,
    /// When decisions are made; absent: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleSpec>,
    /// Queries of metric sources, each with a vote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckSpec>,
    /// Conditions that have to hold for a while, each with a vote; also as sentences, such as
    /// `if cpu <= 40 for 25m then scale in by 2`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rule::schema")]
    pub rules: Vec<RuleSpec>,
    /// The MetricSource of the rules' `cpu` and `memory`; absent: the one of the target's own system, such as `kubernetes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The query for the `requests` of rules, per second and container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_from: Option<QuerySpec>,
    /// How fast the size may change, as in HorizontalPodAutoscaler; absent: not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behavior: Option<BehaviorSpec>,
}

fn yes() -> bool {
    true
}

/// The effect of a check that fails or has no data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnErrorSpec {
    /// A vote for the present size: others may still scale out, never in.
    #[default]
    Hold,
    /// As if the check were not there.
    Ignore,
    /// The whole evaluation keeps the present size.
    Fail,
}

/// Recurring spans of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ScheduleSpec {
    /// When the schedule becomes active: five cron fields.
    pub start: String,
    /// When it becomes inactive: five cron fields. Either this or `duration`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// How long it lasts. Either this or `end`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// The time zone, such as `Europe/Berlin`; UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}

/// One query to one metric source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckSpec {
    /// The check's name in the policy.
    pub name: String,
    /// The votes of checks in one group are combined first.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The name of a configured source; without it, the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The query for the source; required except for `fixedValue`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub query: String,
    /// The time range of the query: a duration, or `instant` for the newest point alone; 1m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// How long before now the window ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_offset: Option<Span>,
    /// When the check is active; absent: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleSpec>,
    /// The effect when this check fails or has no data; `onCheckError` of the policy unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnErrorSpec>,
    /// How the size is computed from the metric: exactly one strategy.
    #[serde(default)]
    pub strategy: StrategySpec,
}

/// A query to a MetricSource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct QuerySpec {
    /// The name of the MetricSource.
    pub source: String,
    /// The query, in the language of the source.
    pub query: String,
}

/// The observed state of a ScalingPolicy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ScalingPolicyStatus {
    /// The newest action, from which cooldown counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_action: Option<LastActionStatus>,
    /// The size that the target was created with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_count: Option<i64>,
    /// Earlier decisions, oldest first, as far back as the longest window of `behavior`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<HistoryStatus>,
    /// The action before a pending one; it counts again if that one is not carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_action: Option<LastActionStatus>,
    /// The size of the target at the newest evaluation, or after its action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_count: Option<i64>,
    /// The size that the newest evaluation decided on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_count: Option<i64>,
    /// The newest change of the size by another client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_change_by_others: Option<LastActionStatus>,
    /// The generation of the policy at the newest evaluation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `AbleToScale`, `ScalingActive`, `ScalingLimited` as in HorizontalPodAutoscaler, and `TargetShared`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// An action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastActionStatus {
    /// When it was carried out.
    pub at: Time,
    /// The size before.
    pub from: i64,
    /// The size after.
    pub to: i64,
    /// `Pending` from before the target is scaled until the result is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ActionOutcome>,
}

/// The outcome of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ActionOutcome {
    /// It is not known yet whether the target was scaled.
    Pending,
    /// The target was scaled.
    Applied,
}

/// An earlier decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryStatus {
    /// When it was made.
    pub at: Time,
    /// The desired size, before rate limits and stabilization.
    pub wanted: i64,
    /// The size before.
    pub from: i64,
    /// The size after.
    pub to: i64,
}

/// ScalingPolicy, as engines and `evaluate` see it.
pub static KIND: Kind = Kind {
    group: super::GROUP,
    version: super::VERSION,
    kind: "ScalingPolicy",
    plural: "scalingpolicies",
    scope: Scope::Namespaced,
    crd: Some(ScalingPolicy::crd),
    prepare: |_, _| {},
    admit,
};

static FIELDS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut names = super::field_names(&ScalingPolicy::crd());
    names.extend(rule::FIELDS.map(str::to_owned));
    names
});

fn admit(value: &mut Value, _: &Admission<'_>) -> Result<(), Vec<Problem>> {
    rule::expand_sentences(value)?;
    let policy: ScalingPolicy = super::read(value, &FIELDS)?;
    policy.spec.decidable().map(drop)
}

impl ScalingPolicySpec {
    /// Converts the spec into `decide`'s input, or returns every problem of it.
    pub fn decidable(&self) -> Result<decide::checks::Policy, Vec<Problem>> {
        let mut checks = Checks::default();
        let mut names = BTreeSet::new();
        for (index, check) in self.checks.iter().enumerate() {
            let path = format!("spec.checks[{index}].name");
            checks.require(!check.name.is_empty(), &path, "must not be empty");
            let is_new = names.insert(check.name.as_str());
            checks.require(is_new, &path, format!("`{}` is the name of two checks", check.name));
        }
        let has_any = !self.checks.is_empty() || !self.rules.is_empty();
        checks.require(has_any, "spec.checks", "needs at least one check or rule");
        target::check(&mut checks, &self.target);
        convert::policy(self, checks)
    }

    /// Returns warnings about the spec.
    pub fn warnings(&self) -> Vec<Problem> {
        rule::warnings(&self.rules)
    }
}

#[cfg(test)]
mod tests;
