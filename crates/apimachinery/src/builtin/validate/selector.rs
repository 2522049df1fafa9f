//! Validates label and node selectors.

use serde_json::Value;

use super::meta::{labels, violations};
use super::{Errors, names};
use crate::builtin::field::Path;
use crate::builtin::{items, text};

/// Validates a label selector.
pub(crate) fn label_selector(selector: &Value, path: &Path, errors: &mut Errors) {
    labels(&selector["matchLabels"], &path.child("matchLabels"), errors);
    let path = path.child("matchExpressions");
    for (index, expression) in items(selector, "matchExpressions").iter().enumerate() {
        requirement(expression, &["Lt", "Gt"], &path.index(index), errors);
    }
}

/// Validates one expression; `excluded` lists operators that are not allowed here.
fn requirement(expression: &Value, excluded: &[&str], path: &Path, errors: &mut Errors) {
    let values = items(expression, "values");
    let operator = text(expression, "operator");
    match operator {
        _ if excluded.contains(&operator) => {
            errors.push(
                path.child("operator").invalid_text(operator, "not a valid selector operator"),
            );
        }
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(path.child("values").required(detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(path.child("values").forbidden(detail));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(path.child("values").required(detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => errors
            .push(path.child("operator").invalid_text(operator, "not a valid selector operator")),
    }
    let key = text(expression, "key");
    violations(&path.child("key"), key, names::qualified(key), errors);
    if !excluded.is_empty() {
        for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
            violations(
                &path.child("values").index(index),
                value,
                names::label_value(value),
                errors,
            );
        }
    }
}

/// Validates a node selector.
pub(super) fn node_selector(selector: &Value, path: &Path, errors: &mut Errors) {
    let path = path.child("nodeSelectorTerms");
    let terms = items(selector, "nodeSelectorTerms");
    if terms.is_empty() {
        errors.push(path.required("must have at least one node selector term"));
    }
    for (index, term) in terms.iter().enumerate() {
        node_term(term, &path.index(index), errors);
    }
}

/// Validates one term of a node selector.
pub(super) fn node_term(term: &Value, path: &Path, errors: &mut Errors) {
    let path = path.child("matchExpressions");
    for (index, expression) in items(term, "matchExpressions").iter().enumerate() {
        requirement(expression, &[], &path.index(index), errors);
    }
}

/// Returns whether a selector has no requirements.
pub(super) fn is_empty(selector: &Value) -> bool {
    selector["matchLabels"].as_object().is_none_or(serde_json::Map::is_empty)
        && items(selector, "matchExpressions").is_empty()
}

/// Returns whether a selector matches these labels.
pub(super) fn matches(selector: &Value, labels: &Value) -> bool {
    let pairs = selector["matchLabels"].as_object();
    pairs.into_iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
        && items(selector, "matchExpressions").iter().all(|e| {
            let value = labels.get(text(e, "key"));
            let listed = value.is_some_and(|v| items(e, "values").contains(v));
            match text(e, "operator") {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}
