//! Converts a `scaling` block into a ScalingPolicy.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::Faults;
use super::block::{Attribute, Block, Scalar};
use super::number::Number;
use super::strategy;
use crate::duration;
use crate::plimsoll::Span;
use crate::plimsoll::scaling_policy::{
    Aws, CheckSpec, Named, Nomad, OnErrorSpec, ScalingPolicySpec, ScheduleSpec, TargetSpec,
};

/// The label that keeps a block's `type`.
const TYPE: &str = "plimsoll.dev/nomad-type";

/// Reads one `scaling` block; `None` where it cannot be read, with the reason among the faults.
pub(super) fn read(block: &Block, faults: &mut Faults) -> Option<Value> {
    let path = format!("scaling.{}", block.label);
    faults.known(block, &path, &["enabled", "type", "min", "max"]);
    let mut fields = Fields { block, path: path.clone(), faults };
    let wanted = fields.truth("enabled").unwrap_or(false);
    let kind = fields.text("type").filter(|kind| !kind.is_empty());
    let kind = kind.unwrap_or_else(|| "cluster".to_owned());
    let (min, max) = (fields.whole("min"), fields.whole("max"));
    if block.attribute("max").is_none() {
        faults.add(block.line, format!("{path}.max"), "required: the largest size");
    }
    let policy = only(block, "policy", &path, faults)?;
    // A policy of another type is read there and never run.
    let enabled = wanted && matches!(kind.as_str(), "cluster" | "horizontal");
    let spec = self::policy(policy, &path, wanted, faults);
    let spec = ScalingPolicySpec { min: min.unwrap_or(0), max: max?, enabled, ..spec? };
    if wanted {
        check_limits(&spec, block, &path, faults);
    }
    Some(json!({
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "ScalingPolicy",
        "metadata": {"name": block.label, "labels": {TYPE: kind}},
        "spec": spec,
    }))
}

fn check_limits(spec: &ScalingPolicySpec, block: &Block, path: &str, faults: &mut Faults) {
    let line = |name: &str| block.attribute(name).map_or(block.line, |a| a.line);
    for (name, value) in [("min", spec.min), ("max", spec.max)] {
        if value < 0 {
            faults.add(line(name), format!("{path}.{name}"), "must not be negative");
        }
    }
    if spec.min > spec.max {
        let message = format!("{} is more than max, which is {}", spec.min, spec.max);
        faults.add(line("min"), format!("{path}.min"), message);
    }
}

/// Finds the one block of a kind; none or several are faults.
fn only<'a>(block: &'a Block, kind: &'a str, path: &str, faults: &mut Faults) -> Option<&'a Block> {
    let mut all = block.blocks(kind);
    let Some(first) = all.next() else {
        faults.add(block.line, format!("{path}.{kind}"), format!("required: a `{kind}` block"));
        return None;
    };
    for other in all {
        faults.add(other.line, format!("{path}.{kind}"), "there may be only one such block");
    }
    Some(first)
}

fn policy(
    block: &Block,
    above: &str,
    is_checked: bool,
    faults: &mut Faults,
) -> Option<ScalingPolicySpec> {
    let path = format!("{above}.policy");
    let names = ["cooldown", "cooldown_on_scale_up", "evaluation_interval", "on_check_error"];
    faults.known(block, &path, &names);
    let mut fields = Fields { block, path: path.clone(), faults };
    let cooldown = fields.span("cooldown");
    let cooldown_on_scale_up = fields.span("cooldown_on_scale_up");
    let evaluation_interval = fields.span("evaluation_interval");
    let on_check_error = fields.on_error("on_check_error", is_checked).unwrap_or_default();
    let schedule = schedule(block, &path, is_checked, faults);
    let checks: Vec<CheckSpec> = block
        .blocks("check")
        .filter_map(|check| self::check(check, &path, is_checked, faults))
        .collect();
    if is_checked && block.blocks("check").next().is_none() {
        faults.add(block.line, format!("{path}.check"), "required: at least one `check` block");
    }
    let names: Vec<&str> = block.blocks("check").map(|check| check.label.as_str()).collect();
    for (index, check) in block.blocks("check").enumerate() {
        if names[..index].contains(&check.label.as_str()) {
            let path = format!("{path}.check.{}", check.label);
            faults.add(check.line, path, "is the name of two checks");
        }
    }
    let target_block = only(block, "target", &path, faults)?;
    if is_checked {
        check_pool_queries(block, target_block, &checks, &path, faults);
    }
    let (target, dry_run) = target(target_block, &path, faults);
    Some(ScalingPolicySpec {
        source: None,
        requests_from: None,
        target,
        min: 0,
        max: 0,
        enabled: true,
        dry_run,
        evaluation_interval,
        cooldown,
        cooldown_on_scale_up,
        on_check_error,
        schedule,
        checks,
        rules: Vec::new(),
        behavior: None,
    })
}

