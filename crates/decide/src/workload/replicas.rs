//! The number of pods that a ReplicaSet has, and the number that is missing.

use jiff::Timestamp;

use super::PodView;

/// The most pods that one reconciliation creates or deletes.
const BURST: usize = 500;

/// What the status of a ReplicaSet counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaCounts {
    /// The active pods.
    pub replicas: i32,
    /// Those that are ready.
    pub ready: i32,
    /// Those that have been ready for long enough.
    pub available: i32,
    /// Those that are being deleted and have not ended.
    pub terminating: i32,
    /// When the next of the ready ones becomes available.
    pub next_available_at: Option<Timestamp>,
}

/// Counts the pods of a ReplicaSet.
pub fn count_replicas<'a>(
    pods: impl IntoIterator<Item = &'a PodView>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> ReplicaCounts {
    let mut counts = ReplicaCounts::default();
    for pod in pods {
        if pod.is_terminating && !pod.is_finished() {
            counts.terminating += 1;
        }
        if !pod.is_active() {
            continue;
        }
        counts.replicas += 1;
        counts.ready += i32::from(pod.ready_at.is_some());
        if pod.is_available(min_ready_seconds, now) {
            counts.available += 1;
        } else if let Some(at) = pod.available_at(min_ready_seconds) {
            counts.next_available_at =
                Some(counts.next_available_at.map_or(at, |next| next.min(at)));
        }
    }
    counts
}

/// Returns how many pods to create (positive) or to delete (negative) now.
pub fn missing_replicas(desired: i32, active: usize) -> isize {
    let desired = usize::try_from(desired).unwrap_or_default();
    let burst = |count: usize| isize::try_from(count.min(BURST)).unwrap_or_default();
    if desired >= active { burst(desired - active) } else { -burst(active - desired) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::PodPhase;
    use crate::workload::testing::{at, pod};

    #[test]
    fn ended_and_terminating_pods_are_no_replicas() {
        let mut pods = [pod("a"), pod("b"), pod("c"), pod("d"), pod("e")];
        pods[1].ready_at = None;
        pods[2].phase = PodPhase::Failed;
        pods[3].is_terminating = true;
        pods[4].ready_at = Some(at(195));
        let counts = count_replicas(&pods, 10, at(200));
        let next_available_at = Some(at(205));
        let expected = ReplicaCounts {
            replicas: 3,
            ready: 2,
            available: 1,
            terminating: 1,
            next_available_at,
        };
        assert_eq!(counts, expected);
    }

    #[test]
    fn a_reconciliation_moves_a_bounded_number_of_pods() {
        for (desired, active, missing) in
            [(3, 1, 2), (1, 3, -2), (2, 2, 0), (1000, 0, 500), (0, 1000, -500)]
        {
            assert_eq!(missing_replicas(desired, active), missing);
        }
    }
}
