//! Replays a recorded decision: decides again from its inputs, at its time, and compares.

use std::collections::BTreeMap;

use api::Problem;
use api::plimsoll::Decision;
use cluster::decisions::{cut, redact};
use control::{Description, Unreadable};
use serde_json::{Map, Value, json};

use super::load;
use super::world::{Object, World};

/// Evaluates a recorded Decision again, and adds the differences from the recorded result.
pub(super) fn decide(object: &Object) -> Result<Option<Description>, Unreadable> {
    let recorded: Decision = object.read()?;
    let spec = &recorded.spec;
    let refuse = |path: &str, message: &str| object.unreadable(vec![Problem::new(path, message)]);
    if spec.truncated {
        let message = "cannot be replayed: its inputs were too large to be recorded";
        return Err(refuse("spec.truncated", message));
    }
    let inputs = load::inputs(&spec.inputs, spec.at.0, &object.origin);
    let inputs = inputs.map_err(|problems| object.unreadable(problems))?;
    let world = World::replay(inputs, spec);
    let namespace = spec.subject.namespace.as_deref().unwrap_or_default();
    let Some(subject) = world.find(&spec.subject.kind, namespace, &spec.subject.name) else {
        return Err(refuse("spec.inputs", "cannot be replayed: the subject is not among them"));
    };
    let decided = super::decide(subject, &world);
    let decided = decided.map_err(|input| refuse("spec.inputs", &input.to_string()))?;
    let Some(decided) = decided else {
        return Err(refuse("spec.inputs", "cannot be replayed: they do not lead to a decision"));
    };
    Ok(Some(compare(decided, &recorded)))
}

/// Adds how a decision differs from the recorded one.
fn compare(decided: Description, recorded: &Decision) -> Description {
    let spec = &recorded.spec;
    let differences = differences(&spec.decision, &decided.json);
    let at = json!(spec.at);
    let heading = format!("recorded {}, {:?}", at.as_str().unwrap_or_default(), spec.outcome);
    let lines: Vec<String> = differences.iter().map(|(f, d)| sentence(f, d)).collect();
    let lines = if lines.is_empty() {
        vec![format!("{heading}: the same decision")]
    } else {
        vec![format!("{heading}: {}", lines.join("; "))]
    };
    let summary = json!({
        "name": recorded.metadata.name, "at": at, "outcome": spec.outcome,
        "same": differences.is_empty(), "differences": differences,
    });
    lines.into_iter().fold(decided, Description::line).with("recorded", summary)
}

/// Returns the fields that differ, each with both values. Messages may improve between versions, and do not count.
fn differences(recorded: &Map<String, Value>, now: &Map<String, Value>) -> BTreeMap<String, Value> {
    let recorded = comparable(recorded);
    let now = comparable(now);
    let fields = recorded.keys().chain(now.keys());
    let differing = fields.filter(|field| recorded.get(*field) != now.get(*field));
    differing
        .map(|field| {
            (field.clone(), json!({"recorded": recorded.get(field), "now": now.get(field)}))
        })
        .collect()
}

fn comparable(decision: &Map<String, Value>) -> Map<String, Value> {
    let mut decision = Value::Object(cut(decision));
    redact(&mut decision);
    for reason in decision["reasons"].as_array_mut().into_iter().flatten() {
        *reason = reason["code"].take();
    }
    if let Some(error) = decision.get_mut("error") {
        *error = error["code"].take();
    }
    let lists = ["unschedulable", "unremovable"];
    for list in lists {
        decision.get_mut(list).into_iter().for_each(remove_messages);
    }
    decision.as_object_mut().map(std::mem::take).unwrap_or_default()
}

/// Removes the messages from the lists of a decision about nodes.
fn remove_messages(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("message");
            fields.values_mut().for_each(remove_messages);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_messages),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn sentence(field: &str, difference: &Value) -> String {
    let text = |value: &Value| match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items =
                items.iter().map(|i| i.as_str().map_or_else(|| i.to_string(), str::to_owned));
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    };
    format!("{field} was {}, now {}", text(&difference["recorded"]), text(&difference["now"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_do_not_count_and_other_fields_do() {
        let decision = |to: i32, message: &str, code: &str| {
            let value = json!({"to": to, "reasons": [{"code": code, "message": message}]});
            value.as_object().unwrap().clone()
        };
        let recorded = decision(5, "2 of 4 wanted spare", "BufferShort");
        let same = decision(5, "another message", "BufferShort");
        assert_eq!(differences(&recorded, &same), BTreeMap::new());
        let other = decision(6, "", "AtMinimum");
        let found = differences(&recorded, &other);
        assert_eq!(found["to"], json!({"recorded": 5, "now": 6}));
        assert_eq!(sentence("to", &found["to"]), "to was 5, now 6");
        let reasons = sentence("reasons", &found["reasons"]);
        assert_eq!(reasons, "reasons was [BufferShort], now [AtMinimum]");
    }
}
