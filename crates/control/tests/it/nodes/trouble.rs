//! Nodes that are unready, machines that are no nodes, and a replica that takes over.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cluster::LeaderElection;
use connect::providers::{Group, Instance, InstanceState, NodeGroupProvider, ProviderError};
use futures::future::BoxFuture;
use plimsoll_control::NodeProviders;

use super::*;

/// A provider with one group, whose machines exist and never become Nodes.
struct Ghosts {
    group: String,
    machines: Mutex<Vec<String>>,
}

impl NodeGroupProvider for Ghosts {
    fn snapshot(&self) -> BoxFuture<'_, Result<Vec<Group>, ProviderError>> {
        let machines = self.machines.lock().unwrap().clone();
        let target = u32::try_from(machines.len()).unwrap();
        let running = |id| Instance { id, state: InstanceState::Running, error: None };
        let instances = machines.into_iter().map(running).collect();
        let id = self.group.clone();
        Box::pin(
            async move { Ok(vec![Group { id, max: 5, target, instances, ..Group::default() }]) },
        )
    }

    fn increase<'a>(&'a self, _: &'a str, by: u32) -> BoxFuture<'a, Result<(), ProviderError>> {
        let mut machines = self.machines.lock().unwrap();
        let count = u32::try_from(machines.len()).unwrap();
        machines.extend((count..count + by).map(|number| format!("ghost://{number}")));
        Box::pin(async { Ok(()) })
    }

    fn delete_nodes<'a>(
        &'a self,
        _: &'a str,
        instances: &'a [String],
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        self.machines.lock().unwrap().retain(|machine| !instances.contains(machine));
        Box::pin(async { Ok(()) })
    }

    fn decrease_target<'a>(
        &'a self,
        group: &'a str,
        _: u32,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        let message = "the machines exist".to_owned();
        let group = group.to_owned();
        Box::pin(async { Err(ProviderError::Refused { group, message }) })
    }
}

pub(super) async fn machines_without_a_node_are_deleted(stage: Stage) {
    let spec = json!({"scaleUp": {"maxProvisionTime": "2s"}, "scaleDown": {"enabled": false}});
    let Some(mut world) = World::on(stage, spec).await else { return };
    world.group("ghosts", json!({"max": 5}), json!({})).await;
    let ghosts = Ghosts { group: world.group_name("ghosts"), machines: Mutex::default() };
    let ghosts = Arc::new(ghosts);
    let provider: Arc<dyn NodeGroupProvider> = Arc::clone(&ghosts) as _;
    let node_providers = NodeProviders(BTreeMap::from([(world.provider.to_owned(), provider)]));
    let settings = Settings { node_providers, ..world.cluster.settings() };
    world.tasks.spawn(control(world.client(), settings));
    world.pod("p", "3", json!({})).await;
    until("a machine exists", async || !ghosts.machines.lock().unwrap().is_empty()).await;
    until("it is deleted", async || ghosts.machines.lock().unwrap().is_empty()).await;
    until("it is reported", async || world.has_group_event("ghosts", "DeleteUnregistered").await)
        .await;
    until("backed off", async || world.has_condition("ghosts", "BackedOff", "True").await).await;
    world.end().await;
}

pub(super) async fn nothing_changes_while_too_many_nodes_are_unready(stage: Stage) {
    let spec = json!({
        "health": {"maxUnreadyPercent": 0, "okUnready": 3},
        "scaleUp": {"maxNodeStartupTime": "0s"},
        "scaleDown": {"unneededFor": "2s"},
    });
    let Some(world) = World::run_on(stage, spec).await else { return };
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    for n in 0..4 {
        world.pod(&format!("p{n}"), "3", json!({})).await;
    }
    until("the pods have nodes", async || world.bound().await == 4).await;
    // A node that is not ready at once counts as unready here, so that there may have been another one.
    until("no node is empty or still to come", async || {
        world.nodes("g").await.len() == 4 && world.group_status("g").await["scaleUp"].is_null()
    })
    .await;
    let healthy = async || {
        let api: Api<NodeAutoscaler> = Api::all(world.client());
        let status = api.get("default").await.unwrap().status.unwrap_or_default();
        let healthy = status.conditions.into_iter().find(|one| one.type_ == "Healthy");
        healthy.map(|condition| condition.status)
    };
    // Nodes that were only starting may have made it unhealthy before.
    until("it is healthy", async || healthy().await.as_deref() == Some("True")).await;
    let taints = |key: &str| {
        let own = json!({"key": "pool", "value": world.name, "effect": "NoSchedule"});
        let more = json!({"key": key, "effect": "NoSchedule"});
        json!({"spec": {"taints": if key.is_empty() { vec![own] } else { vec![own, more] }}})
    };
    let nodes: Vec<String> = world.nodes("g").await.iter().map(Node::name_any).collect();
    for node in &nodes {
        let starting = "startup-taint.cluster-autoscaler.kubernetes.io/test";
        world.patch_node(node, taints(starting)).await;
    }
    until("the cluster is unhealthy", async || healthy().await.as_deref() == Some("False")).await;
    until("an event reports it", async || {
        let events: Api<Event> = Api::all(world.client());
        let events = events.list(&ListParams::default()).await.unwrap().items;
        events.iter().any(|event| event.reason.as_deref() == Some("ClusterUnhealthy"))
    })
    .await;
    world.pod("waits", "3", json!({})).await;
    world.delete_pod("p0").await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(world.nodes("g").await.len(), 4, "nothing is added or removed");
    for node in &nodes {
        world.patch_node(node, taints("")).await;
    }
    until("it is healthy again", async || healthy().await.as_deref() == Some("True")).await;
    until("the pod has a node", async || world.bound().await == 4).await;
    world.end().await;
}

fn replica(world: &World, identity: &str) -> Settings {
    let lease = LeaderElection {
        duration: Duration::from_secs(4),
        renew_within: Duration::from_secs(3),
        retry_every: Duration::from_millis(200),
        ..LeaderElection::new(world.cluster.namespace.clone(), identity)
    };
    Settings { lease: Some(lease), ..world.cluster.settings() }
}

pub(super) async fn another_replica_takes_over_in_the_middle_of_a_removal(stage: Stage) {
    let spec = json!({"scaleDown": {"unneededFor": "2s", "delayAfterTaint": "5s"}});
    let Some(mut world) = World::on(stage, spec).await else { return };
    world.group("g", json!({"min": 1, "max": 5}), json!({"startAfter": "0s"})).await;
    let mut first = JoinSet::new();
    first.spawn(control(world.client(), replica(&world, "one")));
    for n in 0..2 {
        world.pod(&format!("p{n}"), "3", json!({})).await;
    }
    until("the pods have nodes", async || world.bound().await == 2).await;
    let settings = replica(&world, "two");
    world.tasks.spawn(control(world.client(), settings));
    world.delete_pod("p0").await;
    world.delete_pod("p1").await;
    let marked = async || {
        let mut marked = 0;
        for node in world.nodes("g").await {
            marked += usize::from(world.is_tainted(&node.name_any()).await);
        }
        marked
    };
    until("a removal has begun", async || marked().await == 1).await;
    first.shutdown().await;
    until("the other replica completes it", async || {
        let target = &world.group_status("g").await["target"];
        world.nodes("g").await.len() == 1 && marked().await == 0 && *target == 1
    })
    .await;
    world.end().await;
}
