//! Rules, as fields and as sentences.

use decide::rules::{Action, Metric, Operation, Rule};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::{Checks, Span};
use crate::{Problem, duration};

/// A condition that has to hold for a while, and what follows from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleSpec {
    /// The name of the rule in votes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The metric.
    pub metric: RuleMetric,
    /// How it is compared: `<=`, `>=`, `=` (of whole numbers), `<` or `>`.
    pub operation: String,
    /// With what.
    pub value: f64,
    /// How long the condition has to hold.
    #[serde(rename = "for")]
    pub span: Span,
    /// The action when the condition holds.
    pub action: RuleAction,
    /// By how many; `Default` needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
}

/// A metric of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RuleMetric {
    /// Percent of CPU.
    Cpu,
    /// Percent of memory.
    Memory,
    /// Requests per second and container.
    Requests,
}

impl RuleMetric {
    /// Names it as in a rule.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Requests => "requests",
        }
    }
}

/// The action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RuleAction {
    /// So many more.
    ScaleOut,
    /// So many fewer.
    ScaleIn,
    /// The size that the target was created with.
    Default,
}

/// Either form is accepted, which a structural schema can only say by leaving the type open.
pub(super) fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": true}})
}

/// The fields of a rule, which the open schema does not list.
pub(super) const FIELDS: [&str; 7] =
    ["name", "metric", "operation", "value", "for", "action", "count"];

