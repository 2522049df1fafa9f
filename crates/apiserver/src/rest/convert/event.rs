//! Converts events of events.k8s.io, which are stored as core events: some fields have other names there.

use serde_json::Value;

const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Renames the fields of a core event to those of events.k8s.io.
pub(super) fn served(event: &mut Value) {
    NAMES.iter().for_each(|(core, new)| rename(event, core, new));
    // The core group writes these also when they are empty.
    for field in ["reportingController", "reportingInstance"] {
        if event[field] == ""
            && let Some(fields) = event.as_object_mut()
        {
            fields.remove(field);
        }
    }
}

/// Renames the fields of an event of events.k8s.io to those of the core group.
pub(super) fn kept(event: &mut Value) {
    NAMES.iter().for_each(|(core, new)| rename(event, new, core));
    for field in ["reportingComponent", "reportingInstance"] {
        if let Some(fields) = event.as_object_mut() {
            fields.entry(field).or_insert_with(|| "".into());
        }
    }
}

fn rename(event: &mut Value, from: &str, to: &str) {
    let Some(fields) = event.as_object_mut() else { return };
    if let Some(value) = fields.remove(from) {
        fields.insert(to.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_goes_there_and_back() {
        let core = json!({
            "involvedObject": {"name": "a"}, "message": "m", "reason": "r",
            "reportingComponent": "", "reportingInstance": "",
        });
        let mut event = core.clone();
        served(&mut event);
        assert_eq!(event, json!({"regarding": {"name": "a"}, "note": "m", "reason": "r"}));
        kept(&mut event);
        assert_eq!(event, core);
    }
}
