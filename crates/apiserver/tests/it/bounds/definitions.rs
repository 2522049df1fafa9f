//! The deletion of a definition that the engine's stop interrupted continues after the restart.

use plimsoll_apiserver::{ApiServer, Settings};
use serde_json::json;

use super::{DEFINITIONS, JSON, MERGE_PATCH, THINGS, define, get, send, thing};
use crate::keep::until;

#[tokio::test]
async fn a_definition_that_was_terminating_finishes_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let definition = format!("{DEFINITIONS}/things.example.dev");
    {
        let engine = ApiServer::open(Settings::in_directory(dir.path())).await.unwrap();
        define(&engine, json!({"type": "object"})).await;
        for (name, finalizers) in [("kept", json!(["example.dev/keep"])), ("free", json!([]))] {
            let mut thing = thing(name, &json!({}));
            thing["metadata"]["finalizers"] = finalizers;
            let made = send(&engine, "POST", THINGS, JSON, thing.to_string()).await;
            assert_eq!(made.code, 201, "{}", made.body);
        }
        assert_eq!(send(&engine, "DELETE", &definition, JSON, "").await.code, 200);
        engine.stop();
    }
    let engine = ApiServer::open(Settings::in_directory(dir.path())).await.unwrap();
    let kept = format!("{THINGS}/kept");
    until("its objects are being deleted", || async {
        let deleted = &get(&engine, &kept).await.body["metadata"]["deletionTimestamp"];
        deleted.is_string() && get(&engine, &format!("{THINGS}/free")).await.code == 404
    })
    .await;
    assert!(get(&engine, &definition).await.body["metadata"]["deletionTimestamp"].is_string());
    let release = json!({"metadata": {"finalizers": null}}).to_string();
    assert_eq!(send(&engine, "PATCH", &kept, MERGE_PATCH, release).await.code, 200);
    until("the definition is gone, and nothing of it is served", || async {
        let (definition, things) = (get(&engine, &definition).await, get(&engine, THINGS).await);
        (definition.code, things.code) == (404, 404)
    })
    .await;
}
