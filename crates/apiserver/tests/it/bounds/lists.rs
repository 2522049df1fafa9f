//! Long lists and many fields take a time that grows with their length and not with its square.

use serde_json::{Value, json};

use super::{JSON, JSON_PATCH, STRATEGIC_PATCH, THINGS, define, on_a_server_thread, send, thing};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn many_unknown_fields_are_skipped_quickly_and_only_the_first_are_reported() {
    on_a_server_thread(|| async {
        let engine = crate::ephemeral().await;
        let fields: String = (0..220_000).map(|n| format!(r#""f{n}":1,"#)).collect();
        let map = format!(r#"{{{fields}"metadata":{{"name":"a"}}}}"#);
        assert!(map.len() > 2_500_000);
        let made = send(&engine, "POST", MAPS, JSON, map.clone()).await;
        assert_eq!(made.code, 201);
        let warnings: Vec<_> = made.headers.get_all("warning").iter().collect();
        assert_eq!(warnings[0], r#"299 - "unknown field \"f0\"""#);
        assert!(warnings.len() <= 100, "{} warnings", warnings.len());
        let strict = format!("{MAPS}?fieldValidation=Strict");
        let refused = send(&engine, "POST", &strict, JSON, map).await;
        assert_eq!(refused.code, 400);
        assert!(refused.body["message"].as_str().unwrap().len() < 5000);
    });
}

#[test]
fn a_long_key_is_not_written_once_for_each_field_below_it() {
    on_a_server_thread(|| async {
        let engine = crate::ephemeral().await;
        define(&engine, json!({"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "integer"}}}})).await;
        let fields: Vec<String> = (0..100_000).map(|n| format!(r#""f{n}":1"#)).collect();
        let long = "x".repeat(1 << 20);
        let twice = r#""a":1,"#.repeat(50_000);
        let spec = format!(r#"{{"{long}":{{{twice}{}}}}}"#, fields.join(","));
        let thing = format!(
            r#"{{"apiVersion":"example.dev/v1","kind":"Thing","metadata":{{"name":"a"}},"spec":{spec}}}"#
        );
        assert_eq!(send(&engine, "POST", THINGS, JSON, thing).await.code, 201);
    });
}

#[test]
fn sets_and_maps_are_checked_for_duplicates_however_long_they_are() {
    on_a_server_thread(|| async {
        let engine = crate::ephemeral().await;
        let item =
            json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "integer"}}});
        let lists = json!({"type": "object", "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item}}});
        define(&engine, lists).await;
        let set = Value::from((0..120_000).collect::<Vec<i64>>());
        let map: Value = (0..20_000).map(|n| json!({"k": n})).collect();
        for (name, spec) in [("set", json!({"set": set})), ("map", json!({"map": map}))] {
            let made = send(&engine, "POST", THINGS, JSON, thing(name, &spec).to_string()).await;
            assert_eq!(made.code, 201, "{name}");
            let mut twice = spec;
            let list = twice[name].as_array_mut().unwrap();
            list.push(list[7].clone());
            let last = list.len() - 1;
            let refused = send(&engine, "POST", THINGS, JSON, thing("b", &twice).to_string()).await;
            let cause = &refused.body["details"]["causes"][0];
            assert_eq!((refused.code, &cause["reason"]), (422, &json!("FieldValueDuplicate")));
            assert_eq!(cause["field"], format!("spec.{name}[{last}]"));
        }
    });
}

#[test]
fn long_lists_of_built_in_kinds_are_checked_and_merged_quickly() {
    on_a_server_thread(|| async {
        let engine = crate::ephemeral().await;
        let map = json!({"metadata": {"name": "a"}}).to_string();
        assert_eq!(send(&engine, "POST", MAPS, JSON, map).await.code, 201);
        let finalizers = |from: usize| (from..from + 60_000).map(|n| format!("example.dev/f{n}"));
        let one = format!("{MAPS}/a");
        for from in [0, 30_000] {
            let finalizers: Vec<String> = finalizers(from).collect();
            let patch = json!({"metadata": {"finalizers": finalizers}}).to_string();
            let patched = send(&engine, "PATCH", &one, STRATEGIC_PATCH, patch).await;
            assert_eq!(patched.code, 200);
        }
        let ports: Value =
            (0..30_000).map(|n| json!({"name": format!("p{n}"), "port": 80})).collect();
        let service = json!({"metadata": {"name": "a"}, "spec": {"ports": ports}}).to_string();
        let services = "/api/v1/namespaces/default/services";
        let refused = send(&engine, "POST", services, JSON, service).await;
        assert_eq!(refused.code, 422);
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u", "controller": true});
        let owned = json!({"metadata": {"name": "b", "ownerReferences": vec![owner; 20_000]}});
        let refused = send(&engine, "POST", MAPS, JSON, owned.to_string()).await;
        assert_eq!(
            (refused.code, refused.body["details"]["causes"].as_array().unwrap().len()),
            (422, 1)
        );
    });
}

#[test]
fn thousands_of_operations_on_a_long_list_are_refused_in_time() {
    on_a_server_thread(|| async {
        let engine = crate::ephemeral().await;
        define(&engine, json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}))
            .await;
        let long = thing("a", &json!({"list": vec![0; 500_000]})).to_string();
        assert_eq!(send(&engine, "POST", THINGS, JSON, long).await.code, 201);
        let first = json!({"op": "add", "path": "/spec/list/0", "value": 1});
        let patch = Value::Array(vec![first; 10_000]).to_string();
        let refused = send(&engine, "PATCH", &format!("{THINGS}/a"), JSON_PATCH, patch).await;
        assert_eq!(refused.code, 422);
    });
}
