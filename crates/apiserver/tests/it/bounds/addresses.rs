//! No two services have the same address or the same node port.

use std::collections::HashSet;

use plimsoll_apiserver::{ApiServer, Settings};
use serde_json::{Value, json};

use super::{Answer, JSON, get, send};

const SERVICES: &str = "/api/v1/namespaces/default/services";

async fn create(engine: &ApiServer, name: &str, spec: Value) -> Answer {
    let mut service = json!({"metadata": {"name": name}, "spec": spec});
    if service["spec"]["ports"].is_null() {
        service["spec"]["ports"] = json!([{"port": 80}]);
    }
    send(engine, "POST", SERVICES, JSON, service.to_string()).await
}

#[tokio::test]
async fn an_address_is_assigned_to_one_service_until_it_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let engine = ApiServer::open(Settings::in_directory(dir.path())).await.unwrap();
    let made = create(&engine, "a", json!({})).await;
    let address = made.body["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let taken = async |engine: &ApiServer, name: &str| {
        let refused = create(engine, name, json!({"clusterIP": address})).await;
        assert_eq!(refused.code, 422, "{}", refused.body);
        let message = refused.body["message"].as_str().unwrap();
        assert!(message.contains("provided IP is already allocated"), "{message}");
    };
    taken(&engine, "b").await;
    engine.stop();
    let engine = ApiServer::open(Settings::in_directory(dir.path())).await.unwrap();
    taken(&engine, "b").await;
    assert_eq!(send(&engine, "DELETE", &format!("{SERVICES}/a"), JSON, "").await.code, 200);
    let made = create(&engine, "c", json!({"clusterIP": address})).await;
    assert_eq!((made.code, &made.body["spec"]["clusterIP"]), (201, &json!(address)));
    taken(&engine, "d").await;
    // What it has, it keeps, and headless services have none to take.
    let kept = send(&engine, "PUT", &format!("{SERVICES}/c"), JSON, made.body.to_string()).await;
    assert_eq!(kept.code, 200, "{}", kept.body);
    for name in ["e", "f"] {
        assert_eq!(create(&engine, name, json!({"clusterIP": "None"})).await.code, 201);
    }
}

#[tokio::test]
async fn of_many_concurrent_requests_for_an_address_one_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let engine = ApiServer::open(Settings::in_directory(dir.path())).await.unwrap();
    let ask = |n: usize| {
        let engine = &engine;
        async move { create(engine, &format!("s{n}"), json!({"clusterIP": "10.100.0.7"})).await.code }
    };
    let codes = futures::future::join_all((0..40).map(ask)).await;
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), 1, "{codes:?}");
    assert!(codes.iter().all(|code| matches!(code, 201 | 422)), "{codes:?}");
}

#[tokio::test]
async fn a_service_that_changes_to_a_type_with_an_address_gets_one() {
    let engine = crate::ephemeral().await;
    let made =
        create(&engine, "a", json!({"type": "ExternalName", "externalName": "example.dev"})).await;
    assert_eq!((made.code, &made.body["spec"]["clusterIP"]), (201, &Value::Null));
    let patch = json!({"spec": {"type": "ClusterIP", "externalName": null}}).to_string();
    let patched = send(&engine, "PATCH", &format!("{SERVICES}/a"), super::MERGE_PATCH, patch).await;
    assert!(patched.body["spec"]["clusterIP"].is_string(), "{}", patched.body);
}

#[tokio::test]
async fn node_ports_are_given_once_and_run_out_with_a_clear_answer() {
    let engine = crate::ephemeral().await;
    let ports: Vec<Value> =
        (1..=100).map(|n| json!({"name": format!("p{n}"), "port": n})).collect();
    let mut given = HashSet::new();
    let mut refused = None;
    for n in 0..28 {
        let made =
            create(&engine, &format!("s{n}"), json!({"type": "NodePort", "ports": ports})).await;
        if made.code != 201 {
            refused = Some(made);
            break;
        }
        for port in made.body["spec"]["ports"].as_array().unwrap() {
            let port = port["nodePort"].as_u64().unwrap();
            assert!(given.insert(port), "{port} is given twice");
        }
    }
    let refused = refused.expect("there are 2768 node ports");
    assert_eq!((refused.code, given.len()), (500, 2700));
    let message = refused.body["message"].as_str().unwrap();
    assert!(message.contains("failed to allocate a nodePort: range is full"), "{message}");
    let port = get(&engine, &format!("{SERVICES}/s0")).await.body["spec"]["ports"][0].clone();
    let asked = json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": port["nodePort"]}]});
    let refused = create(&engine, "again", asked).await;
    assert_eq!(refused.code, 422);
    assert_eq!(refused.body["details"]["causes"][0]["field"], "spec.ports[0].nodePort");
}
