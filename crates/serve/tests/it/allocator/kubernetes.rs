//! Creating a GameServerAllocation, as any Kubernetes client does.

use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::World;

const PATH: &str = "/apis/allocation.agones.dev/v1/namespaces/default/gameserverallocations";

/// Sends a request to the engine and gives the code and the body.
async fn send(
    world: &World,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, String) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = kube::client::Body::from(body.as_bytes().to_vec());
    let answer = world.engine.client().send(request.body(body).unwrap()).await.unwrap();
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

async fn post(world: &World, allocation: &Value) -> (u16, Value) {
    let json = [("content-type", "application/json")];
    let (code, body) = send(world, "POST", PATH, &json, &allocation.to_string()).await;
    (code, serde_json::from_str(&body).unwrap())
}

#[tokio::test]
async fn an_allocation_that_is_created_comes_back_with_its_server() {
    let world = World::new().await;
    let more = json!({"counters": {"rooms": {"count": 1, "capacity": 10}}, "lists": {"players": {"capacity": 2, "values": ["x"]}}});
    world.ready("a", more).await;
    let _allocator = world.delegate().await;
    let (code, answer) = post(
        &world,
        &json!({
            "apiVersion": "allocation.agones.dev/v1", "kind": "GameServerAllocation",
            "spec": {
                "required": {"matchLabels": {"agones.dev/fleet": "f"}},
                "metadata": {"labels": {"mode": "dm"}, "annotations": {"map": "sea"}},
                "counters": {"rooms": {"action": "Increment", "amount": 2}},
            },
        }),
    )
    .await;
    assert_eq!(code, 201);
    assert_eq!(answer["metadata"]["name"], "a");
    assert_eq!(answer["metadata"]["namespace"], "default");
    assert!(answer["metadata"]["creationTimestamp"].is_string());
    assert_eq!(answer["spec"]["selectors"][0]["gameServerState"], "Ready", "the spec is filled in");
    let stored = world.server("a").await;
    let last_allocated = &stored["metadata"]["annotations"]["agones.dev/last-allocated"];
    assert_eq!(
        answer["status"],
        json!({
            "state": "Allocated", "gameServerName": "a", "address": "10.0.0.1", "nodeName": "n1", "source": "local",
            "ports": [{"name": "game", "port": 7000}], "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "metadata": {"labels": stored["metadata"]["labels"], "annotations": stored["metadata"]["annotations"]},
            "counters": {"rooms": {"count": 3, "capacity": 10}}, "lists": {"players": {"capacity": 2, "values": ["x"]}},
        })
    );
    assert_eq!(stored["metadata"]["labels"]["mode"], "dm");
    assert_eq!(stored["metadata"]["annotations"]["map"], "sea");
    assert!(last_allocated.as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
    assert_eq!(stored["status"]["state"], "Allocated");
    let (code, answer) = post(&world, &json!({})).await;
    assert_eq!((code, &answer["status"]["state"]), (201, &json!("UnAllocated")), "none is left");
}

#[tokio::test]
async fn fields_of_the_first_design_keep_their_meaning() {
    let world = World::new().await;
    let more = json!({"counters": {"rooms": {"count": 4, "capacity": 10}}, "lists": {"players": {"capacity": 3, "values": ["ann"]}}});
    world.ready("a", more).await;
    let _allocator = world.delegate().await;
    let (code, answer) = post(
        &world,
        &json!({"spec": {
            "selectors": [{"counters": {"rooms": {"min": 4}}, "lists": {"players": {"contains": "ann"}}}],
            "counters": {"rooms": {"action": "increment"}}, "lists": {"players": {"append": ["bob"]}},
        }}),
    )
    .await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(answer["status"]["counters"]["rooms"]["count"], 5);
    assert_eq!(answer["status"]["lists"]["players"]["values"], json!(["ann", "bob"]));
}

#[tokio::test]
async fn invalid_requests_are_rejected_with_the_field() {
    let world = World::with_ready(1).await;
    let _allocator = world.delegate().await;
    let (code, answer) =
        post(&world, &json!({"spec": {"selectors": [{"counters": {"rooms": {"minCount": -1}}}]}}))
            .await;
    assert_eq!(
        (code, &answer["kind"], &answer["reason"]),
        (422, &json!("Status"), &json!("Invalid"))
    );
    assert_eq!(
        answer["details"]["causes"][0]["field"],
        "spec.selectors[0].counters[rooms].minCount"
    );
    let (code, answer) = post(&world, &json!({"metadata": {"namespace": "other"}})).await;
    assert_eq!((code, &answer["reason"]), (400, &json!("BadRequest")));
    let (code, _) = post(&world, &json!({"kind": "Fleet", "apiVersion": "agones.dev/v1"})).await;
    assert_eq!(code, 400);
    for (method, path, content_type, body, expected) in [
        ("GET", PATH, "application/json", "", 405),
        ("DELETE", &*format!("{PATH}/a"), "application/json", "", 405),
        ("POST", PATH, "application/vnd.kubernetes.protobuf", "x", 415),
        ("POST", PATH, "application/json", "{", 400),
        (
            "GET",
            "/apis/allocation.agones.dev/v1/namespaces/default/fleets",
            "application/json",
            "",
            404,
        ),
    ] {
        let (code, body) =
            send(&world, method, path, &[("content-type", content_type)], body).await;
        assert_eq!(code, expected, "{method} {path} {content_type}: {body}");
    }
    assert_eq!(world.in_state("Ready").await.len(), 1, "nothing was given out");
}

#[tokio::test]
async fn yaml_is_read_and_written_and_a_dry_run_changes_nothing() {
    let world = World::with_ready(1).await;
    let _allocator = world.delegate().await;
    let yaml = [("content-type", "application/yaml"), ("accept", "application/yaml")];
    let (code, body) = send(
        &world,
        "POST",
        &format!("{PATH}?dryRun=All"),
        &yaml,
        "spec: {scheduling: Distributed}",
    )
    .await;
    assert_eq!(code, 201);
    let answer: Value = serde_saphyr::from_str(&body).unwrap();
    assert_eq!(answer["status"]["gameServerName"], "s0000");
    assert_eq!(world.in_state("Ready").await.len(), 1, "a dry run gives nothing out");
    let (_, body) = send(&world, "POST", PATH, &yaml, "spec: {}").await;
    let answer: Value = serde_saphyr::from_str(&body).unwrap();
    assert_eq!(answer["status"]["state"], "Allocated", "{body}");
}

#[tokio::test]
async fn discovery_tells_clients_what_can_be_created() {
    let world = World::new().await;
    let _allocator = world.delegate().await;
    let resources =
        world.engine.client().list_api_group_resources("allocation.agones.dev/v1").await.unwrap();
    let [resource] = &resources.resources[..] else { panic!("{resources:?}") };
    assert_eq!(
        (&*resource.name, &*resource.verbs),
        ("gameserverallocations", &["create".to_owned()][..])
    );
}
