//! The lives of fleets and their sets.

use api::agones::{Fleet, GameServer};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, EvictParams};
use serde_json::json;

use crate::cluster::{Cluster, fleet};
use crate::standin::{self, Order};

pub(crate) async fn a_fleet_is_filled_grows_and_shrinks_in_order(cluster: &mut Cluster) {
    let mut oldest_first = fleet("f", 4);
    oldest_first["spec"]["scheduling"] = json!("Distributed");
    cluster.create::<Fleet>(oldest_first).await;
    cluster.settles("f", 4, 0).await;
    let first: Vec<String> = names(&cluster.in_state("Ready").await);
    // Times of creation are whole seconds.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    cluster.patch::<Fleet>("f", json!({"spec": {"replicas": 10}})).await;
    cluster.settles("f", 10, 0).await;
    cluster.patch::<Fleet>("f", json!({"spec": {"replicas": 6}})).await;
    cluster.settles("f", 6, 0).await;
    let left = names(&cluster.in_state("Ready").await);
    assert!(first.iter().all(|name| !left.contains(name)), "the oldest went first");
    assert_eq!(cluster.sets().await.len(), 1);
}

pub(crate) async fn a_rolling_update_replaces_servers_and_keeps_those_in_use(
    cluster: &mut Cluster,
) {
    cluster.create::<Fleet>(fleet("f", 8)).await;
    cluster.settles("f", 8, 0).await;
    replace(cluster).await;
}

pub(crate) async fn recreate_replaces_all_but_those_in_use(cluster: &mut Cluster) {
    let mut recreated = fleet("f", 6);
    recreated["spec"]["strategy"] = json!({"type": "Recreate"});
    cluster.create::<Fleet>(recreated).await;
    cluster.settles("f", 6, 0).await;
    replace(cluster).await;
}

/// Changes the template of a fleet that has one server in use.
async fn replace(cluster: &Cluster) {
    let servers = cluster.in_state("Ready").await;
    let (used, size) = (servers[0].name_any(), servers.len());
    standin::allocate(&cluster.client, &cluster.namespace, &used).await;
    let old = cluster.sets().await.remove(0).name_any();
    let template = json!({"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}});
    cluster.patch::<Fleet>("f", template).await;
    let is_new = |server: &GameServer| server.labels().contains_key("version");
    cluster
        .until("all but the one in use are new", async || {
            let ready = cluster.in_state("Ready").await;
            ready.len() == size - 1 && ready.iter().all(is_new)
        })
        .await;
    cluster.settles("f", size - 1, 1).await;
    assert_eq!(names(&cluster.in_state("Allocated").await), [used.as_str()]);
    cluster.delete::<GameServer>(&used).await;
    cluster
        .until("the old set is gone", async || {
            names(&cluster.sets().await) != [old.as_str()] && cluster.sets().await.len() == 1
        })
        .await;
    cluster.settles("f", size, 0).await;
}

pub(crate) async fn lost_servers_are_replaced(cluster: &mut Cluster) {
    let mut watched = fleet("f", 6);
    watched["spec"]["template"]["spec"]["health"] =
        json!({"periodSeconds": 2, "failureThreshold": 2, "initialDelaySeconds": 1});
    cluster.create::<Fleet>(watched).await;
    cluster.settles("f", 6, 0).await;
    let before = names(&cluster.in_state("Ready").await);
    let pods: Api<Pod> = cluster.api();
    standin::status(&pods, &before[0], json!({"phase": "Failed"})).await;
    cluster.games.order(&before[1], Order::FallSilent);
    cluster.delete::<Pod>(&before[2]).await;
    drop(pods.evict(&before[3], &EvictParams::default()).await.unwrap());
    cluster.games.order(&before[4], Order::ShutDown);
    cluster
        .until("five are gone", async || {
            let now = names(&cluster.servers().await);
            before[..5].iter().all(|name| !now.contains(name))
        })
        .await;
    cluster.settles("f", 6, 0).await;
    assert!(names(&cluster.servers().await).contains(&before[5]), "the one that is well stays");
}

pub(crate) async fn the_servers_of_a_lost_node_are_replaced(cluster: &mut Cluster) {
    cluster.create::<Fleet>(fleet("f", 6)).await;
    cluster.settles("f", 6, 0).await;
    let server = cluster.in_state("Ready").await.remove(0);
    let lost = server.status.unwrap().node_name;
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    nodes.delete(&lost, &DeleteParams::default()).await.unwrap();
    cluster
        .until("all are gone", async || {
            let servers = cluster.servers().await;
            servers.iter().flat_map(|server| &server.status).all(|status| status.node_name != lost)
        })
        .await;
    cluster.settles("f", 6, 0).await;
}

pub(crate) async fn allocated_servers_that_are_too_many_are_marked(cluster: &mut Cluster) {
    let mut overflowing = fleet("f", 4);
    overflowing["spec"]["allocationOverflow"] = json!({"labels": {"overflow": "yes"}});
    cluster.create::<Fleet>(overflowing).await;
    cluster.settles("f", 4, 0).await;
    for server in cluster.in_state("Ready").await.iter().take(3) {
        standin::allocate(&cluster.client, &cluster.namespace, &server.name_any()).await;
    }
    cluster.patch::<Fleet>("f", json!({"spec": {"replicas": 1}})).await;
    cluster
        .until("two are marked", async || {
            let servers = cluster.servers().await;
            let is_marked =
                |s: &&GameServer| s.labels().get("overflow").is_some_and(|v| v == "yes");
            servers.len() == 3 && servers.iter().filter(is_marked).count() == 2
        })
        .await;
    assert_eq!(cluster.in_state("Allocated").await.len(), 3, "players are not disturbed");
}

pub(crate) async fn a_deleted_fleet_leaves_nothing(cluster: &mut Cluster) {
    cluster.create::<Fleet>(fleet("f", 5)).await;
    cluster.settles("f", 5, 0).await;
    cluster.delete::<Fleet>("f").await;
    cluster
        .until("all is gone", async || {
            cluster.sets().await.is_empty()
                && cluster.servers().await.is_empty()
                && cluster.pods().await.is_empty()
        })
        .await;
}

fn names<K: kube::Resource>(objects: &[K]) -> Vec<String> {
    objects.iter().map(|object| object.name_any()).collect()
}
