//! AutoScalePolicy: Rancher's fields, one threshold and one step for one service.

use std::sync::LazyLock;

use decide::checks::Limits;
use decide::rules::service::{Move, Threshold};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_core::CustomResourceExt;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Checks;
use super::scaling_policy::{LastActionStatus, TargetSpec};
use crate::{Admission, Kind, Problem, Scope};

/// One threshold and one step for one service
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "plimsoll.dev",
    version = "v1alpha1",
    kind = "AutoScalePolicy",
    plural = "autoscalepolicies",
    namespaced,
    shortname = "asp",
    status = "AutoScalePolicyStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Service", "type": "string", "jsonPath": ".spec.serviceId"}"#,
    printcolumn = r#"{"name": "Metric", "type": "string", "jsonPath": ".spec.metric"}"#,
    printcolumn = r#"{"name": "Threshold", "type": "integer", "jsonPath": ".spec.threshold"}"#,
    printcolumn = r#"{"name": "Action", "type": "string", "jsonPath": ".spec.action"}"#,
    printcolumn = r#"{"name": "Amount", "type": "integer", "jsonPath": ".spec.amount"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct AutoScalePolicySpec {
    /// The service to scale.
    pub service_id: String,
    /// The metric.
    pub metric: ServiceMetric,
    /// In percent: the policy fires above it when it scales up, and below it when it scales down.
    pub threshold: i64,
    /// The smallest size; at least 1.
    pub min: i64,
    /// The largest size.
    pub max: i64,
    /// The direction.
    pub action: ServiceAction,
    /// How many containers to add or remove.
    pub amount: i64,
    /// The address that carries the action out; filled in for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// How many seconds the policy is quiet after an action; 180 for up, 300 for down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet_period: Option<i64>,
    /// When the action was last carried out, in seconds since 1970; 0 is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_executed: Option<i64>,
    /// Whether usage is compared with the container's limit or its request.
    #[serde(default)]
    pub relative_to: RelativeTo,
    /// Whether a step beyond min or max is refused instead of cut.
    #[serde(default)]
    pub strict: bool,
    /// The target; absent: the service of Rancher, if there is a MetricSource for it, else of the container engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetSpec>,
    /// The MetricSource that measures; absent: the one of the target's own system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// The observed state of an AutoScalePolicy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct AutoScalePolicyStatus {
    /// When the action was last carried out, in seconds since 1970. Before the first time the one of the spec counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_executed: Option<i64>,
    /// The newest action of this policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_action: Option<LastActionStatus>,
    /// The action before a pending one; it counts again if that one is not carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_action: Option<LastActionStatus>,
    /// The size of the service at the newest evaluation, or after its action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_count: Option<i64>,
    /// The generation of the policy at the newest evaluation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `AbleToScale`, `ScalingActive`, `ScalingLimited` and `TargetShared`, as of a ScalingPolicy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl AutoScalePolicy {
    /// Returns what `decide` reads, with the last execution that the status knows; everything that is wrong with the spec otherwise.
    pub fn decidable(&self) -> Result<Threshold, Vec<Problem>> {
        let mut threshold = self.spec.decidable()?;
        let executed = self.status.as_ref().and_then(|status| status.last_executed);
        if let Some(at) = executed.and_then(|seconds| Timestamp::from_second(seconds).ok()) {
            threshold.last_executed_at = Some(at);
        }
        Ok(threshold)
    }
}

/// A metric of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceMetric {
    /// Percent of CPU.
    #[serde(rename = "CPUUtilizationPercent")]
    Cpu,
    /// Percent of memory.
    #[serde(rename = "MemoryUtilization", alias = "MemoryUtilizationPercent")]
    Memory,
}

impl ServiceMetric {
    /// Names it as Rancher does.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPUUtilizationPercent",
            Self::Memory => "MemoryUtilization",
        }
    }
}

/// Which way a policy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServiceAction {
    /// More.
    Up,
    /// Fewer.
    Down,
}

/// The quantity that usage is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RelativeTo {
    /// The most that a container may use.
    #[default]
    Limit,
    /// The request of the container.
    Request,
}

/// AutoScalePolicy, as engines and `evaluate` see it.
pub static KIND: Kind = Kind {
    group: super::GROUP,
    version: super::VERSION,
    kind: "AutoScalePolicy",
    plural: "autoscalepolicies",
    scope: Scope::Namespaced,
    crd: Some(AutoScalePolicy::crd),
    prepare: |_, _| {},
    admit,
};

static FIELDS: LazyLock<Vec<String>> =
    LazyLock::new(|| super::field_names(&AutoScalePolicy::crd()));