/// Of a pool of nodes, Nomad itself is asked in the short form alone: an operation and a metric.
fn check_pool_queries(
    policy: &Block,
    target: &Block,
    checks: &[CheckSpec],
    path: &str,
    faults: &mut Faults,
) {
    let pool = ["node_class", "datacenter", "node_pool"];
    if !target.attributes.iter().any(|a| pool.contains(&a.name.as_str())) {
        return;
    }
    for check in checks.iter().filter(|c| c.source.as_deref() == Some("nomad-apm")) {
        let is_short = check.query.contains('_') && !check.query.contains('/');
        let is_asked = check.strategy.fixed_value.is_none() && !check.query.is_empty();
        let block = policy.blocks("check").find(|block| block.label == check.name);
        if let (true, false, Some(block)) = (is_asked, is_short, block) {
            let line = block.attribute("query").map_or(block.line, |query| query.line);
            let path = format!("{path}.check.{}.query", check.name);
            let form = "an operation and a metric, such as `percentage-allocated_cpu`";
            faults.add(line, path, format!("the query for nodes must have the form {form}"));
        }
    }
}

fn check(block: &Block, above: &str, is_checked: bool, faults: &mut Faults) -> Option<CheckSpec> {
    let path = format!("{above}.check.{}", block.label);
    let names = ["group", "source", "query", "query_window", "query_window_offset", "on_error"];
    faults.known(block, &path, &names);
    let mut fields = Fields { block, path: path.clone(), faults };
    let group = fields.text("group").unwrap_or_default();
    let source = fields.text("source").filter(|source| !source.is_empty());
    let query = fields.text("query").unwrap_or_default();
    let window = fields.window("query_window");
    let window_offset = fields.span("query_window_offset");
    let on_error = fields.on_error("on_error", is_checked);
    let schedule = schedule(block, &path, is_checked, faults);
    let strategies: Vec<&Block> = block.blocks("strategy").collect();
    for other in strategies.iter().skip(1) {
        faults.add(other.line, format!("{path}.strategy"), "there may be only one such block");
    }
    let Some(chosen) = strategies.first() else {
        if is_checked {
            faults.add(block.line, format!("{path}.strategy"), "required: a `strategy` block");
        }
        return None;
    };
    let is_instant = window.as_deref() == Some("instant");
    let strategy = if is_checked {
        strategy::read(chosen, &path, is_instant, faults)?
    } else {
        Default::default()
    };
    if is_checked && strategy.fixed_value.is_none() && query.is_empty() {
        faults.add(block.line, format!("{path}.query"), "required: the query for the source");
    }
    Some(CheckSpec {
        name: block.label.clone(),
        group,
        source: Some(source.unwrap_or_else(|| "nomad-apm".to_owned())),
        query,
        window,
        window_offset,
        schedule,
        on_error,
        strategy,
    })
}

fn schedule(
    block: &Block,
    above: &str,
    is_checked: bool,
    faults: &mut Faults,
) -> Option<ScheduleSpec> {
    let path = format!("{above}.schedule");
    let mut all = block.blocks("schedule");
    let block = all.next()?;
    for other in all {
        faults.add(other.line, path.clone(), "there may be only one such block");
    }
    faults.known(block, &path, &["start", "end", "duration"]);
    if block.attribute("start").is_none() {
        faults.add(block.line, format!("{path}.start"), "required: when it begins");
    }
    let mut fields = Fields { block, path: path.clone(), faults };
    let start = fields.text("start").unwrap_or_default();
    let end = fields.text("end").filter(|end| !end.is_empty());
    let lasting = fields.text("duration").filter(|duration| !duration.is_empty());
    if !is_checked {
        return None;
    }
    for (name, cron) in [("start", Some(&start)), ("end", end.as_ref())] {
        if let Some(Err(message)) =
            cron.map(|text| decide::cron::Cron::parse(text, decide::cron::Dialect::Nomad))
        {
            fields.fault(name, message);
        }
    }
    let duration = lasting.as_deref().map(duration::parse);
    match &duration {
        Some(Err(message)) => fields.fault("duration", message.clone()),
        Some(Ok(lasting)) if *lasting <= SignedDuration::ZERO => {
            fields.fault("duration", "must be positive");
        }
        Some(Ok(_)) | None => {}
    }
    if end.is_some() == duration.is_some() {
        faults.add(block.line, path, "needs exactly one of end and duration");
    }
    let duration = duration.and_then(Result::ok).map(Span);
    Some(ScheduleSpec { start, end, duration, time_zone: None })
}

