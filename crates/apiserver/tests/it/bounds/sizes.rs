//! Limits on the size of an object, however often it is changed.

use plimsoll_apiserver::ApiServer;
use serde_json::{Value, json};

use super::{
    APPLY, Answer, JSON, JSON_PATCH, MERGE_PATCH, THINGS, define, get, on_a_server_thread, send,
    thing,
};

/// The limit that refusals name.
const LIMIT: usize = 6 << 20;

fn anything() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

async fn patch(engine: &ApiServer, content_type: &str, patch: Value) -> Answer {
    send(engine, "PATCH", &format!("{THINGS}/a"), content_type, patch.to_string()).await
}

/// Checks that a write was refused for the size of its outcome and that nothing has changed. Returns that size.
async fn assert_refused(engine: &ApiServer, refused: &Answer, before: &Value) -> usize {
    assert_eq!(refused.code, 413);
    assert_eq!(refused.body["reason"], "RequestEntityTooLarge");
    assert_eq!(refused.body["details"]["name"], "a");
    let message = refused.body["message"].as_str().unwrap();
    let rest = message.strip_prefix("Request entity too large: things.example.dev \"a\" would be ");
    let rest = rest.and_then(|rest| rest.strip_suffix(&format!(" bytes; the limit is {LIMIT}")));
    let size: usize = rest.expect(message).parse().unwrap();
    assert!(size > LIMIT && size < LIMIT + (9 << 20), "{message}");
    assert!(get(engine, &format!("{THINGS}/a")).await.body == *before, "nothing has changed");
    size
}

/// Creates an object that is nearly as large as the limit, and returns it.
async fn nearly_full(engine: &ApiServer) -> Value {
    define(engine, anything()).await;
    let spec = json!({"c0": "x".repeat(2_500_000)});
    let made = send(engine, "POST", THINGS, JSON, thing("a", &spec).to_string()).await;
    assert_eq!(made.code, 201);
    let copy = json!([{"op": "copy", "from": "/spec/c0", "path": "/spec/c1"}]);
    let patched = patch(engine, JSON_PATCH, copy).await;
    assert_eq!(patched.code, 200);
    patched.body
}

#[test]
fn an_object_that_patches_copy_does_not_grow_without_limit() {
    on_a_server_thread(|| async {
        let engine = crate::ephemeral().await;
        let full = nearly_full(&engine).await;
        for count in 2..6 {
            let to = format!("/spec/c{count}");
            let copy = json!([{"op": "copy", "from": "/spec/c0", "path": to}]);
            let refused = patch(&engine, JSON_PATCH, copy).await;
            assert_refused(&engine, &refused, &full).await;
        }
        let more = json!({"spec": {"b": "x".repeat(2_000_000)}});
        assert_refused(&engine, &patch(&engine, MERGE_PATCH, more).await, &full).await;
        let less = json!([{"op": "remove", "path": "/spec/c1"}]);
        assert_eq!(patch(&engine, JSON_PATCH, less).await.code, 200);
    });
}

#[test]
fn the_fields_of_many_managers_count() {
    on_a_server_thread(|| async {
        let engine = crate::ephemeral().await;
        define(&engine, anything()).await;
        let long = "x".repeat(500);
        let fields: serde_json::Map<String, Value> =
            (0..1000).map(|n| (format!("{long}{n}"), json!(1))).collect();
        let applied = thing("a", &Value::Object(fields)).to_string();
        let path = |manager: usize| format!("{THINGS}/a?fieldManager=manager-{manager}");
        let mut before = Value::Null;
        for manager in 0..40 {
            let answer = send(&engine, "PATCH", &path(manager), APPLY, applied.clone()).await;
            if answer.code == 413 {
                assert!(manager > 2, "a few managers are not too many");
                assert_refused(&engine, &answer, &before).await;
                return;
            }
            assert!(matches!(answer.code, 200 | 201), "{}", answer.body);
            before = answer.body;
        }
        panic!("the object grows with every manager");
    });
}

#[test]
fn a_full_object_can_be_deleted_and_its_finalizers_removed() {
    on_a_server_thread(|| async {
        let engine = crate::ephemeral().await;
        let full = nearly_full(&engine).await;
        let one = format!("{THINGS}/a");
        let more = |len: usize| json!({"metadata": {"finalizers": ["example.dev/wait"]}, "spec": {"c2": "x".repeat(len)}});
        let refused = patch(&engine, MERGE_PATCH, more(2_000_000)).await;
        let excess = assert_refused(&engine, &refused, &full).await - LIMIT;
        // To the last byte: what a deletion adds does not fit below the limit.
        assert_eq!(patch(&engine, MERGE_PATCH, more(2_000_000 - excess)).await.code, 200);
        let foreground = json!({"propagationPolicy": "Foreground"}).to_string();
        assert_eq!(send(&engine, "DELETE", &one, JSON, foreground).await.code, 200);
        let going = get(&engine, &one).await.body;
        assert!(going["metadata"]["deletionTimestamp"].is_string());
        let free = json!({"metadata": {"finalizers": null}});
        assert_eq!(patch(&engine, MERGE_PATCH, free).await.code, 200);
        assert_eq!(get(&engine, &one).await.code, 404);
    });
}