fn admit(value: &mut Value, _: &Admission<'_>) -> Result<(), Vec<Problem>> {
    let policy: AutoScalePolicy = super::read(value, &FIELDS)?;
    policy.spec.decidable().map(drop)
}

impl AutoScalePolicySpec {
    /// Converts the spec into `decide`'s input, or returns every problem of it.
    pub fn decidable(&self) -> Result<Threshold, Vec<Problem>> {
        let mut checks = Checks::default();
        let quiet = self.quiet_period.unwrap_or(0);
        checks.require(!self.service_id.is_empty(), "spec.serviceId", "must not be empty");
        checks.require(self.amount > 0, "spec.amount", "must be at least 1");
        checks.require(self.min >= 1, "spec.min", "must be at least 1");
        checks.require(self.max >= 1, "spec.max", "must be at least 1");
        let message = format!("{} is more than max, which is {}", self.min, self.max);
        checks.require(self.min <= self.max, "spec.min", message);
        checks.require(quiet >= 0, "spec.quietPeriod", "must not be negative");
        let last = self.last_executed.filter(|seconds| *seconds != 0);
        let last_executed_at = last.and_then(|seconds| Timestamp::from_second(seconds).ok());
        let is_moment = last.is_some() == last_executed_at.is_some();
        checks.require(is_moment, "spec.lastExecuted", "is not a moment in seconds since 1970");
        checks.done()?;
        let limits = Limits::new(self.min, self.max)
            .ok_or_else(|| vec![Problem::new("spec.max", "is less than min")])?;
        let (action, usual_quiet) = match self.action {
            ServiceAction::Up => (Move::Up(self.amount), 180),
            ServiceAction::Down => (Move::Down(self.amount), 300),
        };
        Ok(Threshold {
            threshold: self.threshold as f64,
            limits,
            action,
            quiet_for: SignedDuration::from_secs(if quiet > 0 { quiet } else { usual_quiet }),
            last_executed_at,
            is_strict: self.strict,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn admitted(changes: Value) -> Result<AutoScalePolicySpec, Vec<String>> {
        let mut value = json!({"metadata": {"name": "up"}, "spec": {
            "serviceId": "1s5", "metric": "CPUUtilizationPercent", "threshold": 80,
            "min": 1, "max": 10, "action": "up", "amount": 1,
        }});
        for (key, change) in changes.as_object().unwrap() {
            value["spec"][key] = change.clone();
        }
        value["spec"].as_object_mut().unwrap().retain(|_, v| !v.is_null());
        admit(&mut value, &Admission { old: None, now: Timestamp::UNIX_EPOCH })
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        Ok(serde_json::from_value(value["spec"].take()).unwrap())
    }

    #[test]
    fn a_mistake_is_refused_by_its_field() {
        for (changes, wanted) in [
            (json!({"min": 5, "max": 2}), "spec.min: 5 is more than max, which is 2"),
            (json!({"min": 0}), "spec.min: must be at least 1"),
            (json!({"action": "sideways"}), "spec.action: unknown variant `sideways`"),
            (json!({"amount": 0}), "spec.amount: must be at least 1"),
            (json!({"amount": 1.5}), "spec.amount: invalid type"),
            (json!({"metric": "Load"}), "spec.metric: unknown variant `Load`"),
            (json!({"serviceId": ""}), "spec.serviceId: must not be empty"),
            (
                json!({"serviceID": "1s5"}),
                "spec.serviceID: unknown field, did you mean `serviceId`?",
            ),
            (json!({"threshold": null}), "spec: missing field `threshold`"),
            (json!({"quietPeriod": -1}), "spec.quietPeriod: must not be negative"),
            (json!({"lastExecuted": i64::MAX}), "spec.lastExecuted: is not a moment"),
        ] {
            let found = admitted(changes.clone()).unwrap_err();
            assert!(found[0].starts_with(wanted), "{changes}: {found:?}");
        }
    }

    #[test]
    fn the_quiet_period_has_a_default_for_each_way() {
        for (changes, seconds) in [
            (json!({}), 180),
            (json!({"action": "down"}), 300),
            (json!({"quietPeriod": 0}), 180),
            (json!({"quietPeriod": 45}), 45),
        ] {
            let policy = admitted(changes).unwrap().decidable().unwrap();
            assert_eq!(policy.quiet_for.as_secs(), seconds);
        }
    }

    #[test]
    fn a_fixed_size_and_the_longer_name_are_fine() {
        let spec =
            admitted(json!({"min": 3, "max": 3, "metric": "MemoryUtilizationPercent"})).unwrap();
        assert_eq!(spec.metric.name(), "MemoryUtilization");
    }
}
