//! Autoscalers by counters and lists as the first design wrote them: `type: Count`, `bufferCount`, `minLength`.

use serde_json::{Map, Value};

use crate::agones::dialect::Renames;

/// The old names of a capacity policy's fields, for counters and for lists, and the names they have now.
const FIELDS: [(&str, &str); 6] = [
    ("bufferCount", "bufferSize"),
    ("minCount", "minCapacity"),
    ("maxCount", "maxCapacity"),
    ("bufferLength", "bufferSize"),
    ("minLength", "minCapacity"),
    ("maxLength", "maxCapacity"),
];

/// Settles the policy of an autoscaler, and the policies inside it.
pub(super) fn autoscaler(value: &mut Value) -> Renames {
    let mut renames = Renames::default();
    if let Some(Value::Object(map)) = value.pointer_mut("/spec/policy") {
        policy(map, "spec.policy", &mut renames);
    }
    renames
}

fn policy(map: &mut Map<String, Value>, path: &str, renames: &mut Renames) {
    let block = match map.get("type").and_then(Value::as_str) {
        Some("Count") => {
            map.insert("type".to_owned(), "Counter".into());
            Some("counter")
        }
        Some("Counter") => Some("counter"),
        Some("List") => Some("list"),
        _ => None,
    };
    if let Some(block) = block {
        renames.rename(map, path, "count", block);
        if let Some(Value::Object(capacity)) = map.get_mut(block) {
            fields(capacity, &format!("{path}.{block}"), renames);
        }
    }
    if let Some(Value::Object(inner)) = map.get_mut("schedule").and_then(|s| s.get_mut("policy")) {
        policy(inner, &format!("{path}.schedule.policy"), renames);
    }
    if let Some(Value::Array(entries)) = map.get_mut("chain") {
        for (index, entry) in entries.iter_mut().enumerate() {
            if let Value::Object(entry) = entry {
                policy(entry, &format!("{path}.chain[{index}]"), renames);
            }
        }
    }
}

fn fields(map: &mut Map<String, Value>, path: &str, renames: &mut Renames) {
    if !FIELDS.iter().any(|(old, _)| map.contains_key(*old)) {
        return;
    }
    for (old, new) in FIELDS {
        renames.rename(map, path, old, new);
    }
    // In the first design the least capacity is the buffer, unless another is given.
    if map.get("minCapacity").is_none_or(Value::is_null)
        && let Some(size) = map.get("bufferSize").and_then(Value::as_i64)
    {
        map.insert("minCapacity".to_owned(), size.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn policies_of_the_first_design_become_agones_own() {
        let old = json!({"key": "a", "bufferCount": 5, "maxCount": 9});
        let long = json!({"key": "a", "bufferLength": "5%", "minLength": 2, "maxLength": 9});
        let new = json!({"key": "a", "bufferSize": 5, "minCapacity": 5, "maxCapacity": 9});
        let list = json!({"key": "a", "bufferSize": "5%", "minCapacity": 2, "maxCapacity": 9});
        let plain = json!({"key": "a", "bufferSize": 5, "maxCapacity": 9});
        for (written, converted) in [
            (json!({"type": "Count", "count": old}), json!({"type": "Counter", "counter": new})),
            (
                json!({"type": "Counter", "counter": old}),
                json!({"type": "Counter", "counter": new}),
            ),
            (json!({"type": "List", "count": long}), json!({"type": "List", "list": list})),
            (json!({"type": "List", "list": long}), json!({"type": "List", "list": list})),
            (json!({"type": "List", "list": plain}), json!({"type": "List", "list": plain})),
            (
                json!({"type": "Chain", "chain": [{"type": "Schedule", "schedule": {"policy": {"type": "Count", "count": old}}}]}),
                json!({"type": "Chain", "chain": [{"type": "Schedule", "schedule": {"policy": {"type": "Counter", "counter": new}}}]}),
            ),
        ] {
            let mut value = json!({"spec": {"policy": written}});
            autoscaler(&mut value);
            assert_eq!(value, json!({"spec": {"policy": converted}}));
        }
    }

    #[test]
    fn problems_name_the_fields_as_they_were_written() {
        let mut value = json!({"spec": {"policy": {"type": "Count", "count": {"bufferCount": 0}}}});
        let renames = autoscaler(&mut value);
        let at = |path: &str| {
            let problem = crate::Problem::new(path, "m");
            renames.put_back::<()>(Err(vec![problem])).unwrap_err()[0].path.clone()
        };
        assert_eq!(at("spec.policy.counter.bufferSize"), "spec.policy.count.bufferCount");
        assert_eq!(at("spec.policy.counter.key"), "spec.policy.count.key");
        assert_eq!(at("spec.policy.type"), "spec.policy.type");
    }
}