/// Returns the target, and whether its actions are only recorded.
fn target(block: &Block, above: &str, faults: &mut Faults) -> (TargetSpec, bool) {
    let mut config = BTreeMap::new();
    for attribute in &block.attributes {
        match attribute.value.text() {
            Some(text) => drop(config.insert(attribute.name.clone(), text)),
            None if attribute.value == Scalar::Null => {
                let path = format!("{above}.target.{}.{}", block.label, attribute.name);
                faults.add(attribute.line, path, "must not be null");
            }
            None => {
                let path = format!("{above}.target.{}.{}", block.label, attribute.name);
                faults.add(attribute.line, path, "expected a single value");
            }
        }
    }
    let is_dry = config.remove("dry-run").is_some_and(|dry| dry == "true");
    let mut spec = TargetSpec::default();
    let is_job = config.contains_key("Job") && config.contains_key("Group");
    match block.label.as_str() {
        "nomad-target" if is_job => {
            spec.nomad = Some(Nomad {
                job: config.remove("Job").unwrap_or_default(),
                group: config.remove("Group").unwrap_or_default(),
                namespace: config.remove("Namespace"),
                ..Nomad::default()
            });
        }
        "aws-asg" if config.contains_key("aws_asg_name") => {
            spec.aws_autoscaling_group = Some(Aws {
                name: config.remove("aws_asg_name").unwrap_or_default(),
                region: config.remove("aws_region"),
                config,
                ..Aws::default()
            });
        }
        name => spec.named = Some(Named { name: name.to_owned(), config }),
    }
    (spec, is_dry)
}

/// Reads the attributes of one block, and notes those that do not fit.
pub(super) struct Fields<'a> {
    pub(super) block: &'a Block,
    pub(super) path: String,
    pub(super) faults: &'a mut Faults,
}

impl Fields<'_> {
    pub(super) fn fault(&mut self, name: &str, message: impl Into<String>) {
        let line = self.block.attribute(name).map_or(self.block.line, |a| a.line);
        self.faults.add(line, format!("{}.{name}", self.path), message);
    }

    /// Reads an attribute with `convert`, whose error describes what was expected.
    pub(super) fn read<T>(
        &mut self,
        name: &str,
        convert: impl Fn(&Scalar) -> Result<T, String>,
    ) -> Option<T> {
        let Attribute { value, .. } = self.block.attribute(name)?;
        let converted = if *value == Scalar::Null {
            Err("must not be null".to_owned())
        } else {
            convert(value)
        };
        match converted {
            Ok(value) => Some(value),
            Err(message) => {
                self.fault(name, message);
                None
            }
        }
    }

    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        self.read(name, |value| value.text().ok_or_else(|| "expected text".to_owned()))
    }

    /// Reads a boolean, also one written as text, but not as a number.
    fn truth(&mut self, name: &str) -> Option<bool> {
        self.read(name, |value| match value {
            Scalar::Bool(is) => Ok(*is),
            Scalar::Text(text) if matches!(text.as_str(), "true" | "1") => Ok(true),
            Scalar::Text(text) if matches!(text.as_str(), "false" | "0") => Ok(false),
            Scalar::Text(_) | Scalar::Number(_) | Scalar::Null | Scalar::Other => {
                Err("expected true or false".to_owned())
            }
        })
    }

    /// Reads a whole number, also one written as text, however it is written: `20`, `20.0`, `2e1`.
    fn whole(&mut self, name: &str) -> Option<i64> {
        self.read(name, |value| {
            let number = match value {
                Scalar::Number(number) => Some(*number),
                Scalar::Text(text) => Number::parse(text),
                Scalar::Bool(_) | Scalar::Null | Scalar::Other => None,
            };
            let text = value.text().unwrap_or_default();
            let whole = number.and_then(Number::whole);
            whole.ok_or_else(|| format!("`{text}` is not a whole number of 64 bits"))
        })
    }

    /// Reads a duration; 0 means the default, as if it were not written.
    fn span(&mut self, name: &str) -> Option<Span> {
        let text = self.text(name).filter(|text| !text.is_empty())?;
        match duration::parse(&text) {
            Ok(span) if span.is_negative() => {
                self.fault(name, "must not be negative");
                None
            }
            Ok(span) => (!span.is_zero()).then_some(Span(span)),
            Err(message) => {
                self.fault(name, message);
                None
            }
        }
    }

    fn window(&mut self, name: &str) -> Option<String> {
        match self.text(name).as_deref() {
            Some("instant") => Some("instant".to_owned()),
            Some(_) => self.span(name).map(|span| duration::format(span.0)),
            None => None,
        }
    }

    fn on_error(&mut self, name: &str, is_checked: bool) -> Option<OnErrorSpec> {
        match self.text(name)?.as_str() {
            "ignore" => Some(OnErrorSpec::Ignore),
            "fail" => Some(OnErrorSpec::Fail),
            "" => None,
            other if is_checked => {
                self.fault(name, format!("`{other}` is not `fail` or `ignore`"));
                None
            }
            _ => None,
        }
    }
}
