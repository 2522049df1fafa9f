//! Node autoscalers: pods that fit nowhere get nodes, and unneeded nodes are drained and removed.
//!
//! The cluster is evaluated a moment after anything changes that the decision depends on, and at the latest after ten seconds. Groups
//! grow within the evaluation, if their provider answers in time; removals take longer and go on beside it, each in a task of its own.
//! Nothing is changed while a Cluster Autoscaler is active in the cluster.
//!
//! The settings are objects, or values that a command makes of its flags: see [`NodeValues`].

mod answers;
mod batch;
mod buffers;
mod caches;
mod calls;
pub mod describe;
mod discovery;
mod evacuation;
mod eviction;
mod fleets;
mod forecast;
mod inputs;
mod journal;
mod known_pods;
mod measure;
mod membership;
mod memory;
pub mod observe;
mod options;
mod plan;
mod priorities;
mod providers;
mod record;
mod removal;
mod repair;
mod rival;
mod scale_down;
mod scale_up;
mod settled;
mod source;
mod status_map;
mod taints;
mod view;
mod virtual_pods;
mod wanted;
mod watch;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use api::plimsoll::NodeAutoscaler;
use cluster::Key;
use decide::nodes::ScaleUpUnderWay;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

use crate::context::Context;
use crate::lister::sentence;
use answers::OpenedExpander;
use batch::Batches;
use caches::{Additions, Snapshot};
use calls::Calls;
use inputs::Inputs;
use known_pods::KnownPods;
use memory::{Backoff, Memory};
use plan::Plan;
use providers::Providers;
use removal::RemovalResult;
use rival::Rival;
use scale_up::ScaleUpResult;
use settled::Settled;
use status_map::StatusMap;
use watch::Trigger;

pub use crate::node_metrics::{
    Activity, Durations, LivenessLimits, NodeLabels, NodeMetrics, NodeNumbers, NodeSeries,
};
pub use crate::node_settings::{GroupValue, NodeSettings, NodeSource, NodeValues};

/// The controller, for the length of a leadership term.
struct NodeController {
    cx: Arc<Context>,
    trigger: Arc<Trigger>,
    providers: Providers,
    /// The calls of providers in flight.
    calls: Calls,
    rival: Arc<Rival>,
    /// The groups of the last evaluation, and which nodes are in them.
    additions: Arc<Additions>,
    /// The process that the expander `grpc` asks.
    expander: Option<OpenedExpander>,
    memory: Memory,
    known_pods: KnownPods,
    /// The state after the last evaluation, if that has left nothing to do.
    settled: Option<Settled>,
    /// Whether nothing has been evaluated yet, or nothing since another autoscaler was active.
    is_first: bool,
    /// The nodes whose removal is in progress, and the tasks that remove them.
    removing: BTreeSet<Box<str>>,
    removals: JoinSet<RemovalResult>,
    batches: Arc<Batches>,
    nodes_of_tasks: HashMap<Id, String>,
    /// Why the last removal failed; `None` after one that succeeded.
    last_failure: Option<String>,
    status_map: StatusMap,
}

/// Scales node groups for as long as it is polled.
pub(crate) async fn run(cx: Arc<Context>) {
    let caches = Arc::clone(&cx.caches);
    match &cx.settings.nodes.source {
        NodeSource::Objects => {
            caches.node_scaling.needed().await;
            caches.node_scaling.synced().await;
        }
        NodeSource::Values(_) => caches.node_scaling.inputs_synced().await,
    }
    let trigger = Arc::<Trigger>::default();
    let _subscriptions = (
        caches::subscribe(&caches.node_scaling, &trigger),
        caches::subscribe_to_fleets(&cx, &trigger),
    );
    let controller = NodeController {
        cx,
        trigger,
        providers: Providers::default(),
        calls: Calls::default(),
        rival: Arc::default(),
        additions: Arc::default(),
        expander: None,
        memory: Memory::default(),
        known_pods: KnownPods::default(),
        settled: None,
        is_first: true,
        removing: BTreeSet::new(),
        removals: JoinSet::new(),
        batches: Arc::default(),
        nodes_of_tasks: HashMap::new(),
        last_failure: None,
        status_map: StatusMap::default(),
    };
    controller.run().await;
}

impl NodeController {
    async fn run(mut self) {
        loop {
            let until = self.evaluate().await;
            let trigger = Arc::clone(&self.trigger);
            tokio::select! {
                () = trigger.wait(until) => {}
                Some(ended) = self.removals.join_next_with_id() => self.task_ended(ended),
                Some(ended) = self.calls.next() => self.call_ended(ended),
            }
        }
    }

    fn task_ended(&mut self, ended: Result<(Id, RemovalResult), JoinError>) {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let node = self.nodes_of_tasks.remove(&id).unwrap_or_default();
        let outcome = Err("the removal panicked".to_owned().into());
        let group = self.group_of(&node);
        let (is_drain, is_tainted) = (false, true);
        let panicked = |_| RemovalResult { node, group, is_drain, outcome, is_tainted };
        self.removal_ended(ended.map_or_else(panicked, |(_, result)| result));
    }

    /// Returns the name of the group of a node; of a node that is gone, it is empty.
    fn group_of(&self, node: &str) -> String {
        let node = self.cx.caches.node_scaling.nodes.get(&Key::new("", node));
        let group = node.as_ref().and_then(|node| self.additions.group_of(&node.0));
        group.unwrap_or_default().to_owned()
    }