/// Converts every rule that is written as a sentence into fields.
pub(super) fn expand_sentences(value: &mut Value) -> Result<(), Vec<Problem>> {
    let Some(rules) = value.pointer_mut("/spec/rules").and_then(Value::as_array_mut) else {
        return Ok(());
    };
    let mut problems = Vec::new();
    for (index, rule) in rules.iter_mut().enumerate() {
        let Some(text) = rule.as_str() else { continue };
        match sentence(text) {
            Ok(fields) => *rule = fields,
            Err(message) => problems.push(Problem::new(format!("spec.rules[{index}]"), message)),
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Reads `if METRIC OPERATION VALUE for TIME then ACTION`.
fn sentence(text: &str) -> Result<Value, String> {
    const FORM: &str = "write it like `if cpu >= 60 for 10m then scale out by 1`";
    let wrong = |what: String| format!("`{text}`: {what}; {FORM}");
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower.split_whitespace().collect();
    let ["if", metric, operation, number, "for", time, "then", action @ ..] = words.as_slice()
    else {
        return Err(wrong("not a rule".to_owned()));
    };
    let metric = match *metric {
        "cpu" | "memory" | "requests" => *metric,
        other => return Err(wrong(format!("`{other}` is not cpu, memory or requests"))),
    };
    self::operation(operation).map_err(wrong)?;
    let number = number.trim_end_matches('%');
    let value: f64 = number
        .parse()
        .ok()
        .filter(|value: &f64| value.is_finite())
        .ok_or_else(|| wrong(format!("`{number}` is not a number")))?;
    duration::parse(time).map_err(wrong)?;
    let mut rule = json!({"metric": metric, "operation": operation, "value": value, "for": time});
    let (action, count) = match action {
        ["scale", "out", "by", count] => ("ScaleOut", Some(*count)),
        ["scale", "in", "by", count] => ("ScaleIn", Some(*count)),
        ["default"] => ("Default", None),
        ["default", count] | ["default", "by", count] => ("Default", Some(*count)),
        _ => {
            return Err(wrong(
                "the action is `scale out by N`, `scale in by N` or `default`".to_owned(),
            ));
        }
    };
    rule["action"] = action.into();
    if let Some(count) = count {
        let count: i64 = count.parse().map_err(|_| wrong(format!("`{count}` is not a count")))?;
        rule["count"] = count.into();
    }
    Ok(rule)
}

fn operation(text: &str) -> Result<Operation, String> {
    Ok(match text {
        "<=" => Operation::AtMost,
        ">=" => Operation::AtLeast,
        "=" => Operation::Equal,
        "<" => Operation::Below,
        ">" => Operation::Above,
        other => return Err(format!("`{other}` is not one of <=, >=, =, < and >")),
    })
}

/// Returns the rule; notes what is wrong with it at `path`.
pub(super) fn convert(checks: &mut Checks, path: &str, spec: &RuleSpec) -> Option<Rule> {
    let operation = operation(&spec.operation);
    let message = operation.as_ref().err().cloned().unwrap_or_default();
    checks.require(operation.is_ok(), &format!("{path}.operation"), message);
    let is_long = spec.span.0 > jiff::SignedDuration::ZERO;
    checks.require(is_long, &format!("{path}.for"), "must be positive");
    let count = spec.count.unwrap_or(0);
    let needs_count = spec.action != RuleAction::Default;
    checks.require(
        !needs_count || count > 0,
        &format!("{path}.count"),
        "required, and at least 1: how many to add or remove",
    );
    let action = match spec.action {
        RuleAction::ScaleOut => Action::ScaleOut(count),
        RuleAction::ScaleIn => Action::ScaleIn(count),
        RuleAction::Default => Action::Default,
    };
    let metric = match spec.metric {
        RuleMetric::Cpu => Metric::Cpu,
        RuleMetric::Memory => Metric::Memory,
        RuleMetric::Requests => Metric::Requests,
    };
    let operation = operation.ok()?;
    Some(Rule { metric, operation, value: spec.value, span: spec.span.0, action })
}

/// Scaling in faster than out removes capacity that is needed again shortly afterwards.
pub(super) fn warnings(rules: &[RuleSpec]) -> Vec<Problem> {
    let mut found = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let outs = rules.iter().filter(|r| r.action == RuleAction::ScaleOut);
        let mut about_same = outs.filter(|r| r.metric == rule.metric);
        if rule.action == RuleAction::ScaleIn && about_same.any(|out| out.span > rule.span) {
            found.push(Problem::new(
                format!("spec.rules[{index}].for"),
                "scales in after a shorter time than another rule scales out",
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_become_fields() {
        for (text, wanted) in [
            (
                "if cpu >= 60 for 10m then scale out by 1",
                json!({"metric": "cpu", "operation": ">=", "value": 60.0, "for": "10m", "action": "ScaleOut", "count": 1}),
            ),
            (
                "If Memory < 12.5%  for 1h30m THEN Scale In by 2",
                json!({"metric": "memory", "operation": "<", "value": 12.5, "for": "1h30m", "action": "ScaleIn", "count": 2}),
            ),
            (
                "if requests = 0 for 5m then default",
                json!({"metric": "requests", "operation": "=", "value": 0.0, "for": "5m", "action": "Default"}),
            ),
            (
                "if cpu <= 5 for 5m then default 3",
                json!({"metric": "cpu", "operation": "<=", "value": 5.0, "for": "5m", "action": "Default", "count": 3}),
            ),
        ] {
            assert_eq!(sentence(text).unwrap(), wanted, "{text}");
        }
    }

    #[test]
    fn invalid_rules_are_rejected_with_the_invalid_word() {
        for (text, wanted) in [
            ("", "not a rule"),
            ("if cpu > 5 then scale out by 1", "not a rule"),
            ("if load > 5 for 5m then scale out by 1", "`load` is not cpu"),
            ("if cpu == 5 for 5m then scale out by 1", "`==` is not one of"),
            ("if cpu > lots for 5m then scale out by 1", "`lots` is not a number"),
            ("if cpu > nan for 5m then scale out by 1", "`nan` is not a number"),
            ("if cpu > 5 for 5 then scale out by 1", "`5` is not a duration"),
            ("if cpu > 5 for 5m then scale up by 1", "the action is"),
            ("if cpu > 5 for 5m then scale out by one", "`one` is not a count"),
        ] {
            let message = sentence(text).unwrap_err();
            assert!(message.contains(wanted), "{text}: {message}");
        }
    }
}
