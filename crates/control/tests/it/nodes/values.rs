//! Settings that are values, as those of a command with flags: nothing of `plimsoll.dev` is read or written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use api::plimsoll::node_autoscaler::NodeAutoscalerSpec;
use cluster::CachedKind;
use http::Request;
use k8s_openapi::api::core::v1::Namespace;
use kube::client::Body;
use plimsoll_control::nodes::{GroupValue, NodeSettings, NodeSource, NodeValues};

use super::cloud::{Cloud, NAME};
use super::*;

/// Returns a client that records the method and path of every request.
fn recording(client: Client) -> (Client, Arc<Mutex<Vec<String>>>) {
    let requests = Arc::<Mutex<Vec<String>>>::default();
    let kept = Arc::clone(&requests);
    let service = tower::service_fn(move |request: Request<Body>| {
        let request_line = format!("{} {}", request.method(), request.uri().path());
        kept.lock().unwrap().push(request_line);
        let client = client.clone();
        async move { client.send(request).await }
    });
    (Client::new(service, "default"), requests)
}

/// Runs the controller with values.
async fn control_values(client: Client, values: NodeValues, settings: Settings) {
    let caches = Caches::new(None, false);
    let (kinds, supervisor) = (BTreeSet::from([CachedKind::NodeScalingInputs]), Supervisor::new());
    let _following = caches.follow(&client, &kinds, &settings.random, &supervisor);
    let source = NodeSource::Values(Arc::new(values));
    let nodes = NodeSettings {
        source,
        longest_pause: Duration::from_secs(1),
        status_map: Some("status-of-nodes".to_owned()),
    };
    let settings = Settings { nodes, ..settings };
    run(client, caches, settings, &[Part::Nodes], std::future::pending()).await;
}

fn values(spec: Value) -> NodeValues {
    let mut defaults =
        json!({"scaleDown": {"unneededFor": "0s", "delayAfterAdd": "0s", "unreadyFor": "0s"}});
    for (key, value) in spec.as_object().unwrap() {
        defaults[key] = value.clone();
    }
    NodeValues {
        autoscaler: serde_json::from_value::<NodeAutoscalerSpec>(defaults).unwrap(),
        connections: BTreeMap::from([(NAME.to_owned(), Value::Null)]),
        ..NodeValues::default()
    }
}

/// Starts an engine with a namespace for the ConfigMaps and without a NodeAutoscaler.
async fn start() -> World {
    let world = World::idle(json!({})).await;
    let autoscalers: Api<NodeAutoscaler> = Api::all(world.client());
    autoscalers.delete("default", &DeleteParams::default()).await.unwrap();
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": "kube-system"}})).unwrap();
    let namespaces: Api<Namespace> = Api::all(world.client());
    drop(namespaces.create(&PostParams::default(), &namespace).await);
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_come_and_go_without_any_object_of_plimsoll() {
    let mut world = start().await;
    let cloud = Cloud::start(&world, &["pool/a"]);
    let settings = cloud.settings(world.cluster.settings());
    let (client, requests) = recording(world.client());
    world.tasks.spawn(control_values(client, values(json!({})), settings));
    for n in 0..2 {
        world.pod(&format!("p{n}"), "3", json!({})).await;
    }
    until("the pods have nodes", async || world.bound().await == 2).await;
    let map = async || {
        let maps: Api<ConfigMap> = Api::namespaced(world.client(), "kube-system");
        let map = maps.get_opt("status-of-nodes").await.unwrap()?;
        map.data?.remove("status")
    };
    let has_group = async || map().await.is_some_and(|text| text.contains("pool/a"));
    until("the ConfigMap has the group", has_group).await;
    let has_event = async || world.has_event("status-of-nodes", "ScaledUpGroup").await;
    until("the event is about the ConfigMap", has_event).await;
    world.delete_pod("p0").await;
    world.delete_pod("p1").await;
    until("the machines are gone", async || cloud.count("pool/a") == 0).await;
    let requests = requests.lock().unwrap();
    let own: Vec<&String> = requests.iter().filter(|line| line.contains("plimsoll.dev")).collect();
    assert!(own.is_empty() && requests.len() > 10, "{own:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_named_group_has_bounds_of_its_own() {
    let mut world = start().await;
    let cloud = Cloud::start(&world, &["pool/a"]);
    let settings = cloud.settings(world.cluster.settings());
    let group = GroupValue { provider: NAME.to_owned(), id: "pool/a".to_owned(), min: 1, max: 2 };
    let mut values = values(json!({"scaleUp": {"enforceMinSize": true}}));
    values.groups = vec![group.clone(), group];
    world.tasks.spawn(control_values(world.client(), values, settings));
    until("it has its minimum", async || cloud.count("pool/a") == 1).await;
    for n in 0..3 {
        world.pod(&format!("p{n}"), "3", json!({})).await;
    }
    let is_refused = async |pod: &str| world.has_event(pod, "NotTriggerScaleUp").await;
    until("one pod waits", async || {
        is_refused("p0").await || is_refused("p1").await || is_refused("p2").await
    })
    .await;
    until("the others have nodes", async || world.bound().await == 2).await;
    assert_eq!(cloud.count("pool/a"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_config_map_of_priorities_chooses_the_group() {
    let mut world = start().await;
    let cloud = Cloud::start(&world, &["cheap", "dear", "other"]);
    let settings = cloud.settings(world.cluster.settings());
    let maps: Api<ConfigMap> = Api::namespaced(world.client(), "kube-system");
    let map: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": "priorities"},
        "data": {"priorities": "10:\n- ^cheap$\n50:\n- ^de\n"},
    }))
    .unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let mut values = values(json!({"expanders": ["priority", "least-waste"]}));
    values.priority_map = Some("priorities".to_owned());
    world.tasks.spawn(control_values(world.client(), values, settings));
    world.pod("first", "3", json!({})).await;
    until("the pod has a node", async || world.bound().await == 1).await;
    assert_eq!(cloud.count("dear"), 1);
    let reason = "PriorityConfigMapNotMatchedGroup";
    until("an event names the rest", async || world.has_event("priorities", reason).await).await;
    let change = Patch::Merge(json!({"data": {"priorities": "90:\n- other\n"}}));
    maps.patch("priorities", &PatchParams::default(), &change).await.unwrap();
    world.pod("second", "3", json!({})).await;
    until("the pod has a node", async || world.bound().await == 2).await;
    assert_eq!((cloud.count("other"), cloud.count("cheap")), (1, 0));
}
