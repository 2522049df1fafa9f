//! Limits on the nesting depth of objects, in every format and kind of request.

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use plimsoll_apiserver::{ApiServer, Settings};
use serde_json::{Value, json};

use super::{
    APPLY, DEFINITIONS, JSON, JSON_PATCH, MERGE_PATCH, THINGS, YAML, define, get,
    on_a_server_thread, send, thing,
};

fn anything() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Nests objects, written as JSON.
fn nested(levels: usize) -> String {
    format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))
}

/// A `Thing` whose `spec` is nested so deeply.
fn deep_thing(name: &str, levels: usize) -> String {
    let spec = nested(levels);
    format!(
        r#"{{"apiVersion":"example.dev/v1","kind":"Thing","metadata":{{"name":"{name}"}},"spec":{spec}}}"#
    )
}

/// Reads everything there is of a kind in every form, as clients do that stop at some depth.
async fn read_all(engine: &ApiServer) -> usize {
    let kind = GroupVersionKind::gvk("example.dev", "v1", "Thing");
    let resource = ApiResource::from_gvk_with_plural(&kind, "things");
    let things: Api<DynamicObject> = Api::default_namespaced_with(engine.client(), &resource);
    let count = things.list(&ListParams::default()).await.unwrap().items.len();
    let listed = get(engine, THINGS).await;
    assert_eq!(listed.body["items"].as_array().unwrap().len(), count);
    for path in ["/apis/example.dev/v1/things", DEFINITIONS, "/api/v1/configmaps"] {
        assert!(get(engine, path).await.body.is_object(), "{path} can be read");
    }
    count
}

#[test]
fn every_stored_depth_can_be_read_again_after_a_restart() {
    on_a_server_thread(|| async {
        let dir = tempfile::tempdir().unwrap();
        let engine = ApiServer::open(Settings::in_directory(dir.path())).await.unwrap();
        define(&engine, anything()).await;
        let mut stored = 0;
        for levels in 90..130 {
            let name = format!("by-post-{levels}");
            let made = send(&engine, "POST", THINGS, JSON, deep_thing(&name, levels)).await;
            assert!(matches!(made.code, 201 | 400), "{levels}: {}", made.code);
            stored += usize::from(made.code == 201);
            let name = format!("by-apply-{levels}");
            let path = format!("{THINGS}/{name}?fieldManager=test");
            let made = send(&engine, "PATCH", &path, APPLY, deep_thing(&name, levels)).await;
            assert!(matches!(made.code, 201 | 400), "{levels}: {} {}", made.code, made.body);
            stored += usize::from(made.code == 201);
        }
        assert!(stored >= 16, "what is not too deep is stored: {stored}");
        assert_eq!(read_all(&engine).await, stored);
        engine.stop();
        let engine = ApiServer::open(Settings::in_directory(dir.path())).await.unwrap();
        assert_eq!(read_all(&engine).await, stored);
    });
}

#[test]
fn a_body_that_is_too_deep_is_refused_in_every_form() {
    on_a_server_thread(|| async {
        let engine = crate::ephemeral().await;
        define(&engine, anything()).await;
        let plain = thing("a", &json!({})).to_string();
        assert_eq!(send(&engine, "POST", THINGS, JSON, plain).await.code, 201);
        let one = format!("{THINGS}/a");
        let applied = format!("{one}?fieldManager=test");
        let (too_deep, far_too_deep) = (deep_thing("a", 119), deep_thing("a", 100_000));
        let block = (0..500).map(|level| format!("{}a:\n", "  ".repeat(level))).collect::<String>();
        let schema = (0..60).fold(
            json!({"type": "string"}),
            |inner, _| json!({"type": "object", "properties": {"a": inner}}),
        );
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "deeps.example.dev"},
            "spec": {"group": "example.dev", "scope": "Namespaced",
                "names": {"plural": "deeps", "singular": "deep", "kind": "Deep", "listKind": "DeepList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
        })
        .to_string();
        let patch = format!(r#"[{{"op":"add","path":"/spec/a","value":{}}}]"#, nested(119));
        let options = format!(r#"{{"kind":"DeleteOptions","x":{}}}"#, nested(119));
        for (method, path, content_type, body) in [
            ("POST", THINGS, JSON, &too_deep),
            ("POST", THINGS, JSON, &far_too_deep),
            ("POST", THINGS, YAML, &too_deep),
            ("POST", THINGS, YAML, &far_too_deep),
            ("POST", THINGS, YAML, &block),
            ("PUT", &one, JSON, &too_deep),
            ("PATCH", &one, MERGE_PATCH, &too_deep),
            ("PATCH", &one, JSON_PATCH, &patch),
            ("PATCH", &applied, APPLY, &too_deep),
            ("PATCH", &applied, APPLY, &far_too_deep),
            ("DELETE", &one, JSON, &options),
            ("POST", DEFINITIONS, JSON, &definition),
        ] {
            let refused = send(&engine, method, path, content_type, body.clone()).await;
            let what = format!("{method} {path} as {content_type}");
            assert_eq!(
                (refused.code, &refused.body["reason"]),
                (400, &json!("BadRequest")),
                "{what}"
            );
        }
        assert_eq!(read_all(&engine).await, 1);
    });
}

#[test]
fn a_patch_cannot_make_an_object_too_deep() {
    on_a_server_thread(|| async {
        let engine = crate::ephemeral().await;
        define(&engine, anything()).await;
        let plain = thing("a", &json!({"a": {"b": {}}})).to_string();
        assert_eq!(send(&engine, "POST", THINGS, JSON, plain).await.code, 201);
        let one = format!("{THINGS}/a");
        // Each copy into its own deepest place doubles the depth.
        let double = |power: u32| {
            let below = "/b".repeat(2_usize.pow(power));
            json!({"op": "copy", "from": "/spec/a", "path": format!("/spec/a{below}")})
        };
        for count in [7, 13, 17] {
            let patch = (0..count).map(double).collect::<Value>().to_string();
            let refused = send(&engine, "PATCH", &one, JSON_PATCH, patch).await;
            assert_eq!((refused.code, &refused.body["reason"]), (422, &json!("Invalid")));
        }
        // Each alone is not too deep.
        let half = format!(r#"[{{"op":"add","path":"/spec/b","value":{}}}]"#, nested(60));
        assert_eq!(send(&engine, "PATCH", &one, JSON_PATCH, half).await.code, 200);
        let below = "/a".repeat(60);
        let both = json!([{"op": "copy", "from": "/spec/b", "path": format!("/spec/b{below}")}]);
        assert_eq!(send(&engine, "PATCH", &one, JSON_PATCH, both.to_string()).await.code, 422);
        // An object stays an object.
        let list = json!([{"op": "replace", "path": "", "value": [1]}]).to_string();
        assert_eq!(send(&engine, "PATCH", &one, JSON_PATCH, list).await.code, 422);
        assert_eq!(read_all(&engine).await, 1);
    });
}
