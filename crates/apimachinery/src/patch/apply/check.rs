//! Validates an applied configuration against its kind's types.

use crate::fields::element;
use crate::schema::{ListType, Shape, ValueType};
use serde_json::Value;
use std::collections::BTreeSet;

/// The most problems that are collected.
const MOST_PROBLEMS: usize = 100;

/// Validates a whole configuration against its shape; the error lists all problems.
pub(super) fn typed(applied: &Value, shape: Option<Shape<'_>>) -> Result<(), String> {
    let mut problems = Vec::new();
    visit(applied, shape, &mut String::new(), &mut problems);
    match problems.len() {
        0 => Ok(()),
        1 => Err(problems.remove(0)),
        _ => Err(format!("errors:\n  {}", problems.join("\n  "))),
    }
}

fn visit(value: &Value, shape: Option<Shape<'_>>, path: &mut String, problems: &mut Vec<String>) {
    let Some(shape) = shape.filter(|_| problems.len() < MOST_PROBLEMS) else { return };
    let mut refuse = |wanted: &str| {
        let found = crate::patch::go_value(value);
        problems.push(prefixed(path, &format!("expected {wanted}, got &{{{found}}}")));
    };
    match (shape.value_type(), value) {
        (ValueType::Any, _) | (_, Value::Null) => {}
        (ValueType::Object, Value::Object(members)) => {
            for (name, member) in members {
                let length = path.len();
                path.push('.');
                path.push_str(name);
                match shape.entry(name) {
                    Some(below) => visit(member, Some(below), path, problems),
                    None if shape.has_fields() && !shape.preserves_unknown() => {
                        problems.push(prefixed(path, "field not declared in schema"));
                    }
                    None => {}
                }
                path.truncate(length);
            }
        }
        (ValueType::List, Value::Array(items)) => visit_items(items, shape, path, problems),
        (ValueType::Object, _) => refuse("map"),
        (ValueType::List, _) => refuse("list"),
        (ValueType::String, Value::String(_)) | (ValueType::Boolean, Value::Bool(_)) => {}
        (ValueType::Integer | ValueType::Number, Value::Number(_)) => {}
        (ValueType::Quantity | ValueType::IntOrString, Value::String(_) | Value::Number(_)) => {}
        (ValueType::String, _) => {
            let found = crate::patch::go_value(value);
            problems.push(prefixed(
                path,
                &format!("expected string, got &value.valueUnstructured{{Value:{found}}}"),
            ));
        }
        (ValueType::Integer | ValueType::Number, _) => {
            let found = crate::patch::go_type(value);
            problems.push(prefixed(path, &format!("expected numeric (int or float), got {found}")));
        }
        (ValueType::Boolean, _) => refuse("boolean"),
        (ValueType::Quantity | ValueType::IntOrString, _) => refuse("any scalar"),
    }
}

fn visit_items(items: &[Value], list: Shape<'_>, path: &mut String, problems: &mut Vec<String>) {
    let mut found = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let length = path.len();
        if list.list_type() == ListType::Atomic {
            path.push_str(&format!("[{index}]"));
        } else {
            let element = match element::item(list, item) {
                Ok(element) => element,
                Err(why) => {
                    problems.push(prefixed(path, &format!("element {index}: {why}")));
                    return;
                }
            };
            let shown = element::display_element(&element);
            if !found.insert(element) {
                problems.push(prefixed(path, &format!("duplicate entries for key {shown}")));
            }
            path.push_str(&shown);
        }
        visit(item, list.items(), path, problems);
        path.truncate(length);
    }
}

fn prefixed(path: &str, problem: &str) -> String {
    if path.is_empty() { problem.to_owned() } else { format!("{path}: {problem}") }
}

/// Formats a configuration's name as kube-apiserver's errors do.
pub(super) fn name(applied: &Value) -> String {
    let text = |name: &str| applied["metadata"][name].as_str().unwrap_or_default();
    format!("{}/{}; {}", text("namespace"), text("name"), kind(applied))
}

/// Formats a configuration's kind as kube-apiserver's errors do.
pub(super) fn kind(applied: &Value) -> String {
    let (group, version) = match applied["apiVersion"].as_str().unwrap_or_default() {
        "" => ("", ""),
        text => text.split_once('/').unwrap_or(("", text)),
    };
    format!("{group}/{version}, Kind={}", applied["kind"].as_str().unwrap_or_default())
}
