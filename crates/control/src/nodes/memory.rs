//! The state of the controller between two evaluations. What must survive a restart is also in the status of the objects.

use std::collections::{BTreeMap, BTreeSet};

use api::plimsoll::node_autoscaler;
use decide::nodes::{ScaleUpUnderWay, Status};
use jiff::{SignedDuration, Timestamp};

/// How long a node rests whose removal failed.
const REST: SignedDuration = SignedDuration::from_mins(5);
/// The longest message of a provider that is kept.
const LONGEST_CAUSE: usize = 500;

/// What is remembered.
#[derive(Default)]
pub(super) struct Memory {
    /// The state from earlier evaluations; `None` before the first one.
    pub(super) status: Option<Status>,
    pub(super) groups: BTreeMap<String, GroupMemory>,
    /// How long groups pause after a failure.
    pub(super) pauses: node_autoscaler::Backoff,
    /// The last event about each pod that waits, by its name.
    pub(super) pod_events: BTreeMap<String, String>,
    /// What is wrong with the autoscaler, as it was logged.
    pub(super) invalid: Option<String>,
    /// The other holder of Cluster Autoscaler's Lease, as it was logged.
    pub(super) rival: Option<String>,
    /// Whether the last evaluation found the cluster unhealthy, and whether pods waited though it had all nodes that it may have.
    pub(super) was_unhealthy: bool,
    pub(super) was_full: bool,
    /// What is wrong with the ConfigMap of priorities, as it was reported: the reason and the text.
    pub(super) priorities: Option<(&'static str, String)>,
    /// The nodes whose taints a removal left behind.
    pub(super) tainted: BTreeSet<Box<str>>,
}

/// The state of a group between evaluations.
#[derive(Clone, Default)]
pub(super) struct GroupMemory {
    pub(super) scale_up: Option<ScaleUpUnderWay>,
    pub(super) backoff: Option<Backoff>,
    /// How long nodes usually take until they are ready.
    pub(super) provision_time: Option<SignedDuration>,
    /// Since when each instance has had no Node.
    pub(super) unregistered: BTreeMap<String, Timestamp>,
    /// The instances that were found to have failed.
    pub(super) failed: BTreeSet<String>,
    /// Since when the target has been above the number of nodes, without a scale-up.
    pub(super) short_since: Option<Timestamp>,
    /// Why the provider does not answer.
    pub(super) problem: Option<String>,
    /// Whether this controller has taken over what an earlier one left behind.
    pub(super) is_adopted: bool,
}

/// A pause after a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Backoff {
    pub(super) until: Timestamp,
    pub(super) cause: String,
    length: SignedDuration,
    failed_at: Timestamp,
}

impl Backoff {
    /// Returns the pause that a restarted controller finds in the status of a group. It counts as one of the first length.
    pub(super) fn resumed(
        until: Timestamp,
        cause: &str,
        length: SignedDuration,
        now: Timestamp,
    ) -> Self {
        Self { until, cause: cause.to_owned(), length, failed_at: now }
    }
}

impl GroupMemory {
    /// Records a failure: the pause doubles with each failure after its end, and a failure during a pause renews it.
    fn back_off(&mut self, pauses: &node_autoscaler::Backoff, cause: &str, now: Timestamp) {
        let node_autoscaler::Backoff { initial, max, reset_after } = pauses;
        let length = match &self.backoff {
            Some(last) if now.duration_since(last.failed_at) > reset_after.0 => initial.0,
            Some(last) if now <= last.until => last.length,
            Some(last) => last.length.saturating_mul(2).min(max.0),
            None => initial.0,
        };
        let cause = cause.chars().take(LONGEST_CAUSE).collect();
        let until = now.saturating_add(length).unwrap_or(Timestamp::MAX);
        self.backoff = Some(Backoff { until, cause, length, failed_at: now });
    }

    /// Records how long the nodes of a scale-up took, in whole seconds. The latest counts as much as all before it.
    pub(super) fn note_provision_time(&mut self, took: SignedDuration) {
        let usual = self.provision_time.unwrap_or(took);
        self.provision_time = Some(SignedDuration::from_secs((usual + took).as_secs() / 2));
    }

    /// Records that nodes of the scale-up in progress will not appear.
    pub(super) fn forget_increase(&mut self, nodes: u32) {
        self.scale_up = self.scale_up.and_then(|under_way| {
            let increase = under_way.increase.saturating_sub(nodes);
            (increase > 0).then_some(ScaleUpUnderWay { increase, ..under_way })
        });
    }

