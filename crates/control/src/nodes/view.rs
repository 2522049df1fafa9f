//! The state of the cluster and of its groups in numbers, for the status ConfigMap and the metrics.

use decide::nodes::{Readiness, Refusal, readiness};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::NodeController;
use super::observe::Observation;
use super::plan::Plan;

/// The state of the cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct ClusterView {
    pub(super) is_healthy: bool,
    pub(super) is_growing: bool,
    pub(super) nodes: NodeCounts,
    pub(super) candidates: usize,
    pub(super) groups: Vec<GroupView>,
}

/// The state of one group.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupView {
    pub(super) name: String,
    pub(super) min: u32,
    pub(super) max: u32,
    pub(super) target: u32,
    pub(super) nodes: NodeCounts,
    pub(super) is_healthy: bool,
    pub(super) is_growing: bool,
    /// Why it is backed off.
    pub(super) backoff: Option<String>,
    pub(super) candidates: usize,
}

/// The numbers of nodes by their state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeCounts {
    pub(super) ready: usize,
    pub(super) starting: usize,
    pub(super) unready: usize,
    pub(super) leaving: usize,
    pub(super) unregistered: usize,
}

impl NodeController {
    /// Returns the state of the cluster.
    pub(super) fn cluster_view(
        &self,
        observed: &Observation,
        plan: &Plan,
        now: Timestamp,
    ) -> ClusterView {
        let mut all = ClusterView { is_healthy: plan.is_healthy, ..ClusterView::default() };
        let states = observed.cluster.groups.iter().zip(&plan.groups);
        for (group, state) in states {
            let memory = self.memory.groups.get(&*group.name);
            let backoff = memory.and_then(|memory| memory.backoff.as_ref());
            let backoff = backoff.filter(|backoff| backoff.until >= now);
            let unregistered = memory.map_or(0, |memory| memory.unregistered.len());
            all.groups.push(GroupView {
                name: group.name.to_string(),
                min: group.min,
                max: group.max,
                target: group.status.target.unwrap_or(state.target),
                nodes: NodeCounts { unregistered, ..NodeCounts::default() },
                is_healthy: state.refusal != Some(Refusal::Unhealthy),
                is_growing: memory.is_some_and(|memory| memory.scale_up.is_some()),
                backoff: backoff.map(|backoff| backoff.cause.clone()),
                candidates: 0,
            });
        }
        for node in &observed.cluster.nodes {
            let state = readiness(node, &observed.settings, now);
            let unneeded = &plan.removed.unneeded;
            let unneeded = unneeded.binary_search_by(|(name, _)| name.cmp(&node.name)).is_ok();
            let group = node.group.as_deref();
            let group = all.groups.iter_mut().find(|found| Some(found.name.as_str()) == group);
            all.nodes.add(state);
            if let Some(group) = group {
                group.nodes.add(state);
                group.candidates += usize::from(unneeded);
                all.candidates += usize::from(unneeded);
            }
        }
        all.nodes.unregistered = all.groups.iter().map(|group| group.nodes.unregistered).sum();
        all.is_growing = all.groups.iter().any(|group| group.is_growing);
        all
    }
}

impl NodeCounts {
    fn add(&mut self, state: Readiness) {
        match state {
            Readiness::Leaving => self.leaving += 1,
            Readiness::Ready => self.ready += 1,
            Readiness::Starting => self.starting += 1,
            Readiness::Unready => self.unready += 1,
        }
    }

    /// Returns the numbers in the fields of Cluster Autoscaler's status.
    pub(super) fn json(self) -> Value {
        let Self { ready, starting, unready, leaving, unregistered } = self;
        let mut registered = json!({
            "total": ready + starting + unready + leaving, "ready": ready, "notStarted": starting,
            "unready": {"total": unready, "resourceUnready": 0},
        });
        if leaving > 0 {
            registered["beingDeleted"] = leaving.into();
        }
        json!({"registered": registered, "longUnregistered": 0, "unregistered": unregistered})
    }
}
