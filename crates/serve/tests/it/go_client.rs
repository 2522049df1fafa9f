//! The requests of Agones' typed Go clients (`vectors/agones-go-client.jsonl`), sent to the embedded engine and to the real API server
//! with our webhooks. The answers must be those of Agones, and such a client must be able to decode them.

mod decoding;
mod replay;

use serde_json::{Value, json};

use crate::allocator::real::{self, Real};
use crate::allocator::world::World;
use crate::webhooks::Webhooks;
use replay::{Answer, Replay};

#[tokio::test]
async fn the_engine_answers_go_clients_as_agones_does() {
    let world = World::new().await;
    let _allocator = world.delegate().await;
    let mut replay = Replay::new(world.engine.client(), "go").await;
    let wrong = replay.run(|_| true).await;
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn the_real_api_server_with_our_webhooks_answers_go_clients_as_agones_does() {
    let Some(kubeconfig) = real::from_env("PLIMSOLL_TEST_KUBECONFIG") else { return };
    let client = real::connect(&kubeconfig).await;
    let prefix = format!("go-{:08x}", fastrand::u32(..));
    real::install(&client, &real::every_kind()).await;
    let mut replay = Replay::new(client.clone(), &prefix).await;
    let webhooks = Webhooks::start().await;
    let rules: Vec<Value> = api::KINDS
        .iter()
        .filter(|kind| kind.crd.is_some())
        .map(|kind| {
            let operations =
                if kind.asks_about_changes() { &["CREATE", "UPDATE"][..] } else { &["CREATE"] };
            json!({
                "apiGroups": [kind.group], "apiVersions": [kind.version],
                "resources": [kind.plural], "operations": operations,
            })
        })
        .collect();
    let installed = webhooks.install(&client, &prefix, &replay.namespaces(), &json!(rules)).await;
    // An allocation is asked of an API of its own; webhooks have no part in it.
    let wrong = match replay.wait_for_webhooks().await {
        Ok(()) => replay.run(|case| case["objects"][0]["kind"] != "GameServerAllocation").await,
        Err(why) => vec![why],
    };
    let refused = replay.refuse_generated_name().await;
    installed.remove().await;
    replay.clean_up().await;
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert_refused_by_name(&refused);
}

#[tokio::test]
async fn go_clients_can_decode_every_answer_of_the_engine() {
    let world = World::new().await;
    let _allocator = world.delegate().await;
    let mut replay = Replay::new(world.engine.client(), "go").await;
    let wrong = replay.run(|case| case["expect"]["valid"] == true).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let namespace = replay.namespaces().remove(0);
    for kind in api::KINDS.iter().filter(|kind| kind.crd.is_some() && kind.group != "plimsoll.dev")
    {
        let path =
            format!("/apis/{}/{}/namespaces/{namespace}/{}", kind.group, kind.version, kind.plural);
        let list = replay.send("GET", &format!("{path}?limit=1"), None).await;
        assert_eq!(list.code, 200, "{list:?}");
        list.assert_decodable();
        assert_eq!(list.body["kind"], format!("{}List", kind.kind));
        assert_eq!(list.body["apiVersion"], format!("{}/{}", kind.group, kind.version));
        let name = list.body["items"][0]["metadata"]["name"].as_str().unwrap().to_owned();
        replay.send("GET", &format!("{path}/{name}"), None).await.assert_decodable();
        let events = replay
            .watch(&format!("{path}?watch=true&timeoutSeconds=1&allowWatchBookmarks=true"))
            .await;
        assert!(!events.is_empty(), "a watch of {} sends what is there", kind.plural);
        for event in &events {
            decoding::assert_event(event);
        }
        let deleted = replay.send("DELETE", &format!("{path}/{name}"), None).await;
        assert_eq!(deleted.code, 200, "{deleted:?}");
        deleted.assert_decodable();
    }
}

#[tokio::test]
async fn go_clients_can_tell_errors_apart() {
    let world = World::new().await;
    let _allocator = world.delegate().await;
    let replay = Replay::new(world.engine.client(), "go").await;
    let namespace = replay.namespaces().remove(0);
    let fleets = format!("/apis/agones.dev/v1/namespaces/{namespace}/fleets");
    let allocations =
        format!("/apis/allocation.agones.dev/v1/namespaces/{namespace}/gameserverallocations");
    let pod = json!({"spec": {"containers": [{"name": "game"}]}});
    let fleet = json!({
        "apiVersion": "agones.dev/v1", "kind": "Fleet", "metadata": {"name": "f"},
        "spec": {"template": {"spec": {"template": pod}}},
    });
    assert_eq!(replay.send("POST", &fleets, Some(&fleet)).await.code, 201);
    let mut stale = fleet.clone();
    stale["metadata"]["resourceVersion"] = "1".into();
    stale["spec"]["strategy"] = json!({"type": "Recreate"});
    let wrong = json!({"spec": {"scheduling": "Random"}});
    for (method, path, body, code, reason) in [
        ("GET", format!("{fleets}/none"), None, 404, "NotFound"),
        ("DELETE", format!("{fleets}/none"), None, 404, "NotFound"),
        ("GET", fleets.replace("fleets", "boats"), None, 404, "NotFound"),
        ("POST", fleets.clone(), Some(&fleet), 409, "AlreadyExists"),
        ("PUT", format!("{fleets}/f"), Some(&stale), 409, "Conflict"),
        ("POST", fleets.clone(), Some(&json!({"kind": "Fleet"})), 422, "Invalid"),
        ("POST", fleets.clone(), Some(&json!([])), 400, "BadRequest"),
        ("POST", allocations.clone(), Some(&wrong), 422, "Invalid"),
        ("POST", allocations.clone(), Some(&json!([])), 400, "BadRequest"),
        ("GET", allocations.clone(), None, 405, "MethodNotAllowed"),
    ] {
        let answer: Answer = replay.send(method, &path, body).await;
        assert_eq!(answer.code, code, "{method} {path}: {answer:?}");
        assert_eq!(answer.body["reason"], reason, "{method} {path}: {answer:?}");
        answer.assert_decodable();
    }
}

/// A whole number may be written with a fraction of nothing; Go's decoder refuses to read it back that way.
#[tokio::test]
async fn a_whole_number_is_stored_as_one_however_it_was_written() {
    let world = World::new().await;
    let replay = Replay::new(world.engine.client(), "go").await;
    let namespace = replay.namespaces().remove(0);
    let path = format!("/apis/agones.dev/v1/namespaces/{namespace}/fleets");
    let pod = json!({"spec": {"containers": [{"name": "game"}]}});
    let fleet = json!({
        "apiVersion": "agones.dev/v1", "kind": "Fleet", "metadata": {"name": "f"},
        "spec": {"replicas": 2.0, "template": {"spec": {"template": pod}}},
    });
    let made = replay.send("POST", &path, Some(&fleet)).await;
    assert_eq!((made.code, &made.body["spec"]["replicas"]), (201, &json!(2)), "{made:?}");
    let patch = json!({"spec": {"replicas": 3.0}});
    let changed = replay.patch(&format!("{path}/f"), &patch).await;
    assert_eq!((changed.code, &changed.body["spec"]["replicas"]), (200, &json!(3)), "{changed:?}");
    changed.assert_decodable();
}

/// A name is made up before an object is checked; an allocation, which is never stored, stays without.
#[tokio::test]
async fn a_refused_object_has_the_name_that_was_made_up_and_an_allocation_none() {
    let world = World::new().await;
    let _allocator = world.delegate().await;
    let replay = Replay::new(world.engine.client(), "go").await;
    assert_refused_by_name(&replay.refuse_generated_name().await);
    let namespace = replay.namespaces().remove(0);
    let path =
        format!("/apis/allocation.agones.dev/v1/namespaces/{namespace}/gameserverallocations");
    let wrong = json!({"metadata": {"generateName": "a-"}, "spec": {"scheduling": "Random"}});
    let refused = replay.send("POST", &path, Some(&wrong)).await;
    let message = refused.body["message"].as_str().unwrap();
    let start = "GameServerAllocation.allocation.agones.dev \"\" is invalid: spec.scheduling: Unsupported value: ";
    assert!(message.starts_with(start), "{message}");
    assert_eq!(refused.body["details"]["causes"][0]["reason"], "FieldValueNotSupported");
}

fn assert_refused_by_name(message: &str) {
    let (start, rest) = message.split_once("Fleet.agones.dev \"g-").unwrap_or_default();
    assert!(start.is_empty() || start.ends_with("denied the request: "), "{message}");
    let wrong = "\" is invalid: spec.strategy.rollingUpdate.maxSurge: Invalid value: ";
    assert_eq!(rest.find(wrong), Some(5), "{message}");
}

impl Replay {
    /// Removes the namespaces with all that is in them.
    async fn clean_up(self) {
        for namespace in self.namespaces() {
            let kubeconfig = std::path::PathBuf::new();
            let real = Real { client: self.client.clone(), kubeconfig, namespace };
            real.release_game_servers().await;
            real.clean_up().await;
        }
    }
}
