//! Patches that leave most of an object unparsed.

use serde_json::{Value, json};

use crate::bounds::{JSON, MERGE_PATCH, THINGS, define, get, send, thing};

#[tokio::test]
async fn strings_that_look_like_json_survive_a_patch_of_another_member() {
    let engine = crate::ephemeral().await;
    let text = json!({"type": "string"});
    let spec = json!({"type": "object", "required": ["text", "array"], "properties": {
        "text": text, "array": text, "escaped": text, "null": text, "filled": {"type": "string", "default": "{}"},
        "count": {"type": "integer"}, "below": {"type": "object", "additionalProperties": text}}});
    define(&engine, spec).await;
    let mut wanted = json!({
        "text": r#"{"a":1}"#, "array": "[", "escaped": r#""\"b\"""#, "null": "null", "filled": "{}", "count": 1,
        "below": {"c": r#"{"d":[]}"#, "e": "f"},
    });
    let made = send(&engine, "POST", THINGS, JSON, thing("a", &wanted).to_string()).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let one = format!("{THINGS}/a");
    for (patch, at, value) in [
        (json!({"spec": {"count": 2}}), "/count", json!(2)),
        (json!({"spec": {"below": {"e": "\"g\""}}}), "/below/e", json!("\"g\"")),
        (json!({"spec": {"null": "\"null\""}}), "/null", json!("\"null\"")),
        (json!({"spec": {"text": r#""{\"a\":1}""#}}), "/text", json!(r#""{\"a\":1}""#)),
    ] {
        let patched = send(&engine, "PATCH", &one, MERGE_PATCH, patch.to_string()).await;
        assert_eq!(patched.code, 200, "{}", patched.body);
        *wanted.pointer_mut(at).unwrap() = value;
        assert_eq!(patched.body["spec"], wanted, "{patch}");
        assert_eq!(get(&engine, &one).await.body["spec"], wanted, "{patch}");
    }
}

#[tokio::test]
async fn the_owners_of_fields_are_recorded_without_parsing_the_others() {
    let engine = crate::ephemeral().await;
    define(&engine, json!({"type": "object", "additionalProperties": {"type": "string"}})).await;
    let object = thing("a", &json!({"one": "1", "two": "[2]"})).to_string();
    let path = format!("{THINGS}?fieldManager=creator");
    assert_eq!(send(&engine, "POST", &path, JSON, object).await.code, 201);
    let one = format!("{THINGS}/a");
    let patch = |manager: &str, patch: Value| {
        let path = format!("{one}?fieldManager={manager}");
        let engine = &engine;
        async move { send(engine, "PATCH", &path, MERGE_PATCH, patch.to_string()).await.body }
    };
    let owned = |object: &Value| -> Vec<(String, Value)> {
        let entries = object["metadata"]["managedFields"].as_array().unwrap();
        let owned = |entry: &Value| {
            let manager = entry["manager"].as_str().unwrap().to_owned();
            (manager, entry["fieldsV1"]["f:spec"].clone())
        };
        let mut owned: Vec<_> = entries.iter().map(owned).collect();
        owned.sort_by(|(one, _), (other, _)| one.cmp(other));
        owned
    };
    let changed = patch("changer", json!({"spec": {"one": "3"}})).await;
    let expected = [
        ("changer".to_owned(), json!({"f:one": {}})),
        ("creator".to_owned(), json!({".": {}, "f:two": {}})),
    ];
    assert_eq!(owned(&changed), expected);
    // Without owners, an object stays without them.
    let cleared = patch("changer", json!({"metadata": {"managedFields": [{}]}})).await;
    assert_eq!(cleared["metadata"].get("managedFields"), None);
    let again = patch("changer", json!({"spec": {"one": "4"}})).await;
    assert_eq!(again["metadata"].get("managedFields"), None);
    assert_eq!(again["spec"], json!({"one": "4", "two": "[2]"}));
}
