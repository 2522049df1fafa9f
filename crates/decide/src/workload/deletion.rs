//! The order in which excess pods are deleted.
//!
//! Those that do the least: without a node, not running, not ready; then the cheapest to delete, those that share their node with
//! many of their kind, and the youngest. Ages are compared by their order of magnitude, so that not always the same pods survive.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;

use super::PodView;

/// Returns the names of the `count` pods to delete. `related` are the active pods of all sets with the same owner, `pods` among
/// them: they show which nodes have more than one.
pub fn pods_to_delete<'a>(
    pods: &[&'a PodView],
    related: &[&PodView],
    count: usize,
    now: Timestamp,
) -> Vec<&'a PodView> {
    let mut on_node: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for pod in related.iter().filter(|pod| pod.is_active()) {
        *on_node.entry(pod.node.as_deref()).or_default() += 1;
    }
    let rank = |pod: &PodView| on_node.get(&pod.node.as_deref()).copied().unwrap_or_default();
    let (ready, created) = (
        Ages::new(pods, now, |pod| pod.ready_at),
        Ages::new(pods, now, |pod| Some(pod.created_at)),
    );
    let mut order = pods.to_vec();
    if count < order.len() {
        order.sort_by_cached_key(|&pod| {
            (
                (pod.is_bound, pod.phase, pod.ready_at.is_some(), pod.deletion_cost),
                (Reverse(rank(pod)), ready.order(pod.ready_at), Reverse(pod.most_restarts)),
                (created.order(Some(pod.created_at)), &*pod.uid),
            )
        });
    }
    order.truncate(count);
    order
}

/// The ages of pods, by their order of magnitude.
///
/// Kubernetes orders pods of the same magnitude by uid, but those of the same time by the criteria that follow. Pods of both kinds
/// together have no order then. Here, pods of the same time stay together, in the place of the one with the first uid.
struct Ages<'a> {
    now: Timestamp,
    first_uids: BTreeMap<Timestamp, &'a str>,
}

impl<'a> Ages<'a> {
    fn new(
        pods: &[&'a PodView],
        now: Timestamp,
        time: impl Fn(&PodView) -> Option<Timestamp>,
    ) -> Self {
        let mut first_uids = BTreeMap::new();
        for &pod in pods {
            let Some(time) = time(pod) else { continue };
            let first: &mut &str = first_uids.entry(time).or_insert(&*pod.uid);
            *first = (*first).min(&*pod.uid);
        }
        Self { now, first_uids }
    }

    /// Returns the sort key of a time; the younger come first.
    fn order(&self, time: Option<Timestamp>) -> Option<(Option<u32>, Option<&'a str>)> {
        time.map(|time| (magnitude(time, self.now), self.first_uids.get(&time).copied()))
    }
}

fn magnitude(since: Timestamp, now: Timestamp) -> Option<u32> {
    u64::try_from(now.duration_since(since).as_nanos()).ok().and_then(u64::checked_ilog2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::PodPhase;
    use crate::workload::testing::{at, pod};

    fn first(a: PodView, b: PodView) -> String {
        let pods = [&b, &a];
        pods_to_delete(&pods, &pods, 1, at(1000))[0].name.to_string()
    }

    #[test]
    fn each_criterion_decides_when_those_before_it_are_equal() {
        type Change = fn(&mut PodView);
        let cases: [(&str, Change, Change); 8] = [
            (
                "without a node",
                |a| (a.is_bound, a.node) = (false, None),
                |b| b.phase = PodPhase::Pending,
            ),
            ("pending", |a| a.phase = PodPhase::Pending, |b| b.ready_at = None),
            ("not ready", |a| a.ready_at = None, |b| b.deletion_cost = -5),
            ("cheaper", |a| a.deletion_cost = -1, |b| b.ready_at = Some(at(999))),
            ("costly ones stay", |_| {}, |b| b.deletion_cost = 10),
            ("ready for a shorter time", |a| a.ready_at = Some(at(900)), |b| b.most_restarts = 9),
            ("more restarts", |a| a.most_restarts = 1, |b| b.created_at = at(999)),
            ("created later", |a| a.created_at = at(900), |_| {}),
        ];
        for (what, first_to_go, other) in cases {
            let (mut a, mut b) = (pod("a"), pod("b"));
            first_to_go(&mut a);
            other(&mut b);
            assert_eq!(first(a, b), "a", "{what}");
        }
    }

    #[test]
    fn a_node_with_several_pods_of_the_owner_loses_one_first() {
        let (mut a, b, other) = (pod("a"), pod("b"), pod("c"));
        a.node = Some("m".into());
        let pods = [&a, &b];
        let gone = pods_to_delete(&pods, &[&a, &b, &other], 1, at(1000));
        assert_eq!(&*gone[0].name, "b");
    }

    #[test]
    fn ages_of_the_same_magnitude_are_ordered_by_uid() {
        let (mut a, mut b) = (pod("a"), pod("b"));
        (a.ready_at, b.ready_at) = (Some(at(100)), Some(at(101)));
        assert_eq!(first(a, b), "a");
    }

    #[test]
    fn the_choice_does_not_depend_on_the_order_of_the_pods() {
        let (mut a, mut b, mut c) = (pod("a"), pod("b"), pod("c"));
        (a.ready_at, b.ready_at, c.ready_at) = (Some(at(100)), Some(at(101)), Some(at(100)));
        c.created_at = at(900);
        let mut pods = [&a, &b, &c];
        for _ in 0..3 {
            pods.rotate_left(1);
            let gone = pods_to_delete(&pods, &pods, 2, at(1000));
            assert_eq!(gone.iter().map(|pod| &*pod.name).collect::<Vec<_>>(), ["c", "a"]);
        }
    }

    #[test]
    fn all_go_in_any_order() {
        let pods = [&pod("a"), &pod("b")];
        assert_eq!(pods_to_delete(&pods, &pods, 5, at(1000)).len(), 2);
    }
}
