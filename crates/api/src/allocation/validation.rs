//! What an allocation may not ask for.

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
            out.push(Problem::new(
                format!("spec.priorities[{index}].key"),
                "required, but missing",
            ));
        }
    }
    out.extend(mixed(&spec.priorities, "spec.priorities"));
    out.extend(actions(spec));
    out.extend(labels::labels(&spec.metadata.labels, "spec.metadata.labels"));
    out.extend(labels::annotations(&spec.metadata.annotations, "spec.metadata.annotations"));
    out
}

fn selector(selector: &GameServerSelector, path: &str) -> Vec<Problem> {
    let mut out = labels::selector(&selector.match_labels, &selector.match_expressions, path);
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
    if most > 0 && most < least {
        let message = format!("expected 0, or at least {low} ({least}), found {most}");
        out.push(Problem::new(format!("{path}.{high}"), message));
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
