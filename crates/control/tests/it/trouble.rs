//! Failures of game servers, and the events about them.

use api::agones::{Fleet, GameServer};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::ResourceExt as _;
use kube::api::Api;
use serde_json::json;
use tokio::task::JoinSet;

use crate::cluster::{Cluster, fleet, server, state_of, until};
use crate::{client, servers, standin};

/// Waits for an event about an object, and returns its message.
async fn event_message(cluster: &Cluster, about: &str, reason: &str, part: &str) -> String {
    let mut found = String::new();
    until(&format!("{about}: {reason}: {part}"), async || {
        let is_it = |event: &Event| {
            event.reason.as_deref() == Some(reason)
                && event.involved_object.name.as_deref().is_some_and(|n| n.starts_with(about))
                && event.message.as_deref().is_some_and(|m| m.contains(part))
        };
        let events = cluster.list::<Event>().await;
        let event = events.into_iter().find(is_it);
        found = event.and_then(|event| event.message).unwrap_or_default();
        !found.is_empty()
    })
    .await;
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_that_nothing_admits_has_as_many_servers_as_it_asks_for() {
    let cluster = Cluster::embedded().await;
    let (client, counts) = client::counted(client::unadmitted(cluster.client.clone()));
    let mut tasks = JoinSet::new();
    tasks.spawn(cluster.controllers(client, cluster.settings(), std::future::pending()));
    let mut counting = fleet("f", 2);
    counting["spec"]["template"]["spec"]["counters"] =
        json!({"rooms": {"count": 1, "capacity": 5}});
    cluster.create::<Fleet>(counting).await;
    cluster.settles("f", 2, 0).await;
    assert_eq!(counts.lock().unwrap()["POST gameservers"], 2, "none was made in vain");
    for server in cluster.servers().await {
        assert_eq!(server.finalizers(), ["agones.dev/controller"]);
        let rooms = server.status.unwrap().counters.unwrap()["rooms"];
        assert_eq!((rooms.count, rooms.capacity), (1, 5), "its SDK server finds them");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_that_crashes_in_a_loop_is_slowed_down_and_keeps_its_last_pods() {
    let cluster = Cluster::embedded().await;
    let (client, counts) = client::counted(cluster.client.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(cluster.controllers(client, cluster.settings(), std::future::pending()));
    let pods: Api<Pod> = cluster.api();
    tasks.spawn(async move {
        loop {
            for pod in pods.list(&Default::default()).await.unwrap() {
                let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                let failed = json!({"status": {"phase": "Failed", "reason": "Error"}});
                if phase == Some("Running") && pod.metadata.deletion_timestamp.is_none() {
                    let patch = kube::api::Patch::Merge(failed);
                    drop(pods.patch_status(&pod.name_any(), &Default::default(), &patch).await);
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
    cluster.create::<Fleet>(fleet("f", 2)).await;
    let message =
        event_message(&cluster, "f-", "ReplacementDelayed", "in a row have: it is kept until")
            .await;
    let kept = message.split(' ').nth(1).unwrap().to_owned();
    let server: GameServer = cluster.api().get(&kept).await.unwrap();
    assert_eq!(state_of(&server), "Unhealthy", "{message}");
    assert!(server.annotations().contains_key("plimsoll.dev/failed-before"));
    let pod: Pod = cluster.api().get(&kept).await.unwrap();
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Failed"), "its logs can be read");
    let made = counts.lock().unwrap()["POST gameservers"];
    assert!(made <= 12, "{made} servers were made for a fleet of two");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_waits_for_a_port_or_a_node_reports_the_schedulers_message() {
    let mut cluster = Cluster::start().await;
    servers::a_server_whose_port_a_stranger_has_gets_another(&mut cluster).await;
    event_message(&cluster, "a", "Starting", "Picking other host ports: 0/3 nodes are available")
        .await;
    let mut large = server("large");
    large["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "1000"}});
    cluster.create::<GameServer>(large).await;
    event_message(&cluster, "large", "Starting", "Pod waits for a node: 0/3 nodes are available")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_carry_the_messages_of_the_api_and_the_node_without_internal_details() {
    let cluster = Cluster::start().await;
    let mut bad = server("bad");
    bad["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = json!("Sometimes");
    cluster.create::<GameServer>(bad).await;
    let message = event_message(&cluster, "bad", "Error", "imagePullPolicy").await;
    assert!(message.starts_with("Pod \"bad\" is invalid: "), "{message}");
    assert!(!message.contains('{'), "{message}");
    cluster.create::<GameServer>(server("turned-away")).await;
    cluster.until("it is Ready", async || cluster.in_state("Ready").await.len() == 1).await;
    let status = json!({"phase": "Failed", "reason": "NodePorts", "message": "Pod was rejected"});
    standin::status(&cluster.api(), "turned-away", status).await;
    let part = "Issue with Gameserver pod: NodePorts: Pod was rejected";
    event_message(&cluster, "turned-away", "Unhealthy", part).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_that_cannot_be_decoded_do_not_hold_up_the_others() {
    let cluster = Cluster::embedded().await;
    let metadata = |name: &str| json!({"name": name, "namespace": cluster.namespace, "uid": name, "resourceVersion": "1"});
    let wrong = json!({"metadata": metadata("wrong"), "spec": {"replicas": "many"}});
    let mut deep = json!({"metadata": metadata("deep"), "spec": {"replicas": 1}});
    let nested = (0..200).fold(json!({}), |inner, _| json!({"f:a": inner}));
    deep["metadata"]["managedFields"] = json!([{"fieldsV1": nested}]);
    let server = json!({"metadata": metadata("server"), "spec": {"template": 7}});
    let client = client::listing(cluster.client.clone(), "fleets", "", wrong);
    let client = client::listing(client, "fleets", "", deep);
    let client = client::listing(client, "gameservers", "", server);
    let mut tasks = JoinSet::new();
    tasks.spawn(cluster.controllers(client, cluster.settings(), std::future::pending()));
    cluster.create::<Fleet>(fleet("f", 2)).await;
    cluster.settles("f", 2, 0).await;
}
