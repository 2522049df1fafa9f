//! Node autoscalers: pods that fit nowhere get nodes, and unneeded nodes are drained and removed.
//!
//! The cluster is evaluated a moment after anything changes that the decision depends on, and at the latest after ten seconds. Groups
//! grow within the evaluation, if their provider answers in time; removals take longer and go on beside it, each in a task of its own.
//! Nothing is changed while a Cluster Autoscaler is active in the cluster.

mod caches;
mod calls;
pub mod describe;
mod evacuation;
mod fleets;
mod forecast;
mod inputs;
mod journal;
mod memory;
pub mod observe;
mod plan;
mod providers;
mod record;
mod removal;
mod repair;
mod rival;
mod scale_down;
mod scale_up;
mod status_map;
mod taints;
mod virtual_pods;
mod watch;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use api::plimsoll::{NodeAutoscaler, NodeGroup};
use cluster::{CacheEntry as _, CachedObject};
use decide::nodes::{ScaleUpUnderWay, Settings};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

use crate::context::Context;
use crate::lister::sentence;
use caches::{FleetObjects, Snapshot};
use calls::Calls;
use inputs::Inputs;
use memory::{GroupMemory, Memory};
use plan::Plan;
use providers::Providers;
use removal::RemovalResult;
use rival::Rival;
use status_map::StatusMap;
use watch::Trigger;

/// The longest time between two evaluations.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The controller, for the length of a leadership term.
struct NodeController {
    cx: Arc<Context>,
    trigger: Arc<Trigger>,
    providers: Providers,
    /// The calls of providers in flight.
    calls: Calls,
    rival: Arc<Rival>,
    memory: Memory,
    /// Whether nothing has been evaluated yet, or nothing since another autoscaler was active.
    is_first: bool,
    /// The nodes whose removal is in progress, and the tasks that remove them.
    removing: BTreeSet<Box<str>>,
    removals: JoinSet<RemovalResult>,
    nodes_of_tasks: HashMap<Id, String>,
    /// Why the last removal failed; `None` after one that succeeded.
    last_failure: Option<String>,
    status_map: StatusMap,
}

/// Scales node groups for as long as it is polled.
pub(crate) async fn run(cx: Arc<Context>) {
    let caches = Arc::clone(&cx.caches);
    caches.node_scaling.needed().await;
    caches.node_scaling.synced().await;
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
        memory: Memory::default(),
        is_first: true,
        removing: BTreeSet::new(),
        removals: JoinSet::new(),
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
        let outcome = Err("the removal panicked".to_owned());
        let panicked = |_| RemovalResult { node, outcome, is_tainted: true };
        self.removal_ended(ended.map_or_else(panicked, |(_, result)| result));
    }

    /// Evaluates the cluster and carries out the plan; returns when to evaluate again though nothing changes.
    async fn evaluate(&mut self) -> Instant {
        while let Some(ended) = self.removals.try_join_next_with_id() {
            self.task_ended(ended);
        }
        let latest = Instant::now() + LONGEST_PAUSE;
        self.release_abandoned().await;
        let Some(autoscaler) = self.autoscaler() else { return latest };
        let autoscaler = &autoscaler.0;
        if let Some(holder) = self.rival.holder(&self.cx).await {
            self.hold(autoscaler, &holder).await;
            return Instant::now() + rival::RECHECK;
        }
        self.memory.rival = None;
        let objects = self.cx.caches.node_scaling.groups.all();
        let objects: Vec<&NodeGroup> = objects.iter().map(|group| &group.0).collect();
        if self.is_first {
            self.resume(autoscaler, &objects);
        }
        self.untaint_abandoned().await;
        let mut groups = self.providers.read(&objects, &self.cx, &self.trigger).await;
        let fleets = FleetObjects::new(&self.cx);
        let snapshot = Snapshot::new(&self.cx.caches.node_scaling, fleets);
        let (sidecar, now) = (&self.cx.settings.sidecar, self.cx.clock.now());
        let mut observed = match observe::observe(autoscaler, &snapshot, sidecar, now) {
            Ok(observed) => observed,
            Err(error) => {
                self.invalid(autoscaler, &sentence(&error.problems)).await;
                return latest;
            }
        };
        self.memory.invalid = None;
        if self.repair(&observed, &groups).await {
            groups = self.providers.read(&objects, &self.cx, &self.trigger).await;
        }
        self.is_first = false;
        self.overlay(&mut observed, &groups);
        observed.status = self.memory.status.clone().unwrap_or_default();
        observed.status.removing.clone_from(&self.removing);
        let now = self.cx.clock.now();
        let plan = Plan::new(autoscaler, &observed, now);
        let inputs = Inputs {
            game_servers: inputs::game_servers(&observed.cluster),
            virtual_pods: std::mem::take(&mut observed.virtual_pods),
            snapshot,
            groups: observed.cluster.groups.clone(),
            status: observed.status.clone(),
            now,
        };
        let growth = self.grow(plan.added.clone(), &mut observed, &groups).await;
        let removed = if growth.has_grown() {
            0
        } else {
            self.remove(&plan.removed, autoscaler, &observed.settings, &groups)
        };
        self.remember(&plan, growth.has_grown());
        self.mark_unneeded(&plan.removed).await;
        self.record_pod_events(&growth, &observed);
        self.journal(autoscaler, &plan, &growth, removed, inputs);
        self.write_status(autoscaler, &observed, &plan).await;
        self.write_status_map(&observed, &plan).await;
        self.wake_at(&plan, &observed.settings, latest)
    }

    /// Returns the autoscaler: the one named `default`, or the first by name.
    fn autoscaler(&self) -> Option<Arc<CachedObject<NodeAutoscaler>>> {
        let name = |autoscaler: &Arc<CachedObject<NodeAutoscaler>>| autoscaler.meta().name.clone();
        let all = self.cx.caches.node_scaling.autoscalers.all().into_iter();
        all.min_by_key(|one| (name(one).as_deref() != Some("default"), name(one)))
    }

    /// Restores the state that an earlier controller wrote to the status of the objects.
    fn resume(&mut self, autoscaler: &NodeAutoscaler, groups: &[&NodeGroup]) {
        let now = self.cx.clock.now();
        self.memory.status = Some(api::nodes::status(autoscaler.status.as_ref()));
        for group in groups {
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
            memory.backoff = until.map(|until| GroupMemory::resume_backoff(until, cause, now));
        }
    }

    fn remember(&mut self, plan: &Plan, has_grown: bool) {
        let now = self.cx.clock.now();
        let status = self.memory.status.get_or_insert_default();
        status.unneeded_since = plan.removed.unneeded.iter().cloned().collect();
        status.resting.retain(|_, until| *until > now);
        if has_grown {
            status.last_scale_up_at = Some(now);
            // The cluster has changed; removals are planned in view of the new nodes.
            self.trigger.fire();
        }
    }

    fn wake_at(&self, plan: &Plan, settings: &Settings, latest: Instant) -> Instant {
        let deadline = self.next_deadline(settings);
        let next = plan.removed.wake_at.into_iter().chain(deadline).min();
        // A wait is over strictly after its end.
        let next = next.map(|at| self.cx.clock.timer(at) + Duration::from_millis(1));
        next.map_or(latest, |next| next.min(latest))
    }
}
