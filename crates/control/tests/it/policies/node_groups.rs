//! Policies that size a NodeGroup, with simulated machines.

use api::plimsoll::{NodeAutoscaler, NodeGroup};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use super::{World, pass, pass_through};
use crate::cluster::until;

impl World {
    pub(super) async fn node_group(&self, name: &str, start_after: &str) {
        let group = json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeGroup", "metadata": {"name": name},
            "spec": {"min": 1, "max": 6, "provider": {"simulated": {"startAfter": start_after}},
                     "template": {"capacity": {"cpu": "4", "memory": "16Gi"}}},
        });
        let api: Api<NodeGroup> = Api::all(self.cluster.client.clone());
        api.create(&PostParams::default(), &serde_json::from_value(group).unwrap()).await.unwrap();
    }

    async fn target(&self, name: &str) -> Option<i32> {
        let api: Api<NodeGroup> = Api::all(self.cluster.client.clone());
        api.get(name).await.unwrap().status.and_then(|status| status.target)
    }

    async fn nodes_of(&self, group: &str) -> Vec<Node> {
        let api: Api<Node> = Api::all(self.cluster.client.clone());
        let label = format!("plimsoll.dev/node-group={group}");
        api.list(&ListParams::default().labels(&label)).await.unwrap().items
    }

    async fn has_nodes(&self, group: &str, wanted: usize) {
        until(&format!("{group} should have {wanted} nodes"), async || {
            self.nodes_of(group).await.len() == wanted
        })
        .await;
    }

    /// Starts a pod on a node.
    async fn occupy(&self, node: &Node) {
        let name = format!("on-{}", node.name_any());
        let spec =
            json!({"nodeName": node.name_any(), "containers": [{"name": "c", "image": "c"}]});
        self.cluster.create::<Pod>(json!({"metadata": {"name": name}, "spec": spec})).await;
    }
}

fn policy(group: &str) -> Value {
    let mut spec = pass_through();
    spec["target"] = json!({"nodeGroup": {"name": group}});
    spec["min"] = json!(0);
    spec
}

#[tokio::test(start_paused = true)]
async fn a_node_group_follows_a_policy_and_loses_only_nodes_that_nothing_runs_on() {
    let world = World::start(1).await;
    world.load.returns(4.0);
    world.node_group("pool", "0s").await;
    world.policy("p", policy("pool")).await;
    world.has_nodes("pool", 4).await;
    world.until_event("p", "SuccessfulRescale", "scaled from 0 to 4").await;
    let nodes = world.nodes_of("pool").await;
    for node in &nodes[..3] {
        world.occupy(node).await;
    }
    world.load.returns(2.0);
    let message = world.condition("p", ("AbleToScale", "False", "FailedUpdateScale")).await;
    let wanted = "NodeGroup pool: 2 empty nodes would have to be deleted, and 1 are empty; pods are not evicted for a policy";
    assert_eq!(message, wanted);
    assert_eq!(world.nodes_of("pool").await.len(), 4, "nothing is changed");
    let is_cordoned = |node: &Node| node.spec.as_ref().unwrap().unschedulable == Some(true);
    assert!(!world.nodes_of("pool").await.iter().any(is_cordoned));

    let pods: Api<Pod> = world.cluster.api();
    let gone = format!("on-{}", nodes[0].name_any());
    pods.delete(&gone, &DeleteParams::default().grace_period(0)).await.unwrap();
    world.has_nodes("pool", 2).await;
    let left: Vec<String> = world.nodes_of("pool").await.iter().map(Node::name_any).collect();
    assert!(nodes[1..3].iter().all(|node| left.contains(&node.name_any())), "{left:?}");
    assert_eq!(world.target("pool").await, Some(2));
    until("the policy knows the size", async || world.status("p").await.current_count == Some(2))
        .await;
}

#[tokio::test(start_paused = true)]
async fn machines_that_have_not_appeared_are_cancelled_and_limits_hold() {
    let world = World::start(1).await;
    world.load.returns(5.0);
    world.node_group("pool", "1h").await;
    world.policy("p", policy("pool")).await;
    until("five are requested", async || world.target("pool").await == Some(5)).await;
    world.load.returns(2.0);
    until("three are cancelled", async || world.target("pool").await == Some(2)).await;
    assert!(world.nodes_of("pool").await.is_empty());
    world.load.returns(9.0);
    let message = world.condition("p", ("AbleToScale", "False", "FailedUpdateScale")).await;
    assert_eq!(
        message,
        "NodeGroup pool: 9 nodes are not between its min and max, which are 1 and 6"
    );
    world.policy("missing", policy("none")).await;
    let message = world.condition("missing", ("AbleToScale", "False", "FailedGetScale")).await;
    assert!(message.starts_with("NodeGroup none: "), "{message}");
}

#[tokio::test(start_paused = true)]
async fn the_groups_of_a_node_autoscaler_are_left_to_it() {
    let world = World::start(1).await;
    world.load.returns(3.0);
    world.node_group("pool", "0s").await;
    let autoscaler: Api<NodeAutoscaler> = Api::all(world.cluster.client.clone());
    let object = json!({"metadata": {"name": "default"}, "spec": {}});
    let object = serde_json::from_value(object).unwrap();
    autoscaler.create(&PostParams::default(), &object).await.unwrap();
    world.policy("p", policy("pool")).await;
    let message = world.condition("p", ("AbleToScale", "False", "FailedUpdateScale")).await;
    let wanted =
        "NodeGroup pool: the NodeAutoscaler `default` manages its nodes; delete one of the two";
    assert_eq!(message, wanted);
    pass(60).await;
    assert!(world.nodes_of("pool").await.is_empty());
    autoscaler.delete("default", &DeleteParams::default()).await.unwrap();
    world.has_nodes("pool", 3).await;
}
