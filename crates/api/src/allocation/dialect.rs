//! Allocations as the first design of counters and lists wrote them: `min`, `contains`, `append`, `increment`.

use serde_json::{Value, json};

use crate::agones::dialect::{Renames, entries};

/// Settles the selectors and actions of an allocation.
pub(super) fn allocation(value: &mut Value) -> Renames {
    let mut renames = Renames::default();
    let Some(spec) = value.get_mut("spec") else { return renames };
    for name in ["selectors", "preferred"] {
        let list = spec.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten();
        for (index, item) in list.enumerate() {
            selector(item, &format!("spec.{name}[{index}]"), &mut renames);
        }
    }
    if let Some(required) = spec.get_mut("required") {
        selector(required, "spec.required", &mut renames);
    }
    for (_, action) in entries(spec, "counters") {
        counter(action);
    }
    for (key, action) in entries(spec, "lists") {
        if let Some(map) = action.as_object_mut() {
            renames.rename(map, &format!("spec.lists.{key}"), "append", "addValues");
        }
    }
    renames
}

fn selector(selector: &mut Value, path: &str, renames: &mut Renames) {
    for (key, bounds) in entries(selector, "counters") {
        if bounds.is_null() {
            *bounds = json!({});
        }
        let Some(map) = bounds.as_object_mut() else { continue };
        let path = format!("{path}.counters.{key}");
        renames.rename(map, &path, "min", "minCount");
        renames.rename(map, &path, "max", "maxCount");
    }
    for (key, bounds) in entries(selector, "lists") {
        if bounds.is_null() {
            *bounds = json!({});
        }
        let Some(map) = bounds.as_object_mut() else { continue };
        renames.rename(map, &format!("{path}.lists.{key}"), "contains", "containsValue");
    }
}

/// Settles an action: in lower case it is the first design's, whose amount is 1 unless given.
fn counter(action: &mut Value) {
    let Some(map) = action.as_object_mut() else { return };
    let name = match map.get("action").and_then(Value::as_str) {
        Some("increment") => "Increment",
        Some("decrement") => "Decrement",
        _ => return,
    };
    map.insert("action".to_owned(), name.into());
    if map.get("amount").is_none_or(Value::is_null) {
        map.insert("amount".to_owned(), json!(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_of_the_first_design_become_agones_own() {
        let mut value = json!({"spec": {
            "selectors": [{"counters": {"a": {"min": 4, "max": 20, "minAvailable": 1}}, "lists": {"b": {"contains": "x"}}}],
            "counters": {"a": {"action": "increment"}, "c": {"action": "decrement", "amount": 3}, "d": {"action": "Increment"}},
            "lists": {"b": {"append": ["y"], "capacity": 40}},
        }});
        allocation(&mut value);
        assert_eq!(
            value,
            json!({"spec": {
                "selectors": [{"counters": {"a": {"minCount": 4, "maxCount": 20, "minAvailable": 1}}, "lists": {"b": {"containsValue": "x"}}}],
                "counters": {"a": {"action": "Increment", "amount": 1}, "c": {"action": "Decrement", "amount": 3}, "d": {"action": "Increment"}},
                "lists": {"b": {"addValues": ["y"], "capacity": 40}},
            }})
        );
    }
}
