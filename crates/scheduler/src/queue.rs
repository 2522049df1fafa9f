//! The scheduling queue: which pending pods are to be decided, now, later, or once something changes.

use std::collections::{BTreeMap, BTreeSet};

use cluster::Key;
use tokio::time::Instant;

/// Pending pods by what they wait for. A pod is in at most one of the three sets.
#[derive(Default)]
pub(crate) struct SchedulingQueue {
    /// To be decided in the next batch.
    active: BTreeSet<Key>,
    /// Fitted on no node; a change in the cluster activates them.
    unschedulable: BTreeSet<Key>,
    /// A write about them failed: to be decided at a time.
    backoff: BTreeSet<(Instant, Key)>,
    backoff_until: BTreeMap<Key, Instant>,
}

impl SchedulingQueue {
    /// Queues a pod, unless it waits for something already.
    pub(crate) fn add(&mut self, key: &Key) {
        if !self.unschedulable.contains(key) && !self.backoff_until.contains_key(key) {
            self.active.insert(key.clone());
        }
    }

    /// Keeps a pod until something changes in the cluster.
    pub(crate) fn add_unschedulable(&mut self, key: &Key) {
        self.remove(key);
        self.unschedulable.insert(key.clone());
    }

    /// Keeps a pod until a time.
    pub(crate) fn add_backoff(&mut self, key: &Key, until: Instant) {
        self.remove(key);
        self.backoff.insert((until, key.clone()));
        self.backoff_until.insert(key.clone(), until);
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        self.active.remove(key);
        self.unschedulable.remove(key);
        if let Some(until) = self.backoff_until.remove(key) {
            self.backoff.remove(&(until, key.clone()));
        }
    }

    /// Queues every pod that fitted on no node.
    pub(crate) fn activate_unschedulable(&mut self) {
        self.active.append(&mut self.unschedulable);
    }

    /// Queues the pods whose backoff is over.
    pub(crate) fn activate_due(&mut self, now: Instant) {
        while let Some((until, key)) = self.backoff.first()
            && *until <= now
        {
            let key = key.clone();
            self.remove(&key);
            self.active.insert(key);
        }
    }

    /// Returns when the next backoff is over.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.backoff.first().map(|(until, _)| *until)
    }

    /// Returns the pods to be decided, in the order of their keys.
    pub(crate) fn active(&self) -> impl Iterator<Item = &Key> {
        self.active.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_pod_waits_for_one_thing_at_a_time() {
        let (a, b) = (Key::new("n", "a"), Key::new("n", "b"));
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let mut queue = SchedulingQueue::default();
        queue.add(&a);
        queue.add_unschedulable(&a);
        queue.add(&a);
        assert_eq!(queue.active().count(), 0, "a change in the cluster activates it");
        queue.add_backoff(&b, later);
        queue.add(&b);
        queue.activate_due(now);
        assert_eq!(queue.active().count(), 0);
        assert_eq!(queue.next_due(), Some(later));
        queue.activate_unschedulable();
        assert_eq!(queue.active().collect::<Vec<_>>(), [&a]);
        queue.activate_due(later);
        assert_eq!(queue.active().collect::<Vec<_>>(), [&a, &b]);
        queue.remove(&a);
        queue.remove(&b);
        assert!(queue.active().next().is_none() && queue.next_due().is_none());
    }
}
