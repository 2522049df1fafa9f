//! NodeAutoscaler: the settings for adding and removing nodes, and the state of earlier evaluations.

pub(crate) mod check;
mod providers;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_core::CustomResourceExt;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Span;
use crate::{Admission, Kind, Problem, Scope};

pub use providers::{
    Aws, AwsDiscovery, AwsEndpoints, ClusterApi, ClusterApiDiscovery, ExternalGrpc, GrpcExpander,
    Providers, SecretKey, Tls,
};

/// When nodes are added and removed
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "plimsoll.dev",
    version = "v1alpha1",
    kind = "NodeAutoscaler",
    shortname = "nas",
    status = "NodeAutoscalerStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Expanders", "type": "string", "jsonPath": ".spec.expanders"}"#,
    printcolumn = r#"{"name": "Scale-Down", "type": "boolean", "jsonPath": ".spec.scaleDown.enabled"}"#,
    printcolumn = r#"{"name": "Last-Scale-Up", "type": "date", "jsonPath": ".status.lastScaleUpAt"}"#,
    printcolumn = r#"{"name": "Last-Delete", "type": "date", "jsonPath": ".status.lastDeleteAt"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(kube_core = "kube_core")
)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeAutoscalerSpec {
    /// How a group is chosen among several that would help, each name a filter on what the ones before it left:
    /// random, most-pods, least-waste, least-nodes, price, priority, grpc. Name order ends it.
    pub expanders: Vec<String>,
    /// The server that the expander `grpc` asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_expander: Option<GrpcExpander>,
    /// The seed of the expander `random`.
    #[schemars(with = "i64", range(min = 0))]
    pub seed: u64,
    /// The limits of the whole cluster.
    pub limits: Limits,
    /// How nodes are added.
    pub scale_up: ScaleUp,
    /// How nodes are removed.
    pub scale_down: ScaleDown,
    /// The limits beyond which a cluster is too unhealthy to change.
    pub health: Health,
    /// The connections to systems that add and remove machines.
    #[serde(skip_serializing_if = "Providers::is_empty")]
    pub providers: Providers,
    /// How fleets of game servers are taken into account.
    pub fleets: Fleets,
}

impl Default for NodeAutoscalerSpec {
    fn default() -> Self {
        Self {
            expanders: vec!["least-waste".to_owned()],
            grpc_expander: None,
            seed: 0,
            limits: Limits::default(),
            scale_up: ScaleUp::default(),
            scale_down: ScaleDown::default(),
            health: Health::default(),
            providers: Providers::default(),
            fleets: Fleets::default(),
        }
    }
}

/// The limits of the whole cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Limits {
    /// The maximum number of nodes, in groups and unmanaged; 0 means no limit.
    pub nodes: i32,
    /// Cores of all nodes, each node's rounded up.
    pub cores: Cores,
    /// Memory of all nodes.
    pub memory: Memory,
    /// Other resources by name, such as `nvidia.com/gpu`.
    pub resources: BTreeMap<String, Range>,
}

/// How many cores the cluster may have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Cores {
    /// The minimum.
    pub min: i64,
    /// The maximum.
    pub max: i64,
}

impl Default for Cores {
    fn default() -> Self {
        Self { min: 0, max: 320_000 }
    }
}

/// How much memory the cluster may have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Memory {
    /// The minimum.
    pub min: Quantity,
    /// The maximum.
    pub max: Quantity,
}

impl Default for Memory {
    fn default() -> Self {
        Self { min: Quantity("0".to_owned()), max: Quantity("6400000Gi".to_owned()) }
    }
}

/// How much of some resource the cluster may have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Range {
    /// The minimum; 0 unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Quantity>,
    /// The maximum; no limit unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Quantity>,
}

/// How nodes are added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ScaleUp {
    /// How old a pending pod must be before it counts.
    pub new_pod_delay: Span,
    /// How long a requested node may take to appear.
    pub max_provision_time: Span,
    /// The maximum number of nodes that one plan adds.
    pub max_nodes: i32,
    /// Whether new nodes are distributed over similar groups.
    pub balance_similar_groups: bool,
    /// Labels in which similar groups may differ.
    pub balance_ignore_labels: Vec<String>,
    /// If set, groups are similar if they are equal in these labels.
    pub balance_labels: Vec<String>,
    /// How much similar groups may differ, as a share of the larger amount.
    pub balance_tolerances: BalanceTolerances,
    /// Pods of a lower priority neither cause scale-up nor prevent scale-down.
    pub expendable_priority_cutoff: i32,
    /// Whether groups below their minimum are raised to it.
    pub enforce_min_size: bool,
    /// How long a node may take to become ready after it appeared.
    pub max_node_startup_time: Span,
    /// Taints of a node that is not ready yet; not part of a template.
    pub startup_taints: Vec<String>,
    /// The same by the beginning of their key.
    pub startup_taint_prefixes: Vec<String>,
    /// Taints that report the state of a node; not part of a template.
    pub status_taints: Vec<String>,
    /// Whether a template from a real node also gets the DaemonSets' pods that the node lacks.
    pub force_daemon_sets: bool,
    /// The names of schedulers whose pods cause scale-up before the scheduler has looked at them.
    pub bypassed_schedulers: Vec<String>,
    /// If set, only pods of schedulers with these names cause scale-up.
    pub schedulers: Vec<String>,
    /// How long a group is not scaled up after a failure.
    pub backoff: Backoff,
}

