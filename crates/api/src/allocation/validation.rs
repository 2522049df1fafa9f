//! Validation of allocations.

use serde_json::Value;

use super::{GameServerAllocationSpec, GameServerSelector};
use crate::agones::mixed;
use crate::{Problem, labels};

/// Collects what is wrong with an allocation. Selectors that are not used are checked all the same.
pub(super) fn problems(spec: &GameServerAllocationSpec) -> Vec<Problem> {
    let mut out = selector(&spec.required, "spec.required");
    for (index, preferred) in spec.preferred.iter().enumerate() {
        out.extend(selector(preferred, &format!("spec.preferred[{index}]")));
    }
    for (index, one) in spec.selectors.iter().enumerate() {
        out.extend(selector(one, &format!("spec.selectors[{index}]")));
    }
    for (index, priority) in spec.priorities.iter().enumerate() {
        if priority.key.is_empty() {
            out.push(Problem::new(format!("spec.priorities[{index}]"), "the key must be given"));
        }
    }
    let mixed = mixed(&spec.priorities, "spec.priorities").into_iter();
    out.extend(mixed.map(|p| Problem::new(p.path.trim_end_matches(".order"), p.message)));
    out.extend(actions(spec));
    out.extend(labels::labels(&spec.metadata.labels, "spec.metadata.labels"));
    out.extend(labels::annotations(&spec.metadata.annotations, "spec.metadata.annotations"));
    out
}

/// Finds the words in a spec that stand for none of the choices there are, and takes them out, so that the rest can be read
/// and checked, too. Upstream reports them at these places.
pub(super) fn unknown_words(spec: &mut Value) -> Vec<Problem> {
    let mut out = Vec::new();
    if let Some(word) = take_unknown(spec, "scheduling", &["Packed", "Distributed"]) {
        let choices = ["Packed", "Distributed"];
        out.push(Problem::not_supported("spec.scheduling", &word, &choices));
    }
    let mut state = |selector: &mut Value, path: String| {
        if let Some(word) = take_unknown(selector, "gameServerState", &["Allocated", "Ready"]) {
            let message = format!("expected Allocated or Ready, found {word:?}");
            out.push(Problem::new(format!("{path}.gameServerState"), message));
        }
    };
    if let Some(required) = spec.get_mut("required") {
        state(required, "spec.required".to_owned());
    }
    for list in ["preferred", "selectors"] {
        for (index, selector) in items(spec, list).enumerate() {
            state(selector, format!("spec.{list}[{index}]"));
        }
    }
    for (index, priority) in items(spec, "priorities").enumerate() {
        let path = format!("spec.priorities[{index}]");
        let types = ["Counter", "List", "count", "list"];
        let is_missing = priority.get("type").is_none();
        let word = take_unknown(priority, "type", &types);
        if is_missing || word.is_some() {
            let word = word.unwrap_or_default();
            out.push(Problem::new(
                &path,
                format!("the type must be Counter or List, not {word:?}"),
            ));
            if let Some(map) = priority.as_object_mut() {
                map.insert("type".to_owned(), "Counter".into());
            }
        }
        let orders = ["Ascending", "Descending", "ascending", "descending"];
        if let Some(word) = take_unknown(priority, "order", &orders) {
            let message = format!("the order must be Ascending or Descending, not {word:?}");
            out.push(Problem::new(path, message));
        }
    }
    out
}

fn items<'a>(spec: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> {
    spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Takes a text out of a map that is none of `choices`.
fn take_unknown(value: &mut Value, field: &str, choices: &[&str]) -> Option<String> {
    let map = value.as_object_mut()?;
    let word = map.get(field)?.as_str()?.to_owned();
    if choices.contains(&word.as_str()) {
        return None;
    }
    map.remove(field);
    Some(word)
}

fn selector(selector: &GameServerSelector, path: &str) -> Vec<Problem> {
    let at = format!("{path}.labelSelector");
    let fault = labels::selector(&selector.match_labels, &selector.match_expressions, &at);
    let mut out: Vec<_> = fault.into_iter().collect();
    for (key, c) in &selector.counters {
        let path = format!("{path}.counters[{key}]");
        out.extend(bounds(&path, ("minCount", c.min_count), ("maxCount", c.max_count)));
        let (least, most) = (c.min_available, c.max_available);
        out.extend(bounds(&path, ("minAvailable", least), ("maxAvailable", most)));
    }
    for (key, l) in &selector.lists {
        let path = format!("{path}.lists[{key}]");
        let (least, most) = (l.min_available, l.max_available);
        out.extend(bounds(&path, ("minAvailable", least), ("maxAvailable", most)));
    }
    out
}

/// Checks a lower and an upper bound, each with its field's name. An upper bound of 0 is none.
fn bounds(path: &str, (low, least): (&str, i64), (high, most): (&str, i64)) -> Vec<Problem> {
    let mut out = Vec::new();
    for (field, value) in [(low, least), (high, most)] {
        if value < 0 {
            let message = format!("expected at least 0, found {value}");
            out.push(Problem::new(format!("{path}.{field}"), message));
        }
    }
    if most != 0 && most < least {
        let message = format!("{high}: expected 0, or at least {low} ({least}), found {most}");
        out.push(Problem::new(path, message));
    }
    out
}

fn actions(spec: &GameServerAllocationSpec) -> Vec<Problem> {
    let mut out = Vec::new();
    let negative = |path: String, value: Option<i64>| {
        let value = value.filter(|v| *v < 0)?;
        Some(Problem::new(path, format!("expected at least 0, found {value}")))
    };
    for (key, action) in &spec.counters {
        let path = format!("spec.counters[{key}]");
        out.extend(negative(format!("{path}.amount"), action.amount));
        out.extend(negative(format!("{path}.capacity"), action.capacity));
        if action.action.is_some() != action.amount.is_some() {
            out.push(Problem::new(path, "expected action and amount together, found only one"));
        }
    }
    for (key, action) in &spec.lists {
        out.extend(negative(format!("spec.lists[{key}].capacity"), action.capacity));
    }
    out
}
