//! Converts a `strategy` block. Its values are text, and are parsed as Nomad Autoscaler's strategies parse them.

use super::Faults;
use super::block::Block;
use super::policy::Fields;
use crate::plimsoll::scaling_policy::{
    FixedValueSpec, PassThroughSpec, StrategySpec, TargetValueSpec, ThresholdSpec,
};

/// Reads a strategy; `None` where there is none of that name.
pub(super) fn read(
    block: &Block,
    above: &str,
    is_instant: bool,
    faults: &mut Faults,
) -> Option<StrategySpec> {
    let path = format!("{above}.strategy.{}", block.label);
    let keys: &[&str] = match block.label.as_str() {
        "target-value" => &["target", "threshold", "max_scale_up", "max_scale_down"],
        "threshold" => {
            &["lower_bound", "upper_bound", "within_bounds_trigger", "delta", "percentage", "value"]
        }
        "pass-through" => &["max_scale_up", "max_scale_down"],
        "fixed-value" => &["value"],
        _ => {
            let known = "target-value, threshold, pass-through and fixed-value";
            faults.add(block.line, path, format!("is not a strategy; there are {known}"));
            return None;
        }
    };
    faults.known(block, &path, keys);
    let mut fields = Fields { block, path, faults };
    let mut strategy = StrategySpec::default();
    match block.label.as_str() {
        "target-value" => strategy.target_value = Some(target_value(&mut fields)?),
        "threshold" => strategy.threshold = Some(threshold(&mut fields, is_instant)),
        "pass-through" => {
            strategy.pass_through = Some(PassThroughSpec {
                max_scale_up: fields.step("max_scale_up"),
                max_scale_down: fields.step("max_scale_down"),
            });
        }
        _ => {
            fields.require("value", "the size");
            strategy.fixed_value = Some(FixedValueSpec { value: fields.integer("value")? });
        }
    }
    Some(strategy)
}

fn target_value(fields: &mut Fields<'_>) -> Option<TargetValueSpec> {
    fields.require("target", "the number to keep near");
    let threshold = fields.number("threshold");
    if threshold.is_some_and(|threshold| threshold < 0.0) {
        fields.fault("threshold", "must not be negative");
    }
    let (max_scale_up, max_scale_down) =
        (fields.step("max_scale_up"), fields.step("max_scale_down"));
    let target = fields.number("target")?;
    Some(TargetValueSpec { target, threshold, max_scale_up, max_scale_down })
}

fn threshold(fields: &mut Fields<'_>, is_instant: bool) -> ThresholdSpec {
    let spec = ThresholdSpec {
        lower_bound: fields.number("lower_bound"),
        upper_bound: fields.number("upper_bound"),
        within_bounds_trigger: fields.integer("within_bounds_trigger").map(|n| n.max(0) as u64),
        delta: fields.integer("delta"),
        percentage: fields.number("percentage"),
        value: fields.integer("value"),
    };
    let has = |name: &str| fields.has(name);
    let actions = ["delta", "percentage", "value"].into_iter().filter(|name| has(name)).count();
    let has_bound = has("lower_bound") || has("upper_bound");
    let (line, path) = (fields.block.line, fields.path.clone());
    if !has_bound {
        fields.faults.add(line, path.clone(), "needs lower_bound, upper_bound or both");
    }
    if actions != 1 {
        fields.faults.add(line, path, "needs exactly one of delta, percentage and value");
    }
    if spec.value.is_some_and(|value| value < 0) {
        fields.fault("value", "must not be negative");
    }
    if is_instant && spec.within_bounds_trigger != Some(1) {
        fields.fault("within_bounds_trigger", "must be 1, because an instant window has one point");
    }
    spec
}

impl Fields<'_> {
    /// Returns whether an attribute is set; to a strategy, empty text is as if it were not.
    fn has(&self, name: &str) -> bool {
        self.block.attribute(name).is_some_and(|attribute| !attribute.value.is_empty_text())
    }

    fn require(&mut self, name: &str, what: &str) {
        if !self.has(name) {
            self.fault(name, format!("required: {what}"));
        }
    }

    /// Reads a number from the text that it is to a strategy. One without end is as good as the largest there is.
    fn number(&mut self, name: &str) -> Option<f64> {
        if !self.has(name) {
            return None;
        }
        self.read(name, |value| {
            let text = value.text().unwrap_or_default();
            let number = text.parse().unwrap_or(f64::NAN);
            let word = text.trim_start_matches(['+', '-']).to_ascii_lowercase();
            let is_endless = matches!(word.as_str(), "inf" | "infinity");
            if number.is_finite() || (is_endless && !number.is_nan()) {
                return Ok(number.clamp(f64::MIN, f64::MAX));
            }
            Err(format!("`{text}` is not a number"))
        })
    }

    /// Reads a whole number from the text that it is to a strategy, which takes digits alone.
    fn integer(&mut self, name: &str) -> Option<i64> {
        if !self.has(name) {
            return None;
        }
        self.read(name, |value| {
            let text = value.text().unwrap_or_default();
            text.parse().map_err(|_| format!("`{text}` is not a whole number of 64 bits"))
        })
    }

    fn step(&mut self, name: &str) -> Option<i64> {
        let step = self.integer(name)?;
        if step < 0 {
            self.fault(name, "must not be negative");
        }
        Some(step)
    }
}
