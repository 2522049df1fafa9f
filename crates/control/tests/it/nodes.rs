//! Node autoscaling on the embedded engine with simulated groups: pods get nodes, and unneeded nodes are removed.

mod fleets;
mod hanging;
mod invalid;
mod replay;
mod rivals;

use std::time::Duration;

use api::plimsoll::{Decision, NodeAutoscaler, NodeGroup};
use cluster::{Caches, DecisionSettings};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, Pod, Taint};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt as _};
use plimsoll_control::{Part, Settings, required_kinds, run};
use process::Supervisor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client;
use crate::cluster::{Cluster, until};

const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// A cluster with a NodeAutoscaler and controllers. Pods of these tests go to the nodes of groups only.
struct World {
    cluster: Cluster,
    /// The label and namespace of this test.
    name: String,
    provider: &'static str,
    tasks: JoinSet<()>,
}

/// Runs the controller of nodes as a process of its own does.
async fn control(client: Client, settings: Settings) {
    let caches = Caches::new(None, false);
    let (kinds, supervisor) = (required_kinds(&[Part::Nodes]), Supervisor::new());
    let _following = caches.follow(&client, &kinds, &settings.random, &supervisor);
    let decisions = DecisionSettings { namespace: "default".to_owned(), ..settings.decisions };
    let settings = Settings { decisions, ..settings };
    run(client, caches, settings, &[Part::Nodes], std::future::pending()).await;
}

impl World {
    /// Starts an embedded engine with controllers and an autoscaler that removes nodes at once.
    async fn start(spec: Value) -> Self {
        let mut world = Self::idle(spec).await;
        world.tasks.spawn(control(world.client(), world.cluster.settings()));
        world
    }

    /// Starts an embedded engine without controllers.
    async fn idle(spec: Value) -> Self {
        let cluster = Cluster::embedded().await;
        let name = cluster.namespace.clone();
        let world = Self { cluster, name, provider: "simulated", tasks: JoinSet::new() };
        world.autoscaler(spec).await;
        world
    }

