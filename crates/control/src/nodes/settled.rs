//! Evaluations that are skipped: nothing has changed since the last one, which left nothing to do.

use std::time::Duration;

use decide::nodes::{Settings, is_pending};
use tokio::time::Instant;

use super::NodeController;
use super::memory::GroupMemory;
use super::observe::Observation;
use super::plan::Plan;
use super::providers::ProviderGroups;

/// The longest time without an evaluation. Some rules depend on the age of objects, which nothing reports.
pub(super) const LONGEST: Duration = Duration::from_secs(60);

/// The state after an evaluation that left nothing to do.
pub(super) struct Settled {
    groups: ProviderGroups,
    until: Instant,
}

impl Settled {
    /// Returns until when evaluations can be skipped, if the providers report the same as before.
    pub(super) fn until(&self, groups: &ProviderGroups) -> Option<Instant> {
        let is_same = self.groups.len() == groups.len()
            && self.groups.iter().zip(groups).all(|((name, before), (other, now))| {
                let states = (before.as_ref().map(|g| &g.state), now.as_ref().map(|g| &g.state));
                name == other && states.0 == states.1
            });
        (is_same && Instant::now() < self.until).then_some(self.until)
    }
}

impl NodeController {
    /// Records whether an evaluation has left nothing to do, and returns when to evaluate again though nothing changes.
    pub(super) fn settle(
        &mut self,
        plan: &Plan,
        observed: &Observation,
        groups: ProviderGroups,
        latest: Instant,
    ) -> Instant {
        let deadline = self.deadline(plan, &observed.settings);
        let until = Instant::now() + LONGEST;
        let until = deadline.map_or(until, |deadline| deadline.min(until));
        let is_settled =
            self.has_nothing_to_do(plan, observed) && groups.values().all(Result::is_ok);
        self.settled = is_settled.then_some(Settled { groups, until });
        deadline.map_or(latest, |deadline| deadline.min(latest))
    }

    /// Returns when the plan, or what is known of a group, changes for no other reason than the time.
    fn deadline(&self, plan: &Plan, settings: &Settings) -> Option<Instant> {
        let next = plan.removed.wake_at.into_iter().chain(self.next_deadline(settings)).min();
        // A wait is over strictly after its end.
        next.map(|at| self.cx.clock.timer(at) + Duration::from_millis(1))
    }

    fn has_nothing_to_do(&self, plan: &Plan, observed: &Observation) -> bool {
        let is_busy = |group: &GroupMemory| {
            group.scale_up.is_some()
                || group.short_since.is_some()
                || !group.unregistered.is_empty()
        };
        plan.is_healthy
            && plan.added.resizes.is_empty()
            && plan.removed.delete.is_empty()
            && self.removing.is_empty()
            && self.calls.is_idle()
            && self.memory.tainted.is_empty()
            && !self.memory.groups.values().any(is_busy)
            && !observed.cluster.pods.iter().any(|pod| is_pending(pod, &observed.settings))
    }
}
