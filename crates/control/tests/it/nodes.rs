//! Node autoscaling: pods get nodes, and unneeded nodes are removed. Each story runs on the embedded engine with simulated groups, and
//! on a real API server with the real scheduler and KWOK.

mod blockers;
mod budgets;
mod buffers;
mod cloud;
mod cluster_api;
mod deaths;
mod expander;
mod fleets;
mod growing;
mod hanging;
mod idle;
mod invalid;
mod invariants;
mod membership;
mod removals;
mod replay;
mod rivals;
mod shrinking;
mod stories;
mod trouble;
mod values;

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
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::JoinSet;

use crate::client;
use crate::cluster::{Cluster, until};
use invariants::Invariants;

/// The label of pods that stories create outside of their own namespace.
const STORY_LABEL: &str = "plimsoll.test/story";
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";
/// Held by the story that uses the real cluster: its NodeAutoscaler is for all nodes.
static REAL_CLUSTER: Mutex<()> = Mutex::const_new(());

/// The engine that a story runs on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Embedded,
    Real,
}

/// A cluster with a NodeAutoscaler and controllers. Pods of these tests go to the nodes of groups only.
struct World {
    cluster: Cluster,
    /// The label and namespace of this test.
    name: String,
    provider: &'static str,
    tasks: JoinSet<()>,
    invariants: Invariants,
    _turn: Option<MutexGuard<'static, ()>>,
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
        Self::on(Stage::Embedded, spec).await.unwrap()
    }

    /// Starts controllers and an autoscaler that removes nodes at once; `None`: there is no such engine.
    async fn run_on(stage: Stage, spec: Value) -> Option<Self> {
        let mut world = Self::on(stage, spec).await?;
        world.tasks.spawn(control(world.client(), world.cluster.settings()));
        Some(world)
    }

    /// Returns a cluster without controllers; `None`: there is no such engine.
    async fn on(stage: Stage, spec: Value) -> Option<Self> {
        let (cluster, provider, turn) = match stage {
            Stage::Embedded => (Cluster::embedded().await, "simulated", None),
            Stage::Real => {
                let turn = REAL_CLUSTER.lock().await;
                let cluster = Cluster::real().await?;
                remove_leftovers(&cluster.client).await;
                (cluster, "kwok", Some(turn))
            }
        };
        let name = cluster.namespace.clone();
        let invariants = Invariants::follow(&cluster.client, &cluster.namespace);
        let tasks = JoinSet::new();
        let world = Self { cluster, name, provider, tasks, invariants, _turn: turn };
        world.autoscaler(spec).await;
        Some(world)
    }

    /// Checks what holds in every story, and on a real cluster removes what the story has made.
    async fn end(mut self) {
        until("no taint and no cordon is left", async || {
            let nodes = self.managed_nodes().await;
            let is_marked = |node: &Node| {
                let spec = node.spec.clone().unwrap_or_default();
                let has_taint = spec.taints.iter().flatten().any(|t| t.key == TO_BE_DELETED);
                has_taint || spec.unschedulable == Some(true)
            };
            !nodes.iter().any(is_marked)
        })
        .await;
        self.invariants.check();
        self.tasks.shutdown().await;
        if self.provider == "simulated" {
            return;
        }
        drop(self.invariants);
        let (now, all) = (DeleteParams::default().grace_period(0), ListParams::default());
        drop(self.cluster.api::<Pod>().delete_collection(&now, &all).await);
        remove_leftovers(&self.cluster.client).await;
        self.cluster.end().await;
    }

    /// The nodes of all groups of this story.
    async fn managed_nodes(&self) -> Vec<Node> {
        let api: Api<Node> = Api::all(self.client());
        let of_story = ListParams::default().labels(&format!("pool={}", self.name));
        api.list(&of_story).await.unwrap().items
    }

    /// The name of a group: unique in a cluster that stories share.
    fn group_name(&self, name: &str) -> String {
        match self.provider {
            "simulated" => name.to_owned(),
            _ => format!("{name}-{}", self.name),
        }
    }

    async fn autoscaler(&self, mut spec: Value) {
        let defaults = json!({
            "unneededFor": "0s", "delayAfterAdd": "0s", "delayAfterFailure": "0s",
            "unreadyFor": "0s", "maxDrainParallel": 10, "delayAfterTaint": "200ms",
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
            // Keeps the pods of other tests away.
            "taints": [{"key": "pool", "value": self.name, "effect": "NoSchedule"}],
        });
        self.put::<NodeGroup>(json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeGroup",
            "metadata": {"name": self.group_name(name)}, "spec": spec,
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

    /// Creates a pod for the nodes of the groups. `more` are its volumes, and members of its metadata.
    async fn pod(&self, name: &str, cpu: &str, more: Value) {
        let pod = self.pod_object(name, cpu, more);
        self.cluster.api::<Pod>().create(&PostParams::default(), &pod).await.unwrap();
    }

    /// Returns a pod for the nodes of the groups.
    fn pod_object(&self, name: &str, cpu: &str, more: Value) -> Pod {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "test"}},
            "spec": {
                "nodeSelector": {"pool": self.name},
                "tolerations": [{"key": "pool", "operator": "Exists"}],
                "terminationGracePeriodSeconds": 1,
                "containers": [{
                    "name": "c", "image": "game:1", "resources": {"requests": {"cpu": cpu}},
                }],
            },
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            let part = if key == "volumes" { "spec" } else { "metadata" };
            pod[part][key] = value.clone();
        }
        serde_json::from_value(pod).unwrap()
    }

    /// Creates a pod for the nodes of one group.
    async fn pod_of(&self, group: &str, name: &str) {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {
                "nodeSelector": {"pool": self.name, "kind": group},
                "tolerations": [{"key": "pool", "operator": "Exists"}],
                "terminationGracePeriodSeconds": 1,
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
        let of_group = ListParams::default()
            .labels(&format!("plimsoll.dev/node-group={}", self.group_name(group)));
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
        json!(api.get(&self.group_name(name)).await.unwrap().status)
    }

    /// Whether a condition of a group has a status.
    async fn has_condition(&self, group: &str, kind: &str, status: &str) -> bool {
        let found = self.group_status(group).await;
        let all = found["conditions"].as_array().cloned().unwrap_or_default();
        all.iter().any(|condition| condition["type"] == kind && condition["status"] == status)
    }

    /// The reasons of all events about objects with a name.
    async fn reasons(&self, about: &str) -> Vec<String> {
        self.events(about).await.into_iter().filter_map(|event| event.reason).collect()
    }

    /// The messages of all events about objects with a name.
    async fn messages(&self, about: &str) -> String {
        let all = self.events(about).await.into_iter().filter_map(|event| event.message);
        all.collect::<Vec<_>>().join("\n")
    }

    /// All events about objects with a name.
    async fn events(&self, about: &str) -> Vec<Event> {
        let events: Api<Event> = Api::all(self.client());
        let events = events.list(&ListParams::default()).await.unwrap().items;
        let is_about = |event: &Event| {
            let (object, own) = (&event.involved_object, &self.cluster.namespace);
            object.name.as_deref() == Some(about)
                && object.namespace.as_ref().is_none_or(|namespace| namespace == own)
        };
        events.into_iter().filter(is_about).collect()
    }

    async fn has_event(&self, about: &str, reason: &str) -> bool {
        self.reasons(about).await.iter().any(|found| found == reason)
    }

    /// Whether there is an event about a group.
    async fn has_group_event(&self, group: &str, reason: &str) -> bool {
        self.has_event(&self.group_name(group), reason).await
    }

    /// The reasons that recorded decisions give for keeping a node.
    async fn kept_for(&self, node: &str) -> Vec<String> {
        let decisions: Api<Decision> = Api::all(self.client());
        let all = decisions.list(&ListParams::default()).await.unwrap().items;
        let kept = all.iter().flat_map(|decision| {
            let unremovable = decision.spec.decision.get("unremovable");
            unremovable.and_then(Value::as_array).cloned().unwrap_or_default()
        });
        let kept = kept.filter(|kept| kept["node"] == node);
        kept.map(|kept| {
            let code = kept["blocking"].as_str().or(kept["reason"].as_str());
            code.unwrap_or_default().to_owned()
        })
        .collect()
    }

    /// Changes a node.
    async fn patch_node(&self, name: &str, change: Value) {
        let nodes: Api<Node> = Api::all(self.client());
        nodes.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    }

    /// The node of a pod.
    async fn node_of(&self, pod: &str) -> String {
        self.bound_to(pod).await.unwrap()
    }

    /// The node of a pod, if it has one.
    async fn bound_to(&self, pod: &str) -> Option<String> {
        let pod = self.cluster.api::<Pod>().get(pod).await.unwrap();
        pod.spec.and_then(|spec| spec.node_name)
    }

    /// Waits until a node is kept for a reason.
    async fn until_kept(&self, node: &str, reason: &str) {
        until(&format!("{node} is kept for {reason}"), async || {
            self.kept_for(node).await.iter().any(|kept| kept == reason)
        })
        .await;
    }

    /// Creates a budget for the pods of this test.
    async fn budget(&self, min_available: u32) {
        self.budget_of("b", ("app", "test"), min_available).await;
    }

    /// Creates a budget for the pods with a label.
    async fn budget_of(&self, name: &str, (key, value): (&str, &str), min_available: u32) {
        let budget: PodDisruptionBudget = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"minAvailable": min_available, "selector": {"matchLabels": {key: value}}},
        }))
        .unwrap();
        let budgets = self.cluster.api::<PodDisruptionBudget>();
        budgets.create(&PostParams::default(), &budget).await.unwrap();
    }

    /// Whether a node has the hard taint.
    async fn is_tainted(&self, name: &str) -> bool {
        self.taints(name).await.iter().any(|key| key == TO_BE_DELETED)
    }
}

/// Removes autoscalers, groups and their nodes from a real cluster: of this story, or of one that failed.
async fn remove_leftovers(client: &Client) {
    let (now, all) = (DeleteParams::default(), ListParams::default());
    drop(Api::<NodeAutoscaler>::all(client.clone()).delete_collection(&now, &all).await);
    drop(Api::<NodeGroup>::all(client.clone()).delete_collection(&now, &all).await);
    let system_pods: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    let of_stories = ListParams::default().labels(STORY_LABEL);
    let at_once = DeleteParams::default().grace_period(0);
    drop(system_pods.delete_collection(&at_once, &of_stories).await);
    let of_groups = ListParams::default().labels("plimsoll.dev/node-group");
    let nodes: Api<Node> = Api::all(client.clone());
    drop(nodes.delete_collection(&now, &of_groups).await);
    let autoscalers: Api<NodeAutoscaler> = Api::all(client.clone());
    until("they are gone", async || {
        let nodes = nodes.list(&of_groups).await.unwrap().items;
        nodes.is_empty() && autoscalers.list(&all).await.unwrap().items.is_empty()
    })
    .await;
}