    /// Evaluates the cluster and carries out the plan; returns when to evaluate again though nothing changes.
    async fn evaluate(&mut self) -> Instant {
        while let Some(ended) = self.removals.try_join_next_with_id() {
            self.task_ended(ended);
        }
        let (began_at, pause) = (Instant::now(), self.cx.settings.nodes.longest_pause);
        let metrics = self.cx.settings.node_metrics.clone();
        metrics.began(self.cx.clock.now());
        self.release_abandoned().await;
        let Some(autoscaler) = self.autoscaler() else {
            metrics.succeeded(self.cx.clock.now());
            return began_at + pause;
        };
        let autoscaler = &autoscaler.0;
        if let Some(holder) = self.rival.holder(&self.cx).await {
            metrics.succeeded(self.cx.clock.now());
            self.hold(autoscaler, &holder).await;
            return Instant::now() + rival::RECHECK;
        }
        self.memory.rival = None;
        let next = self.evaluate_cluster(autoscaler, began_at + pause).await;
        metrics.took("main", began_at.elapsed());
        next
    }

    /// Evaluates the cluster for an autoscaler; returns when to do it again, at the latest.
    async fn evaluate_cluster(&mut self, autoscaler: &NodeAutoscaler, latest: Instant) -> Instant {
        let metrics = self.cx.settings.node_metrics.clone();
        let (began_at, has_changed) = (Instant::now(), self.trigger.take());
        let mut states = self.read_providers(autoscaler).await;
        metrics.took("cloudProviderRefresh", began_at.elapsed());
        self.discover(&states).await;
        let settled = self.settled.as_ref().filter(|_| !has_changed && !self.is_first);
        if let Some(until) = settled.and_then(|settled| settled.until(&states.groups)) {
            metrics.count("plimsoll_nodes_evaluations_skipped", Vec::new(), 1);
            metrics.succeeded(self.cx.clock.now());
            return until.min(latest);
        }
        self.settled = None;
        self.memory.pauses.clone_from(&autoscaler.spec.scale_up.backoff);
        self.trigger.bypass(&autoscaler.spec.scale_up.bypassed_schedulers);
        metrics.count("plimsoll_nodes_evaluations", Vec::new(), 1);
        if self.is_first {
            self.resume(autoscaler);
        }
        self.adopt(&states.groups);
        self.untaint_abandoned(autoscaler).await;
        let buffers = self.read_buffers();
        let snapshot = Snapshot::new(&self.cx, &self.additions);
        let mut observed = match snapshot.observe(autoscaler, &self.cx, &mut self.known_pods) {
            Ok(observed) => observed,
            Err(error) => {
                self.invalid(autoscaler, &sentence(&error.problems)).await;
                return latest;
            }
        };
        self.memory.invalid = None;
        if self.repair(&observed, &states.groups).await {
            states = self.read_providers(autoscaler).await;
        }
        let groups = states.groups;
        self.is_first = false;
        self.overlay(&mut observed, &groups);
        self.prioritise(&mut observed).await;
        observed.status = self.memory.status.clone().unwrap_or_default();
        observed.status.removing.clone_from(&self.removing);
        if !autoscaler.spec.scale_down.delays_per_group {
            observed.status.groups.clear();
        }
        self.answer(autoscaler, &mut observed).await;
        let now = self.cx.clock.now();
        let plan = Plan::new(autoscaler, &observed, now, &metrics);
        let inputs = Inputs::new(snapshot, &mut observed, now);
        let growth = self.grow(autoscaler, plan.added.clone(), &mut observed, &groups).await;
        let removed = if growth.has_grown() {
            0
        } else {
            self.remove(&plan.removed, autoscaler, &observed, &groups)
        };
        self.remember(&plan, &growth);
        self.mark_unneeded(&plan.removed, autoscaler).await;
        self.record_pod_events(&growth, &observed);
        self.record_cluster_events(&observed, &plan);
        self.journal(autoscaler, &plan, &growth, removed, inputs);
        self.write_status(autoscaler, &observed, &plan).await;
        self.write_buffers(&buffers, &observed, &plan).await;
        let view = self.cluster_view(&observed, &plan, now);
        self.measure(&observed, &plan, &view);
        self.write_status_map(&view).await;
        // As long as one provider answers, the others are a matter of their groups.
        if groups.is_empty() || groups.values().any(Result::is_ok) {
            metrics.succeeded(self.cx.clock.now());
        }
        self.settle(&plan, &observed, groups, latest)
    }

    /// Restores the state that an earlier controller wrote to the status of the objects.
    fn resume(&mut self, autoscaler: &NodeAutoscaler) {
        let now = self.cx.clock.now();
        let first = autoscaler.spec.scale_up.backoff.initial.0;
        self.memory.status = Some(api::nodes::status(autoscaler.status.as_ref()));
        for group in &self.additions.groups {
            let Some(status) = &group.status else { continue };
            let memory = self.memory.group(group.metadata.name.as_deref().unwrap_or_default());
            memory.scale_up = status.scale_up.as_ref().map(|under_way| ScaleUpUnderWay {
                at: under_way.at.0,
                increase: u32::try_from(under_way.increase).unwrap_or(0),
            });
            let cause = status.conditions.iter().find(|condition| condition.type_ == "BackedOff");
            let cause = cause.map_or("", |condition| condition.message.as_str());
            let until = status.backoff_until.as_ref().map(|until| until.0);
            memory.provision_time = status.provision_time.map(|time| time.0);
            memory.backoff = until.map(|until| Backoff::resumed(until, cause, first, now));
        }
    }

    fn remember(&mut self, plan: &Plan, growth: &ScaleUpResult) {
        let now = self.cx.clock.now();
        let status = self.memory.status.get_or_insert_default();
        status.unneeded_since = plan.removed.unneeded.iter().cloned().collect();
        status.resting.retain(|_, until| *until > now);
        if growth.has_grown() {
            self.memory.scaled_up(growth.growing(), now);
            // The cluster has changed; removals are planned in view of the new nodes.
            self.trigger.fire();
        }
    }
}