    async fn autoscaler(&self, mut spec: Value) {
        let defaults = json!({
            "unneededFor": "0s", "delayAfterAdd": "0s", "delayAfterFailure": "0s",
            "unreadyFor": "0s", "maxDrainParallel": 10,
        });
        for (key, value) in defaults.as_object().unwrap() {
            if spec["scaleDown"][key].is_null() {
                spec["scaleDown"][key] = value.clone();
            }
        }
        self.put::<NodeAutoscaler>(json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeAutoscaler",
            "metadata": {"name": "default"}, "spec": spec,
        }))
        .await;
    }

    /// Creates a group of nodes with 4 cpu.
    async fn group(&self, name: &str, spec: Value, provider: Value) {
        self.group_of(self.provider, name, spec, provider).await;
    }

    /// Creates a group of a provider.
    async fn group_of(&self, kind: &str, name: &str, spec: Value, provider: Value) {
        let mut spec = spec;
        spec["provider"] = json!({kind: provider});
        spec["template"] = json!({
            "labels": {"pool": self.name, "kind": name},
            "capacity": {"cpu": "4", "memory": "16Gi", "pods": "20"},
        });
        self.put::<NodeGroup>(json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeGroup",
            "metadata": {"name": name}, "spec": spec,
        }))
        .await;
    }

    async fn put<K>(&self, object: Value)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + Serialize,
    {
        let object: K = serde_json::from_value(object).unwrap();
        let api: Api<K> = Api::all(self.client());
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    fn client(&self) -> Client {
        self.cluster.client.clone()
    }

    /// Creates a pod for the nodes of the groups; `owner` is a ReplicaSet that would replace it.
    async fn pod(&self, name: &str, cpu: &str, more: Value) {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "test"}},
            "spec": {
                "nodeSelector": {"pool": self.name},
                "terminationGracePeriodSeconds": 1,
                "containers": [{
                    "name": "c", "image": "game:1", "resources": {"requests": {"cpu": cpu}},
                }],
            },
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            pod["metadata"][key] = value.clone();
        }
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.cluster.api::<Pod>().create(&PostParams::default(), &pod).await.unwrap();
    }

    /// Creates a pod for the nodes of one group.
    async fn pod_of(&self, group: &str, name: &str) {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {
                "nodeSelector": {"pool": self.name, "kind": group},
                "containers": [{
                    "name": "c", "image": "game:1", "resources": {"requests": {"cpu": "3"}},
                }],
            },
        }))
        .unwrap();
        self.cluster.api::<Pod>().create(&PostParams::default(), &pod).await.unwrap();
    }

    /// The condition of the autoscaler, as its status and reason.
    async fn active(&self) -> Option<(String, String)> {
        let api: Api<NodeAutoscaler> = Api::all(self.client());
        let status = api.get("default").await.unwrap().status.unwrap_or_default();
        let active = status.conditions.into_iter().find(|condition| condition.type_ == "Active");
        active.map(|condition| (condition.status, condition.reason))
    }

    /// The keys of a node's taints.
    async fn taints(&self, name: &str) -> Vec<String> {
        let node = Api::<Node>::all(self.client()).get(name).await.unwrap();
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        taints.into_iter().map(|taint: Taint| taint.key).collect()
    }

    /// Taints a node as an autoscaler does.
    async fn taint(&self, name: &str) {
        let keys = [TO_BE_DELETED, "DeletionCandidateOfClusterAutoscaler"];
        let taints = keys.map(|key| json!({"key": key, "value": "1", "effect": "NoSchedule"}));
        let change = Patch::Merge(json!({"spec": {"taints": taints}}));
        let nodes: Api<Node> = Api::all(self.client());
        nodes.patch(name, &PatchParams::default(), &change).await.unwrap();
    }

    /// Creates an object that stands for a controller, and returns the owner reference of its pods.
    async fn owner(&self) -> Value {
        let owner: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": "owner"}})).unwrap();
        let owner = self.cluster.api::<ConfigMap>().create(&PostParams::default(), &owner).await;
        let owner = owner.unwrap();
        json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": owner.name_any(),
            "uid": owner.uid(), "controller": true,
        }])
    }

    async fn delete_pod(&self, name: &str) {
        self.cluster.api::<Pod>().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// The nodes of a group.
    async fn nodes(&self, group: &str) -> Vec<Node> {
        let api: Api<Node> = Api::all(self.client());
        let of_group = ListParams::default().labels(&format!("plimsoll.dev/node-group={group}"));
        api.list(&of_group).await.unwrap().items
    }

    /// The names of the pods that have a node.
    async fn bound(&self) -> usize {
        let pods: Vec<Pod> = self.cluster.list().await;
        let is_bound = |pod: &&Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        pods.iter().filter(is_bound).count()
    }

    async fn group_status(&self, name: &str) -> Value {
        let api: Api<NodeGroup> = Api::all(self.client());
        json!(api.get(name).await.unwrap().status)
    }

    /// Whether a condition of a group has a status.
    async fn has_condition(&self, group: &str, kind: &str, status: &str) -> bool {
        let found = self.group_status(group).await;
        let all = found["conditions"].as_array().cloned().unwrap_or_default();
        all.iter().any(|condition| condition["type"] == kind && condition["status"] == status)
    }

    /// The reasons of all events about objects with a name.
    async fn reasons(&self, about: &str) -> Vec<String> {
        let events: Api<Event> = Api::all(self.client());
        let events = events.list(&ListParams::default()).await.unwrap().items;
        let is_about = |event: &Event| event.involved_object.name.as_deref() == Some(about);
        events.into_iter().filter(is_about).filter_map(|event| event.reason).collect()
    }

    async fn has_event(&self, about: &str, reason: &str) -> bool {
        self.reasons(about).await.iter().any(|found| found == reason)
    }

    /// Whether a node has the hard taint.
    async fn is_tainted(&self, name: &str) -> bool {
        self.taints(name).await.iter().any(|key| key == TO_BE_DELETED)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_get_nodes_from_zero_and_reasons_are_reported() {
    let world = World::start(json!({"scaleDown": {"enabled": false}})).await;
    world.group("small", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    for n in 0..6 {
        world.pod(&format!("p{n}"), "1500m", json!({})).await;
    }
    until("six pods have nodes", async || world.bound().await == 6).await;
    assert_eq!(world.nodes("small").await.len(), 3, "two pods fit on each");
    assert_eq!(world.group_status("small").await["target"], 3);
    until("pods have events", async || world.has_event("p0", "TriggeredScaleUp").await).await;
    until("the group has an event", async || world.has_event("small", "ScaledUpGroup").await).await;
    until("a decision is recorded", async || {
        let decisions: Api<Decision> = Api::all(world.client());
        let all = decisions.list(&ListParams::default()).await.unwrap().items;
        all.iter().any(|decision| decision.spec.subject.kind == "NodeAutoscaler")
    })
    .await;
    until("the scale-up is complete", async || {
        world.group_status("small").await["scaleUp"].is_null()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_expander_chooses_the_group() {
    let spec = json!({"expanders": ["priority"], "scaleDown": {"enabled": false}});
    let world = World::start(spec).await;
    world.group("first", json!({"max": 5, "priority": 1}), json!({"startAfter": "0s"})).await;
    world.group("second", json!({"max": 5, "priority": 9}), json!({"startAfter": "0s"})).await;
    world.pod("p", "1", json!({})).await;
    until("the pod has a node", async || world.bound().await == 1).await;
    assert_eq!((world.nodes("first").await.len(), world.nodes("second").await.len()), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_and_waiting_pods_get_events() {
    let world = World::start(json!({"scaleDown": {"enabled": false}})).await;
    world.group("one", json!({"max": 1}), json!({"startAfter": "0s"})).await;
    world.pod("fits", "3", json!({})).await;
    until("the pod has a node", async || world.bound().await == 1).await;
    world.pod("waits", "3", json!({})).await;
    world.pod("huge", "100", json!({})).await;
    until("the small pod has an event", async || {
        world.has_event("waits", "NotTriggerScaleUp").await
    })
    .await;
    until("the huge pod has an event", async || world.has_event("huge", "NotTriggerScaleUp").await)
        .await;
    assert_eq!(world.nodes("one").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_without_machines_is_backed_off_and_the_next_best_grows() {
    let spec = json!({"expanders": ["priority"], "scaleDown": {"enabled": false}});
    let world = World::start(spec).await;
    let empty = json!({"startAfter": "0s", "outOfStock": true});
    world.group("best", json!({"max": 5, "priority": 9}), empty).await;
    world.group("other", json!({"max": 5, "priority": 1}), json!({"startAfter": "0s"})).await;
    world.pod("p", "1", json!({})).await;
    until("the pod has a node", async || world.bound().await == 1).await;
    assert_eq!(world.nodes("other").await.len(), 1);
    until("backed off", async || world.has_condition("best", "BackedOff", "True").await).await;
    assert!(world.has_event("best", "FailedToScaleUpGroup").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_that_fail_to_start_are_given_up() {
    let world = World::start(json!({"scaleDown": {"enabled": false}})).await;
    let broken = json!({"startAfter": "0s", "failureRate": 1.0});
    world.group("broken", json!({"max": 5}), broken).await;
    world.pod("p", "1", json!({})).await;
    until("backed off", async || world.has_condition("broken", "BackedOff", "True").await).await;
    until("given up", async || world.group_status("broken").await["target"] == 0).await;
    assert!(world.has_event("broken", "ScaleUpFailed").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_that_do_not_appear_in_time_are_cancelled() {
    let spec = json!({"scaleUp": {"maxProvisionTime": "1s"}, "scaleDown": {"enabled": false}});
    let world = World::start(spec).await;
    world.group("slow", json!({"max": 5}), json!({"startAfter": "1h"})).await;
    world.pod("p", "1", json!({})).await;
    until("timed out", async || world.has_event("slow", "ScaleUpTimedOut").await).await;
    until("cancelled", async || world.group_status("slow").await["target"] == 0).await;
    until("backed off", async || world.has_condition("slow", "BackedOff", "True").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_nodes_are_removed_but_never_below_the_minimum() {
    let world = World::start(json!({})).await;
    world.group("g", json!({"min": 1, "max": 5}), json!({"startAfter": "0s"})).await;
    for n in 0..3 {
        world.pod(&format!("p{n}"), "3", json!({})).await;
    }
    until("three pods have nodes", async || world.bound().await == 3).await;
    for n in 0..3 {
        world.delete_pod(&format!("p{n}")).await;
    }
    until("one node is left", async || world.nodes("g").await.len() == 1).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let left = world.nodes("g").await;
    assert_eq!(left.len(), 1, "the minimum stays");
    assert_eq!(world.group_status("g").await["target"], 1);
    assert!(!world.is_tainted(&left[0].name_any()).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_drained_within_its_budgets() {
    let world = World::start(json!({"scaleDown": {"skipCustomControllerPods": false}})).await;
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    let budget: PodDisruptionBudget = serde_json::from_value(json!({
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "test"}}},
    }))
    .unwrap();
    let budgets = world.cluster.api::<PodDisruptionBudget>();
    budgets.create(&PostParams::default(), &budget).await.unwrap();
    let owner = world.owner().await;
    world.pod("first", "1500m", json!({"ownerReferences": owner})).await;
    world.pod("second", "1500m", json!({"ownerReferences": owner})).await;
    until("two pods share a node", async || world.bound().await == 2).await;
    world.pod("third", "1200m", json!({"ownerReferences": owner})).await;
    until("the third has another", async || world.bound().await == 3).await;
    assert_eq!(world.nodes("g").await.len(), 2);
    world.delete_pod("second").await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!((world.bound().await, world.nodes("g").await.len()), (2, 2), "the budget holds");
    let change = Patch::Merge(json!({"spec": {"minAvailable": 1}}));
    budgets.patch("b", &PatchParams::default(), &change).await.unwrap();
    until("one node is drained and gone", async || world.nodes("g").await.len() == 1).await;
    assert_eq!(world.bound().await, 1, "its pod was evicted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_nothing_would_replace_keep_their_node() {
    let world = World::start(json!({})).await;
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    world.pod("bare", "100m", json!({})).await;
    world.pod("full", "3950m", json!({})).await;
    until("both have nodes", async || world.bound().await == 2).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!((world.bound().await, world.nodes("g").await.len()), (2, 2));
    let changes =
        json!({"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}});
    world.delete_pod("full").await;
    until("the empty node is gone", async || world.nodes("g").await.len() == 1).await;
    let change = Patch::Merge(json!({"metadata": changes}));
    let pods = world.cluster.api::<Pod>();
    pods.patch("bare", &PatchParams::default(), &change).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.bound().await, 1, "there is no other node for it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_a_pod_that_cannot_be_decoded_stays() {
    let mut world = World::idle(json!({})).await;
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    let odd = json!({"metadata": {"name": "odd", "namespace": world.name, "uid": "u"}, "spec": 7});
    let client = client::listing(world.client(), "pods", "spec.nodeName", odd);
    world.tasks.spawn(control(client, world.cluster.settings()));
    world.pod("p", "3", json!({})).await;
    until("the pod has a node", async || world.bound().await == 1).await;
    let node = world.nodes("g").await.remove(0).name_any();
    world.delete_pod("p").await;
    until("the removal fails", async || world.has_event(&node, "ScaleDownFailed").await).await;
    assert_eq!(world.nodes("g").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_in_the_middle_of_a_removal_leaves_no_taint() {
    let world = World::idle(json!({"scaleDown": {"maxParallel": 1}})).await;
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    let (client, settings) = (world.client(), world.cluster.settings());
    let first = tokio::spawn(control(client, settings));
    world.pod("p", "3", json!({})).await;
    until("the pod has a node", async || world.bound().await == 1).await;
    let node = world.nodes("g").await[0].name_any();
    world.delete_pod("p").await;
    until("the removal has begun", async || world.is_tainted(&node).await).await;
    first.abort();
    drop(first.await);
    assert!(world.is_tainted(&node).await, "the controller died in between");
    let keep = json!({"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"});
    let change = Patch::Merge(json!({"metadata": {"annotations": keep}}));
    let nodes: Api<Node> = Api::all(world.client());
    nodes.patch(&node, &PatchParams::default(), &change).await.unwrap();
    let (client, settings) = (world.client(), world.cluster.settings());
    let second = tokio::spawn(control(client, settings));
    until("the taint is gone", async || !world.is_tainted(&node).await).await;
    assert_eq!(world.nodes("g").await.len(), 1);
    second.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_that_die_at_any_request_leave_no_taint_and_keep_the_minimum() {
    let mut world = World::idle(json!({})).await;
    world.group("g", json!({"min": 1, "max": 5}), json!({"startAfter": "0s"})).await;
    let (client, settings, seed) = (world.client(), world.cluster.settings(), fastrand::u64(..));
    eprintln!("deaths by seed {seed}");
    world.tasks.spawn(async move {
        let mut chance = fastrand::Rng::with_seed(seed);
        for number in 0.. {
            // The watches alone take about thirty requests.
            let life = chance.u32(30..60 + 20 * number);
            let (client, death) = client::mortal(client.clone(), life, chance.bool());
            let mut tasks = JoinSet::new();
            tasks.spawn(control(client, settings.clone()));
            death.notified().await;
        }
    });
    for n in 0..3 {
        world.pod(&format!("p{n}"), "3", json!({})).await;
    }
    until("three pods have nodes", async || world.bound().await == 3).await;
    for n in 0..3 {
        world.delete_pod(&format!("p{n}")).await;
    }
    until("one node is left, without a taint", async || {
        let nodes = world.nodes("g").await;
        assert!(!nodes.is_empty(), "the minimum is kept");
        let is_target = world.group_status("g").await["target"] == 1;
        is_target && nodes.len() == 1 && !world.is_tainted(&nodes[0].name_any()).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kwok_nodes_are_added_and_removed_on_a_real_api_server() {
    let Some(cluster) = Cluster::real().await else { return };
    let name = cluster.namespace.clone();
    let mut world = World { cluster, name: name.clone(), provider: "kwok", tasks: JoinSet::new() };
    let autoscalers: Api<NodeAutoscaler> = Api::all(world.client());
    drop(autoscalers.delete("default", &DeleteParams::default()).await);
    world.tasks.spawn(control(world.client(), world.cluster.settings()));
    world.autoscaler(json!({"scaleDown": {"unneededFor": "2s"}})).await;
    let group = format!("g-{name}");
    world.group(&group, json!({"max": 5}), json!({"startAfter": "0s"})).await;
    for n in 0..4 {
        world.pod(&format!("p{n}"), "1500m", json!({})).await;
    }
    until("the pods have nodes", async || world.bound().await == 4).await;
    assert_eq!(world.nodes(&group).await.len(), 2);
    for n in 0..4 {
        world.delete_pod(&format!("p{n}")).await;
    }
    until("the nodes are gone", async || world.nodes(&group).await.is_empty()).await;
    let now = DeleteParams::default();
    drop(Api::<NodeGroup>::all(world.client()).delete(&group, &now).await);
    drop(Api::<NodeAutoscaler>::all(world.client()).delete("default", &now).await);
    world.cluster.end().await;
}
