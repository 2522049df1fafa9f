//! ScalingPolicy: how many units a target should have, by checks and rules.

mod behavior;
mod convert;
mod rule;
mod strategy;
mod target;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
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
pub use target::{Aws, Docker, Named, NodeGroupName, Nomad, TargetSpec, Webhook};

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
    printcolumn = r#"{"name": "Enabled", "type": "boolean", "jsonPath": ".spec.enabled"}"#,
    printcolumn = r#"{"name": "Last-Action", "type": "date", "jsonPath": ".status.lastAction.at"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct ScalingPolicySpec {
    /// What is scaled.
    pub target: TargetSpec,
    /// The smallest size.
    #[serde(default)]
    pub min: i64,
    /// The largest size.
    pub max: i64,
    /// Whether anything is decided at all.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Whether decisions are only recorded, and nothing is moved.
    #[serde(default)]
    pub dry_run: bool,
    /// The longest time between two looks; 10s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation_interval: Option<Span>,
    /// How long nothing moves after an action; 5m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooldown: Option<Span>,
    /// How long nothing moves after a scale-up; as long as after any other action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooldown_on_scale_up: Option<Span>,
    /// What it means when a check fails or has no data.
    #[serde(default)]
    pub on_check_error: OnErrorSpec,
    /// When decisions are made; absent: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleSpec>,
    /// Questions to sources of numbers, each with a vote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckSpec>,
    /// Conditions that have to hold for a while, each with a vote; also as sentences, such as
    /// `if cpu <= 40 for 25m then scale in by 2`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rule::schema")]
    pub rules: Vec<RuleSpec>,
    /// How fast the size may change, as in HorizontalPodAutoscaler; absent: as fast as it likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behavior: Option<BehaviorSpec>,
}

fn yes() -> bool {
    true
}

/// What it means when a check fails or has no data.
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

/// Spans of time that begin again and again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ScheduleSpec {
    /// When a span begins: five cron fields.
    pub start: String,
    /// When it ends: five cron fields. Either this or `duration`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// How long it lasts. Either this or `end`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// Whose clock it goes by: a name such as `Europe/Berlin`; UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}

/// One question to one source of numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckSpec {
    /// The check's name in the policy.
    pub name: String,
    /// Checks of one group settle among themselves first.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The name of a configured source; without it, the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What the source is asked; only `fixedValue` needs none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub query: String,
    /// How much of the past is looked at: a duration, or `instant` for the newest point alone; 1m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// How long before now the window ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_offset: Option<Span>,
    /// When the check takes part; absent: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleSpec>,
    /// What it means when this check fails or has no data; as the policy says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnErrorSpec>,
    /// What the numbers mean for the size: exactly one.
    #[serde(default)]
    pub strategy: StrategySpec,
}

/// What earlier decisions left behind.
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
}

/// An action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastActionStatus {
    /// When it was done.
    pub at: Time,
    /// The size before.
    pub from: i64,
    /// The size after.
    pub to: i64,
}

/// An earlier decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryStatus {
    /// When it was made.
    pub at: Time,
    /// The size that was wanted, before it was held back.
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
    rule::settle(value)?;
    let policy: ScalingPolicy = super::read(value, &FIELDS)?;
    policy.spec.decidable().map(drop)
}

impl ScalingPolicySpec {
    /// Gives what `decide` reads; everything that is wrong with the spec otherwise.
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
        checks.require(has_any, "spec.checks", "needs a check or a rule to decide by");
        target::check(&mut checks, &self.target);
        convert::policy(self, checks)
    }

    /// Gives what is odd about the spec, though not wrong.
    pub fn warnings(&self) -> Vec<Problem> {
        rule::warnings(&self.rules)
    }
}

#[cfg(test)]
mod tests;