    /// Records which instances have no Node, and returns those that have had none for `limit`.
    pub(super) fn long_unregistered(
        &mut self,
        now_unregistered: &BTreeSet<String>,
        limit: SignedDuration,
        now: Timestamp,
    ) -> Vec<String> {
        self.unregistered.retain(|id, _| now_unregistered.contains(id));
        for id in now_unregistered {
            self.unregistered.entry(id.clone()).or_insert(now);
        }
        let is_late = |since: &Timestamp| now.duration_since(*since) > limit;
        self.unregistered.iter().filter(|(_, at)| is_late(at)).map(|(id, _)| id.clone()).collect()
    }
}

impl Memory {
    /// Returns the state of a group between evaluations.
    pub(super) fn group(&mut self, name: &str) -> &mut GroupMemory {
        self.groups.entry(name.to_owned()).or_default()
    }

    /// Records a failure of a group.
    pub(super) fn back_off(&mut self, group: &str, cause: &str, now: Timestamp) {
        let pauses = self.pauses.clone();
        self.group(group).back_off(&pauses, cause, now);
    }

    /// Records that groups grow.
    pub(super) fn scaled_up<'g>(&mut self, groups: impl Iterator<Item = &'g str>, now: Timestamp) {
        let status = self.status.get_or_insert_default();
        status.last_scale_up_at = Some(now);
        for group in groups {
            status.groups.entry(group.into()).or_default().scale_up_at = Some(now);
        }
    }

    /// Records that a node was removed.
    pub(super) fn removed(&mut self, node: &str, group: &str, now: Timestamp) {
        let status = self.status.get_or_insert_default();
        status.last_delete_at = Some(now);
        status.groups.entry(group.into()).or_default().delete_at = Some(now);
        status.unneeded_since.remove(node);
    }

    /// Records a failed removal: the node is not a candidate for a while.
    pub(super) fn removal_failed(&mut self, node: &str, group: &str, now: Timestamp) {
        let status = self.status.get_or_insert_default();
        status.last_delete_failure_at = Some(now);
        status.groups.entry(group.into()).or_default().delete_failure_at = Some(now);
        status.unneeded_since.remove(node);
        let until = now.saturating_add(REST).unwrap_or(Timestamp::MAX);
        status.resting.insert(node.into(), until);
    }

    /// Returns whether an event about a pod is new.
    pub(super) fn is_new_event(&mut self, pod: &str, message: &str) -> bool {
        let before = self.pod_events.insert(pod.to_owned(), message.to_owned());
        before.as_deref() != Some(message)
    }
}

#[cfg(test)]
mod tests {
    use api::plimsoll::Span;

    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute)
    }

    #[test]
    fn a_pause_doubles_with_each_failure_after_its_end_and_is_forgotten_after_three_hours() {
        let mut memory = Memory::default();
        for (failed_at, until) in
            [(0, 5), (3, 8), (10, 20), (21, 41), (42, 72), (80, 110), (261, 266)]
        {
            memory.back_off("g", "no machines left", at(failed_at));
            let backoff = memory.groups["g"].backoff.as_ref();
            assert_eq!(backoff.unwrap().until, at(until), "failed at {failed_at}");
        }
    }

    #[test]
    fn the_lengths_of_pauses_can_be_set() {
        let span = Span::minutes;
        let pauses =
            node_autoscaler::Backoff { initial: span(1), max: span(3), reset_after: span(20) };
        let mut memory = Memory { pauses, ..Memory::default() };
        for (failed_at, until) in [(0, 1), (2, 4), (5, 8), (9, 12), (30, 31)] {
            memory.back_off("g", "no machines left", at(failed_at));
            let backoff = memory.groups["g"].backoff.as_ref();
            assert_eq!(backoff.unwrap().until, at(until), "failed at {failed_at}");
        }
    }

    #[test]
    fn the_usual_provisioning_time_follows_what_is_measured() {
        let mut group = GroupMemory::default();
        for (took, usual) in [(60, 60), (60, 60), (120, 90), (30, 60)] {
            group.note_provision_time(SignedDuration::from_secs(took));
            assert_eq!(group.provision_time, Some(SignedDuration::from_secs(usual)));
        }
    }

    #[test]
    fn an_instance_is_late_once_it_has_had_no_node_for_long_enough() {
        let mut group = GroupMemory::default();
        let ids =
            |all: &[&str]| -> BTreeSet<String> { all.iter().map(|id| (*id).into()).collect() };
        let limit = SignedDuration::from_mins(15);
        for (present, minute, late) in [
            (vec!["a"], 0, vec![]),
            (vec!["a", "b"], 15, vec![]),
            (vec!["a", "b"], 16, vec!["a"]),
            (vec!["b"], 17, vec![]),
            (vec!["a", "b"], 31, vec!["b"]),
        ] {
            let found = group.long_unregistered(&ids(&present), limit, at(minute));
            assert_eq!(found, late, "minute {minute}");
        }
    }
}
