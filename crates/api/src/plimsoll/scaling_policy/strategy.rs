//! Strategies: how the values of a check determine the size.

use decide::checks::strategy::{
    Bounds, FixedValue, PassThrough, Steps, Strategy, TargetValue, Threshold, To,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::Checks;

/// How the size follows from the numbers of a check: exactly one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct StrategySpec {
    /// Keeps the newest value near a target, assuming that every unit carries an equal share of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_value: Option<TargetValueSpec>,
    /// Changes the size when enough values are within bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<ThresholdSpec>,
    /// The newest value is the size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass_through: Option<PassThroughSpec>,
    /// A fixed size; with a schedule, a size by time of day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed_value: Option<FixedValueSpec>,
}

/// Keeps the newest number near a target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetValueSpec {
    /// The target value; with 0 the newest value itself is the factor.
    pub target: f64,
    /// The share of the target by which the number may be off without a vote; 0.01.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// The maximum increase in one step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_scale_up: Option<i64>,
    /// The maximum decrease in one step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_scale_down: Option<i64>,
}

/// Moves when enough numbers are within bounds: by `delta`, by `percentage`, or to `value`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ThresholdSpec {
    /// The lower bound, inclusive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower_bound: Option<f64>,
    /// The upper bound, exclusive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper_bound: Option<f64>,
    /// How many values must be within the bounds; 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>", range(min = 0))]
    pub within_bounds_trigger: Option<u64>,
    /// A change by this number of units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<i64>,
    /// A share of the present size more, or less, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage: Option<f64>,
    /// The size to set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<i64>,
}

/// The newest value is the size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct PassThroughSpec {
    /// The maximum increase in one step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_scale_up: Option<i64>,
    /// The maximum decrease in one step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_scale_down: Option<i64>,
}

/// Always the same size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FixedValueSpec {
    /// The size.
    pub value: i64,
}

/// Returns the strategy; notes what is wrong with it at `path`.
pub(super) fn convert(checks: &mut Checks, path: &str, spec: &StrategySpec) -> Option<Strategy> {
    let mut all = Vec::new();
    if let Some(target) = &spec.target_value {
        all.push(target_value(checks, &format!("{path}.targetValue"), target));
    }
    if let Some(bounds) = &spec.threshold {
        all.extend(threshold(checks, &format!("{path}.threshold"), bounds));
    }
    if let Some(pass) = &spec.pass_through {
        let path = format!("{path}.passThrough");
        let steps = steps(checks, &path, pass.max_scale_up, pass.max_scale_down);
        all.push(Strategy::PassThrough(PassThrough { steps }));
    }
    if let Some(fixed) = &spec.fixed_value {
        all.push(Strategy::FixedValue(FixedValue { value: fixed.value }));
    }
    let count = usize::from(spec.target_value.is_some())
        + usize::from(spec.threshold.is_some())
        + usize::from(spec.pass_through.is_some())
        + usize::from(spec.fixed_value.is_some());
    let choice = "targetValue, threshold, passThrough or fixedValue";
    checks.require(count > 0, path, format!("required: one of {choice}"));
    checks.require(count < 2, path, format!("has {count} strategies; it takes one of {choice}"));
    all.pop()
}

fn target_value(checks: &mut Checks, path: &str, spec: &TargetValueSpec) -> Strategy {
    let threshold = spec.threshold.unwrap_or(0.01);
    checks.require(threshold >= 0.0, &format!("{path}.threshold"), "must not be negative");
    let steps = steps(checks, path, spec.max_scale_up, spec.max_scale_down);
    Strategy::TargetValue(TargetValue { target: spec.target, threshold, steps })
}

fn steps(checks: &mut Checks, path: &str, max_up: Option<i64>, max_down: Option<i64>) -> Steps {
    for (field, step) in [("maxScaleUp", max_up), ("maxScaleDown", max_down)] {
        let is_sane = step.is_none_or(|step| step >= 0);
        checks.require(is_sane, &format!("{path}.{field}"), "must not be negative");
    }
    Steps { max_up, max_down }
}

fn threshold(checks: &mut Checks, path: &str, spec: &ThresholdSpec) -> Option<Strategy> {
    let has_bound = spec.lower_bound.is_some() || spec.upper_bound.is_some();
    checks.require(has_bound, path, "needs lowerBound, upperBound or both");
    let bounds = Bounds {
        lower: spec.lower_bound.unwrap_or(f64::NEG_INFINITY),
        upper: spec.upper_bound.unwrap_or(f64::INFINITY),
    };
    let not_negative = spec.value.is_none_or(|value| value >= 0);
    checks.require(not_negative, &format!("{path}.value"), "must not be negative");
    let to = match (spec.delta, spec.percentage, spec.value) {
        (Some(delta), None, None) => To::Delta(delta),
        (None, Some(percentage), None) => To::Percentage(percentage),
        (None, None, Some(value)) => To::Value(value),
        _ => {
            checks.require(false, path, "needs exactly one of delta, percentage and value");
            return None;
        }
    };
    let trigger = spec.within_bounds_trigger.unwrap_or(5);
    Some(Strategy::Threshold(Threshold { bounds, trigger, to }))
}
