//! Limits on the rate of change, with the fields and defaults of HorizontalPodAutoscaler.

use decide::checks::{Behavior, Change, Scaling, Select, Step};
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::{Checks, Span};

/// How fast the size may change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct BehaviorSpec {
    /// Scale-out; absent: at once, by 4 or to twice the size in 15s, whichever is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScalingSpec>,
    /// Scale-in; absent: to the largest size that was desired within 5m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScalingSpec>,
}

/// How fast the size may change in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ScalingSpec {
    /// The answer is the one nearest to the present size of all that were given within this window; 0s up, 5m down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stabilization_window: Option<Span>,
    /// Changes of at most this share of the current size are not made.
    pub tolerance: f64,
    /// Which of the policies holds: the one with the largest change (Max), with the smallest (Min), or no change at all
    /// (Disabled).
    pub select_policy: SelectSpec,
    /// The largest steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<Vec<StepSpec>>,
}

/// Which of several steps holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectSpec {
    /// The one that allows the largest change.
    #[default]
    Max,
    /// The one that allows the smallest change.
    Min,
    /// None.
    Disabled,
}

/// How much may change within a period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepSpec {
    /// Whether `value` is a number of units or a share in percent.
    #[serde(rename = "type")]
    pub unit: UnitSpec,
    /// The amount of the change.
    pub value: i64,
    /// The period.
    pub period: Span,
}

/// The unit of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UnitSpec {
    /// Units.
    Pods,
    /// A share of the size at the beginning of the period.
    Percent,
}

pub(super) fn convert(checks: &mut Checks, spec: &BehaviorSpec) -> Behavior {
    let quarter_minute = SignedDuration::from_secs(15);
    let double = Step { change: Change::Percent(100), period: quarter_minute };
    let four = Step { change: Change::Units(4), period: quarter_minute };
    let free = ScalingSpec::default();
    let (up, down) =
        (spec.scale_up.as_ref().unwrap_or(&free), spec.scale_down.as_ref().unwrap_or(&free));
    Behavior {
        up: direction(checks, "spec.behavior.scaleUp", up, Span::minutes(0), vec![four, double]),
        down: direction(checks, "spec.behavior.scaleDown", down, Span::minutes(5), vec![double]),
    }
}

fn direction(
    checks: &mut Checks,
    path: &str,
    spec: &ScalingSpec,
    window: Span,
    steps: Vec<Step>,
) -> Scaling {
    let window = spec.stabilization_window.unwrap_or(window);
    checks.span(&format!("{path}.stabilizationWindow"), window);
    checks.require(spec.tolerance >= 0.0, &format!("{path}.tolerance"), "must not be negative");
    for (index, step) in spec.policies.iter().flatten().enumerate() {
        let at = |field| format!("{path}.policies[{index}].{field}");
        checks.require(step.value > 0, &at("value"), "must be at least 1");
        let is_long = step.period.0 > SignedDuration::ZERO;
        checks.require(is_long, &at("period"), "must be positive");
    }
    let convert = |step: &StepSpec| {
        let change = match step.unit {
            UnitSpec::Pods => Change::Units(step.value),
            UnitSpec::Percent => Change::Percent(step.value),
        };
        Step { change, period: step.period.0 }
    };
    Scaling {
        window: window.0,
        tolerance: spec.tolerance,
        select: match spec.select_policy {
            SelectSpec::Max => Select::Max,
            SelectSpec::Min => Select::Min,
            SelectSpec::Disabled => Select::Disabled,
        },
        steps: spec.policies.as_ref().map_or(steps, |own| own.iter().map(convert).collect()),
    }
}