/// How much similar groups may differ, as a share of the larger amount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct BalanceTolerances {
    /// In memory.
    pub memory: f64,
    /// In allocatable resources.
    pub allocatable: f64,
    /// In the resources that the DaemonSets of a new node leave free.
    pub free: f64,
}

impl Default for BalanceTolerances {
    fn default() -> Self {
        Self { memory: 0.015, allocatable: 0.05, free: 0.05 }
    }
}

/// How long a group is not scaled up after a failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Backoff {
    /// After the first failure. It doubles with each failure after its end.
    pub initial: Span,
    /// The maximum.
    pub max: Span,
    /// How long after the last failure the next one counts as the first.
    pub reset_after: Span,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { initial: Span::minutes(5), max: Span::minutes(30), reset_after: Span::minutes(180) }
    }
}

impl Default for ScaleUp {
    fn default() -> Self {
        Self {
            new_pod_delay: Span::minutes(0),
            max_provision_time: Span::minutes(15),
            max_nodes: 1000,
            balance_similar_groups: false,
            balance_ignore_labels: Vec::new(),
            balance_labels: Vec::new(),
            balance_tolerances: BalanceTolerances::default(),
            expendable_priority_cutoff: -10,
            enforce_min_size: false,
            max_node_startup_time: Span::minutes(15),
            startup_taints: Vec::new(),
            startup_taint_prefixes: Vec::new(),
            status_taints: Vec::new(),
            force_daemon_sets: false,
            bypassed_schedulers: Vec::new(),
            schedulers: Vec::new(),
            backoff: Backoff::default(),
        }
    }
}

/// How nodes are removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ScaleDown {
    /// Whether nodes are removed at all.
    pub enabled: bool,
    /// Whether unready nodes are removed.
    pub unready_enabled: bool,
    /// The utilization up to which a node can be removed.
    pub utilization_threshold: f64,
    /// The same for the GPUs of a node that has GPUs.
    pub gpu_utilization_threshold: f64,
    /// How long a node must be unneeded before it is removed.
    pub unneeded_for: Span,
    /// How long an unready node must be unneeded before it is removed.
    pub unready_for: Span,
    /// The time after a scale-up in which no node is removed.
    pub delay_after_add: Span,
    /// The time after a removal in which no other node is removed.
    pub delay_after_delete: Span,
    /// The time after a failed removal in which no node is removed.
    pub delay_after_failure: Span,
    /// Whether these three delays hold only the group that was scaled up, or of which a node was removed or should have been.
    pub delays_per_group: bool,
    /// The maximum number of nodes that are removed at the same time.
    pub max_parallel: i32,
    /// The maximum number of them that have pods to move.
    pub max_drain_parallel: i32,
    /// Whether pods of DaemonSets are left out of a node's utilisation.
    pub ignore_daemon_sets_utilization: bool,
    /// Whether mirror pods are left out of a node's utilisation.
    pub ignore_mirror_pods_utilization: bool,
    /// Whether a kube-system pod without a budget keeps its node for `systemPodGrace`.
    pub skip_system_pods: bool,
    /// Whether a pod with local storage keeps its node.
    pub skip_local_storage: bool,
    /// Whether a pod of a controller that Kubernetes does not bring along keeps its node.
    pub skip_custom_controller_pods: bool,
    /// A pod of a smaller ReplicaSet or ReplicationController keeps its node.
    pub min_replica_count: i32,
    /// How long a kube-system pod without a budget keeps its node.
    pub system_pod_grace: Span,
    /// The maximum time that a pod may take to terminate.
    pub max_graceful_termination: Span,
    /// The steps in which the pods of a node are evicted, by their priority: the pods of a step have to be gone before the next step
    /// begins. Unless set, all are evicted at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drain_priorities: Vec<DrainPriority>,
    /// How long an eviction that is refused, as by a budget, is requested again.
    pub max_eviction_time: Span,
    /// Whether a node is cordoned when its removal begins.
    pub cordon: bool,
    /// How long the scheduler has to observe the taint of a node before its pods are read for the last time.
    pub delay_after_taint: Span,
    /// Whether pods of DaemonSets are evicted from nodes without other pods. The annotation
    /// `cluster-autoscaler.kubernetes.io/enable-ds-eviction` of a pod takes precedence.
    pub evict_daemon_sets_of_empty_nodes: bool,
    /// Whether pods of DaemonSets are evicted from nodes with other pods.
    pub evict_daemon_sets_of_occupied_nodes: bool,
    /// How long annotations of a drained node that begin with `delay-deletion.cluster-autoscaler.kubernetes.io/` may hold its deletion.
    pub max_deletion_delay: Span,
    /// How long drained nodes of a group are collected, so that its provider deletes them in one call; 0 means not at all.
    pub batch_interval: Span,
    /// The maximum number of nodes whose soft taint is changed in one evaluation; 0 means that there are none.
    pub max_soft_taints: i32,
}

