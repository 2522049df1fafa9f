//! The settings of the node autoscaler, and the state carried over between evaluations.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

/// The settings, grouped by the step that reads them, with the documented defaults.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A chain: each keeps the best by its score until one group is left; the name breaks ties.
    pub expanders: Vec<Expander>,
    /// The seed of `random`.
    pub seed: u64,
    pub limits: Limits,
    pub scale_up: ScaleUpSettings,
    pub scale_down: ScaleDownSettings,
    pub health: Health,
}

/// How to choose between groups that could all help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expander {
    Random,
    MostPods,
    LeastWaste,
    LeastNodes,
    Price,
    Priority,
    /// Another process chooses: see [`Question`](super::Question).
    Grpc,
}

/// Cluster-wide limits.
#[derive(Clone, Debug)]
pub struct Limits {
    /// 0: no limit.
    pub nodes: u32,
    /// In whole cores; those of a node are rounded up.
    pub cores: Range,
    /// In bytes.
    pub memory: Range,
    /// Other resources, by name, in whole units.
    pub resources: BTreeMap<Box<str>, Range>,
}

/// A minimum and a maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub min: i64,
    pub max: i64,
}

#[derive(Clone, Debug)]
pub struct ScaleUpSettings {
    pub new_pod_delay: SignedDuration,
    pub max_provision_time: SignedDuration,
    /// By one plan.
    pub max_nodes: u32,
    pub balance_similar_groups: bool,
    pub balance_ignore_labels: Vec<Box<str>>,
    /// When given, groups are similar if they are equal in these labels.
    pub balance_labels: Vec<Box<str>>,
    pub balance_tolerances: Tolerances,
    pub expendable_priority_cutoff: i32,
    pub enforce_min_size: bool,
    pub max_node_startup_time: SignedDuration,
    /// Taints by key: a node with one is not ready yet; removed from templates.
    pub startup_taints: Vec<Box<str>>,
    /// The same by the beginning of their key.
    pub startup_taint_prefixes: Vec<Box<str>>,
    /// Taints by key: removed from templates.
    pub status_taints: Vec<Box<str>>,
    pub force_daemon_sets: bool,
    /// The schedulers whose pods wait before they have been looked at.
    pub bypassed_schedulers: Vec<Box<str>>,
    /// The schedulers whose pods count as pending; empty: all.
    pub schedulers: Vec<Box<str>>,
}

/// How much similar groups may differ, as a share of the larger amount.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerances {
    pub memory: f64,
    pub allocatable: f64,
    pub free: f64,
}

#[derive(Clone, Debug)]
pub struct ScaleDownSettings {
    pub enabled: bool,
    pub unready_enabled: bool,
    pub utilization_threshold: f64,
    pub gpu_utilization_threshold: f64,
    pub unneeded_for: SignedDuration,
    pub unready_for: SignedDuration,
    pub delay_after_add: SignedDuration,
    pub delay_after_delete: SignedDuration,
    pub delay_after_failure: SignedDuration,
    /// Whether the three delays hold only the group that they are about.
    pub delays_per_group: bool,
    pub max_parallel: u32,
    pub max_drain_parallel: u32,
    pub ignore_daemon_sets_utilization: bool,
    pub ignore_mirror_pods_utilization: bool,
    pub skip_system_pods: bool,
    pub skip_local_storage: bool,
    pub skip_custom_controller_pods: bool,
    pub min_replica_count: i32,
    pub system_pod_grace: SignedDuration,
    pub max_graceful_termination: SignedDuration,
}

/// How many unready nodes make the cluster unhealthy.
#[derive(Clone, Copy, Debug)]
pub struct Health {
    pub max_unready_percent: f64,
    pub ok_unready: u32,
}

/// State carried over from earlier evaluations.
#[derive(Clone, Debug, Default)]
pub struct Status {
    pub unneeded_since: BTreeMap<Box<str>, Timestamp>,
    pub last_scale_up_at: Option<Timestamp>,
    pub last_delete_at: Option<Timestamp>,
    pub last_delete_failure_at: Option<Timestamp>,
    /// The same for each group, by its name.
    pub groups: BTreeMap<Box<str>, LastChanges>,
    /// The nodes whose removal is in progress, however long it has taken.
    pub removing: BTreeSet<Box<str>>,
    /// Until when nodes rest whose removal failed.
    pub resting: BTreeMap<Box<str>, Timestamp>,
}

impl Status {
    /// Returns the last changes of any group.
    pub(super) fn last_changes(&self) -> LastChanges {
        LastChanges {
            scale_up_at: self.last_scale_up_at,
            delete_at: self.last_delete_at,
            delete_failure_at: self.last_delete_failure_at,
        }
    }
}

/// When nodes were last added or removed, and when a removal last failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastChanges {
    pub scale_up_at: Option<Timestamp>,
    pub delete_at: Option<Timestamp>,
    pub delete_failure_at: Option<Timestamp>,
}

const GIB: i64 = 1 << 30;

impl Default for Settings {
    fn default() -> Self {
        Self {
            expanders: vec![Expander::LeastWaste],
            seed: 0,
            limits: Limits::default(),
            scale_up: ScaleUpSettings::default(),
            scale_down: ScaleDownSettings::default(),
            health: Health::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            nodes: 0,
            cores: Range { min: 0, max: 320_000 },
            memory: Range { min: 0, max: 6_400_000 * GIB },
            resources: BTreeMap::new(),
        }
    }
}

impl Default for ScaleUpSettings {
    fn default() -> Self {
        Self {
            new_pod_delay: SignedDuration::ZERO,
            max_provision_time: SignedDuration::from_mins(15),
            max_nodes: 1000,
            balance_similar_groups: false,
            balance_ignore_labels: Vec::new(),
            balance_labels: Vec::new(),
            balance_tolerances: Tolerances { memory: 0.015, allocatable: 0.05, free: 0.05 },
            expendable_priority_cutoff: -10,
            enforce_min_size: false,
            max_node_startup_time: SignedDuration::from_mins(15),
            startup_taints: Vec::new(),
            startup_taint_prefixes: Vec::new(),
            status_taints: Vec::new(),
            force_daemon_sets: false,
            bypassed_schedulers: Vec::new(),
            schedulers: Vec::new(),
        }
    }
}

impl Default for ScaleDownSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            unready_enabled: true,
            utilization_threshold: 0.5,
            gpu_utilization_threshold: 0.5,
            unneeded_for: SignedDuration::from_mins(10),
            unready_for: SignedDuration::from_mins(20),
            delay_after_add: SignedDuration::from_mins(10),
            delay_after_delete: SignedDuration::ZERO,
            delay_after_failure: SignedDuration::from_mins(3),
            delays_per_group: false,
            max_parallel: 10,
            max_drain_parallel: 1,
            ignore_daemon_sets_utilization: false,
            ignore_mirror_pods_utilization: false,
            skip_system_pods: true,
            skip_local_storage: true,
            skip_custom_controller_pods: true,
            min_replica_count: 0,
            system_pod_grace: SignedDuration::from_hours(1),
            max_graceful_termination: SignedDuration::from_mins(10),
        }
    }
}

impl Default for Health {
    fn default() -> Self {
        Self { max_unready_percent: 45.0, ok_unready: 3 }
    }
}
