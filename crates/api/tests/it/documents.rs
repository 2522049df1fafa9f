//! The documents of Agones' autoscaler page, and of the first design of counters and lists, are accepted unchanged.

use plimsoll_api::{Admission, find};
use serde_json::Value;

const NOW: &str = "2026-03-01T12:00:00Z";

fn admitted(text: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    documents
        .into_iter()
        .map(|mut value| {
            let kind = value["kind"].as_str().unwrap().to_owned();
            let kind = find(value["apiVersion"].as_str(), &kind).unwrap();
            let admission = Admission { old: None, now: NOW.parse().unwrap() };
            (kind.admit)(&mut value, &admission).unwrap_or_else(|p| panic!("{p:?} in {value}"));
            let mut again = value.clone();
            let stored = value.clone();
            let update = Admission { old: Some(&stored), now: NOW.parse().unwrap() };
            (kind.admit)(&mut again, &update).unwrap();
            assert_eq!(again, value, "what was admitted once is admitted again as it is");
            value
        })
        .collect()
}

#[test]
fn agones_own_documents_are_taken_as_written() {
    let all = admitted(include_str!("documents/fleetautoscaler-specification.yaml"));
    assert_eq!(all.len(), 4);
    assert_eq!(all[0]["spec"]["policy"]["buffer"]["minReplicas"], 10);
    assert_eq!(all[1]["spec"]["policy"]["webhook"]["service"]["path"], "scale");
    assert_eq!(all[2]["spec"]["sync"]["fixedInterval"]["seconds"], 30);
}

#[test]
fn documents_of_the_first_design_are_taken_as_written() {
    let all = admitted(include_str!("documents/counts-and-lists-design.yaml"));
    assert_eq!(all.len(), 10);
    let [server, fleet, by_count, by_list, allocation, ..] = all.as_slice() else { panic!() };
    for (value, pointer, wanted) in [
        (server, "/spec/counters/rooms", r#"{"count":1,"capacity":100}"#),
        (server, "/status/counters/rooms", r#"{"count":1,"capacity":100}"#),
        (server, "/spec/lists/frogs", r#"{"capacity":1000,"values":[]}"#),
        (fleet, "/spec/template/spec/counters/rooms", r#"{"count":1,"capacity":100}"#),
        (fleet, "/spec/priorities/0", r#"{"type":"count","key":"room","order":"ascending"}"#),
        (
            by_count,
            "/spec/policy",
            r#"{"type":"Counter","counter":{"key":"rooms","bufferSize":5,"minCapacity":10,"maxCapacity":100}}"#,
        ),
        (
            by_list,
            "/spec/policy",
            r#"{"type":"List","list":{"key":"players","bufferSize":5,"minCapacity":10,"maxCapacity":100}}"#,
        ),
        (
            allocation,
            "/spec/selectors/0/counters/rooms",
            r#"{"minCount":4,"maxCount":20,"minAvailable":0,"maxAvailable":99}"#,
        ),
        (
            allocation,
            "/spec/selectors/0/lists/frogs",
            r#"{"containsValue":"orange","minAvailable":0,"maxAvailable":0}"#,
        ),
        (allocation, "/spec/counters/rooms", r#"{"action":"Increment","amount":1}"#),
        (allocation, "/spec/lists/players", r#"{"addValues":["x7un","8inz"],"capacity":40}"#),
    ] {
        let wanted: Value = serde_json::from_str(wanted).unwrap();
        assert_eq!(value.pointer(pointer), Some(&wanted), "{pointer}");
    }
}

#[test]
fn the_crds_have_a_place_for_every_field_of_the_documents() {
    for text in [
        include_str!("documents/fleetautoscaler-specification.yaml"),
        include_str!("documents/counts-and-lists-design.yaml"),
    ] {
        for value in serde_saphyr::from_multiple::<Value>(text).unwrap() {
            let kind = find(None, value["kind"].as_str().unwrap()).unwrap();
            let Some(crd) = kind.crd else { continue };
            let crd = serde_json::to_value(crd()).unwrap();
            let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let spec = &schema["properties"]["spec"];
            assert_eq!(unknown(&value["spec"], spec, "spec"), None, "{}", kind.kind);
        }
    }
}

/// Finds a field that the schema does not have.
fn unknown(value: &Value, schema: &Value, path: &str) -> Option<String> {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return None;
    }
    match value {
        Value::Object(map) => map.iter().find_map(|(name, value)| {
            let path = format!("{path}.{name}");
            let own = schema["properties"].get(name);
            match own.or_else(|| schema.get("additionalProperties")) {
                Some(schema) => unknown(value, schema, &path),
                None => Some(path),
            }
        }),
        Value::Array(items) => items.iter().find_map(|item| unknown(item, &schema["items"], path)),
        Value::String(_) if schema["enum"].is_array() => {
            let is_known = schema["enum"].as_array().unwrap().contains(value);
            (!is_known).then(|| path.to_owned())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}