/// A step of a drain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct DrainPriority {
    /// The lowest priority of its pods. The first step also has the pods of lower priorities.
    pub priority: i32,
    /// The maximum time that its pods may take to terminate.
    pub grace: Span,
}

impl Default for ScaleDown {
    fn default() -> Self {
        Self {
            enabled: true,
            unready_enabled: true,
            utilization_threshold: 0.5,
            gpu_utilization_threshold: 0.5,
            unneeded_for: Span::minutes(10),
            unready_for: Span::minutes(20),
            delay_after_add: Span::minutes(10),
            delay_after_delete: Span::minutes(0),
            delay_after_failure: Span::minutes(3),
            delays_per_group: false,
            max_parallel: 10,
            max_drain_parallel: 1,
            ignore_daemon_sets_utilization: false,
            ignore_mirror_pods_utilization: false,
            skip_system_pods: true,
            skip_local_storage: true,
            skip_custom_controller_pods: true,
            min_replica_count: 0,
            system_pod_grace: Span::minutes(60),
            max_graceful_termination: Span::minutes(10),
            drain_priorities: Vec::new(),
            max_eviction_time: Span::minutes(2),
            cordon: true,
            delay_after_taint: Span(SignedDuration::from_secs(1)),
            evict_daemon_sets_of_empty_nodes: false,
            evict_daemon_sets_of_occupied_nodes: true,
            max_deletion_delay: Span::minutes(2),
            batch_interval: Span::minutes(0),
            max_soft_taints: 10,
        }
    }
}

/// When a cluster is too unhealthy to touch: when more nodes than `okUnready` and more than this share are unready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Health {
    /// The share of unready nodes, in percent, that is still healthy.
    pub max_unready_percent: f64,
    /// How many unready nodes are healthy in any case.
    pub ok_unready: i32,
}

impl Default for Health {
    fn default() -> Self {
        Self { max_unready_percent: 45.0, ok_unready: 3 }
    }
}

/// How fleets of game servers are taken into account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Fleets {
    /// Whether game servers that a fleet lacks are demand for nodes before they have pods, and idle game servers may move to other
    /// nodes. It has no effect where Plimsoll does not run the controllers of game servers too.
    pub aware: bool,
}

impl Default for Fleets {
    fn default() -> Self {
        Self { aware: true }
    }
}

/// The state of earlier evaluations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeAutoscalerStatus {
    /// The time since which each node has been unneeded.
    pub unneeded_since: BTreeMap<String, Time>,
    /// When nodes were last added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_up_at: Option<Time>,
    /// When a node was last removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_delete_at: Option<Time>,
    /// When a removal last failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_delete_failure_at: Option<Time>,
    /// The same for each group by its name, if `scaleDown.delaysPerGroup` is set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, LastChanges>,
    /// The nodes whose removal is in progress.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removing: Vec<String>,
    /// The last observations of the autoscaler's state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// When nodes of a group were last added or removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct LastChanges {
    /// When nodes were last added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_up_at: Option<Time>,
    /// When a node was last removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_at: Option<Time>,
    /// When a removal last failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_failure_at: Option<Time>,
}

/// NodeAutoscaler, as engines and `evaluate` see it.
pub static KIND: Kind = Kind {
    group: super::GROUP,
    version: super::VERSION,
    kind: "NodeAutoscaler",
    plural: "nodeautoscalers",
    scope: Scope::Cluster,
    crd: Some(NodeAutoscaler::crd),
    prepare: |_, _| {},
    admit,
};

static FIELDS: LazyLock<Vec<String>> = LazyLock::new(|| super::field_names(&NodeAutoscaler::crd()));

fn admit(value: &mut Value, _: &Admission<'_>) -> Result<(), Vec<Problem>> {
    // Every field has a default, so an autoscaler without a spec is complete.
    if value["spec"].is_null() {
        value["spec"] = Value::Object(serde_json::Map::new());
    }
    let autoscaler: NodeAutoscaler = super::read(value, &FIELDS)?;
    check::spec(&autoscaler.spec)?;
    let asks = autoscaler.spec.expanders.iter().any(|name| name == "grpc");
    let problem = || Problem::new("spec.grpcExpander", "required by the expander `grpc`");
    match asks && autoscaler.spec.grpc_expander.is_none() {
        true => Err(vec![problem()]),
        false => Ok(()),
    }
}
