//! Converts a spec into the inputs of `decide`, and collects all problems.

use decide::checks::{
    Check, Cooldown, Ends, LastAction, Limits, OnError, PastDecision, Policy, Schedule, Strategy,
    Window,
};
use decide::cron::{Cron, Dialect};
use jiff::SignedDuration;
use jiff::tz::TimeZone;

use super::super::{Checks, Span};
use super::{
    CheckSpec, HistoryStatus, LastActionStatus, OnErrorSpec, ScalingPolicySpec, ScheduleSpec,
    behavior, rule, strategy,
};
use crate::{Problem, duration};

/// Returns the policy, or all problems.
pub(super) fn policy(spec: &ScalingPolicySpec, mut checks: Checks) -> Result<Policy, Vec<Problem>> {
    checks.require(spec.min >= 0, "spec.min", "must not be negative");
    checks.require(spec.max >= 0, "spec.max", "must not be negative");
    let in_order = spec.min <= spec.max;
    let message = format!("{} is more than max, which is {}", spec.min, spec.max);
    checks.require(in_order, "spec.min", message);
    let cooldown = spec.cooldown.unwrap_or(Span::minutes(5));
    let after_up = spec.cooldown_on_scale_up.unwrap_or(cooldown);
    checks.span("spec.cooldown", cooldown);
    checks.span("spec.cooldownOnScaleUp", spec.cooldown_on_scale_up.unwrap_or_default());
    checks.span("spec.evaluationInterval", spec.evaluation_interval.unwrap_or_default());
    let schedule = schedule(&mut checks, "spec.schedule", spec.schedule.as_ref());
    let mut all = Vec::new();
    for (index, check) in spec.checks.iter().enumerate() {
        let path = format!("spec.checks[{index}]");
        all.extend(convert_check(&mut checks, &path, check, spec.on_check_error));
    }
    let mut rules = Vec::new();
    for (index, rule) in spec.rules.iter().enumerate() {
        rules.extend(rule::convert(&mut checks, &format!("spec.rules[{index}]"), rule));
    }
    let behavior = spec.behavior.as_ref().map(|spec| behavior::convert(&mut checks, spec));
    checks.done()?;
    let limits = Limits::new(spec.min, spec.max)
        .ok_or_else(|| vec![Problem::new("spec.max", "is less than min")])?;
    Ok(Policy {
        enabled: spec.enabled,
        limits,
        schedule,
        cooldown: Cooldown { after_up: after_up.0, after_down: cooldown.0 },
        checks: all,
        rules,
        on_rule_error: on_error(spec.on_check_error),
        behavior,
    })
}

fn convert_check(
    checks: &mut Checks,
    path: &str,
    spec: &CheckSpec,
    on_check_error: OnErrorSpec,
) -> Option<Check> {
    let schedule = schedule(checks, &format!("{path}.schedule"), spec.schedule.as_ref());
    let offset = spec.window_offset.unwrap_or_default();
    checks.span(&format!("{path}.windowOffset"), offset);
    let length = window(checks, &format!("{path}.window"), spec.window.as_deref());
    let strategy = strategy::convert(checks, &format!("{path}.strategy"), &spec.strategy)?;
    let needs_query = strategy.needs_numbers();
    checks.require(
        !(needs_query && spec.query.is_empty()),
        &format!("{path}.query"),
        "required: the query for the source",
    );
    if let (None, Strategy::Threshold(threshold)) = (length, &strategy) {
        checks.require(
            threshold.trigger == 1,
            &format!("{path}.strategy.threshold.withinBoundsTrigger"),
            "must be 1, because an instant window has one point",
        );
    }
    Some(Check {
        group: spec.group.clone(),
        window: Window { length, offset: offset.0 },
        schedule,
        on_error: on_error(spec.on_error.unwrap_or(on_check_error)),
        strategy,
    })
}

/// Reads a window: a duration, or `instant` for none.
fn window(checks: &mut Checks, path: &str, text: Option<&str>) -> Option<SignedDuration> {
    match text.unwrap_or("1m") {
        "instant" => None,
        text => match duration::parse(text) {
            Ok(length) => {
                checks.span(path, Span(length));
                Some(length)
            }
            Err(message) => {
                checks.require(false, path, format!("{message}, or `instant`"));
                Some(SignedDuration::ZERO)
            }
        },
    }
}

/// Returns the schedule; notes what is wrong with it at `path`. One without any field is none.
fn schedule(checks: &mut Checks, path: &str, spec: Option<&ScheduleSpec>) -> Option<Schedule> {
    let spec = spec.filter(|spec| **spec != ScheduleSpec::default())?;
    let mut cron = |field: &str, text: &str| match Cron::parse(text, Dialect::Nomad) {
        Ok(cron) => Some(cron),
        Err(message) => {
            checks.require(false, &format!("{path}.{field}"), message);
            None
        }
    };
    let start = cron("start", &spec.start);
    let end = spec.end.as_deref().map(|end| cron("end", end));
    let zone = match spec.time_zone.as_deref() {
        None => Some(TimeZone::UTC),
        Some(name) => TimeZone::get(name).ok(),
    };
    let zone_path = format!("{path}.timeZone");
    checks.require(zone.is_some(), &zone_path, "is not a time zone such as `Europe/Berlin`");
    let ends = match (end, spec.duration) {
        (Some(end), None) => end.map(Ends::At),
        (None, Some(Span(lasting))) => {
            let is_long = lasting > SignedDuration::ZERO;
            checks.require(is_long, &format!("{path}.duration"), "must be positive");
            Some(Ends::After(lasting))
        }
        (Some(_), Some(_)) | (None, None) => {
            checks.require(false, path, "needs exactly one of end and duration");
            None
        }
    };
    Some(Schedule { start: start?, ends: ends?, zone: zone? })
}

fn on_error(spec: OnErrorSpec) -> OnError {
    match spec {
        OnErrorSpec::Hold => OnError::Hold,
        OnErrorSpec::Ignore => OnError::Ignore,
        OnErrorSpec::Fail => OnError::Fail,
    }
}

impl From<&LastActionStatus> for LastAction {
    fn from(status: &LastActionStatus) -> Self {
        Self { at: status.at.0, from: status.from, to: status.to }
    }
}

impl From<&HistoryStatus> for PastDecision {
    fn from(status: &HistoryStatus) -> Self {
        Self { at: status.at.0, wanted: status.wanted, from: status.from, to: status.to }
    }
}
