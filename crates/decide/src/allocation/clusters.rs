//! Selects the cluster that a multi-cluster request is sent to next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::random::SeededRandom;

/// The fields of a GameServerAllocationPolicy that the selection reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterPolicy {
    /// `connectionInfo.clusterName`; policies without one all belong to the same cluster.
    pub cluster: Arc<str>,
    /// `priority`: the lowest number is tried first.
    pub priority: i32,
    /// `weight`, among clusters of one priority.
    pub weight: i32,
}

/// Picks the next cluster by weighted random choice among those of the lowest priority that are not in `tried`, and returns the
/// policy whose connection is used: the first one with the cluster's name. A cluster with weight 0 is never picked.
pub fn next_cluster(
    policies: &[ClusterPolicy],
    tried: &BTreeSet<Arc<str>>,
    seed: u64,
) -> Option<usize> {
    let mut groups: BTreeMap<i32, BTreeMap<&str, Cluster>> = BTreeMap::new();
    for (index, policy) in policies.iter().enumerate() {
        let group = groups.entry(policy.priority).or_default();
        let cluster = group.entry(&policy.cluster).or_insert(Cluster {
            first: index,
            weights: 0,
            policies: 0,
        });
        cluster.weights += i64::from(policy.weight);
        cluster.policies += 1;
    }
    // One draw per tried cluster, so that the same seed leads to the same sequence of clusters.
    let mut random = SeededRandom::new(seed);
    for _ in tried {
        random.next();
    }
    groups
        .values()
        .find_map(|group| {
            let open: Vec<&Cluster> =
                group.iter().filter(|(name, _)| !tried.contains(**name)).map(|(_, c)| c).collect();
            let total: i64 = open.iter().map(|c| c.weight()).sum();
            let mut draw = random.below(usize::try_from(total).ok()?)?;
            open.into_iter().find(|cluster| {
                let weight = usize::try_from(cluster.weight()).unwrap_or(0);
                let is_it = draw < weight;
                draw = draw.saturating_sub(weight);
                is_it
            })
        })
        .map(|cluster| cluster.first)
}

/// The policies of one priority and cluster.
struct Cluster {
    first: usize,
    weights: i64,
    policies: i64,
}

impl Cluster {
    /// Returns the average of the policies' weights, rounded down.
    fn weight(&self) -> i64 {
        (self.weights / self.policies).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policies(all: &[(&str, i32, i32)]) -> Vec<ClusterPolicy> {
        let one = |(cluster, priority, weight): &(&str, i32, i32)| ClusterPolicy {
            cluster: Arc::from(*cluster),
            priority: *priority,
            weight: *weight,
        };
        all.iter().map(one).collect()
    }

    /// Returns the clusters in the order in which they are tried.
    fn row(policies: &[ClusterPolicy], seed: u64) -> Vec<String> {
        let mut tried = BTreeSet::new();
        let mut row = Vec::new();
        while let Some(index) = next_cluster(policies, &tried, seed) {
            tried.insert(Arc::clone(&policies[index].cluster));
            row.push(policies[index].cluster.to_string());
        }
        row
    }

    #[test]
    fn lower_priorities_are_tried_first_and_each_cluster_once() {
        let all = policies(&[("c", 2, 1), ("a", 1, 1), ("a", 2, 9), ("b", 3, 1)]);
        for seed in 0..20 {
            assert_eq!(row(&all, seed), ["a", "c", "b"]);
        }
    }

    #[test]
    fn clusters_without_weight_are_never_tried() {
        let all = policies(&[("a", 1, 0), ("b", 2, 1), ("c", 2, 0)]);
        assert_eq!(row(&all, 1), ["b"]);
        assert_eq!(next_cluster(&[], &BTreeSet::new(), 1), None);
    }

    #[test]
    fn weight_is_the_average_of_a_clusters_policies() {
        // Cluster `a` has weight (4 + 1) / 2 = 2 and `b` 6: one in four.
        let all = policies(&[("a", 1, 4), ("b", 1, 6), ("a", 1, 1)]);
        let first = |seed| next_cluster(&all, &BTreeSet::new(), seed);
        let of_a = (0..10_000).filter(|seed| first(*seed) == Some(0)).count();
        assert!((2_300..2_700).contains(&of_a), "{of_a}");
        assert!((0..10_000).all(|seed| first(seed) != Some(2)), "the first policy connects");
    }

    #[test]
    fn policies_without_a_name_are_one_cluster() {
        let all = policies(&[("", 1, 1), ("", 1, 1)]);
        assert_eq!(row(&all, 3), [""]);
    }
}
