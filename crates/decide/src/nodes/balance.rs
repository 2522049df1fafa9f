//! Balances nodes between groups that are similar except for their zone.

use std::collections::BTreeSet;

use super::{GROUP_LABEL, HOSTNAME_LABEL, Node, Resources, ScaleUpSettings};

/// Labels in which similar groups may differ.
const IGNORED_LABELS: [&str; 24] = [
    HOSTNAME_LABEL,
    GROUP_LABEL,
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/fluentd-ds-ready",
    "kops.k8s.io/instancegroup",
    "cluster-autoscaler.kubernetes.io/template-node",
    "alpha.eksctl.io/instance-id",
    "alpha.eksctl.io/nodegroup-name",
    "eks.amazonaws.com/nodegroup",
    "k8s.amazonaws.com/eniConfig",
    "lifecycle",
    "topology.ebs.csi.aws.com/zone",
    "topology.k8s.aws/zone-id",
    "agentpool",
    "kubernetes.azure.com/agentpool",
    "topology.disk.csi.azure.com/zone",
    "kubernetes.azure.com/node-image-version",
    "kubernetes.azure.com/consolidated-additional-properties",
    "creationSource",
    "poolName",
    "topology.gke.io/zone",
];

/// A new node of a group, and the resources that its daemons leave free.
pub(super) struct NewNode<'n> {
    pub(super) node: &'n Node,
    /// The free resources, without those of its daemons.
    pub(super) free: &'n [i64],
}

/// Returns whether two groups are similar.
pub(super) fn is_similar(a: &NewNode<'_>, b: &NewNode<'_>, settings: &ScaleUpSettings) -> bool {
    if !settings.balance_labels.is_empty() {
        let same = |key: &str| a.node.labels.get(key) == b.node.labels.get(key);
        return settings.balance_labels.iter().all(|key| same(key));
    }
    let tolerances = settings.balance_tolerances;
    let capacity = |name: &str, a: i64, b: i64| match name {
        "memory" => is_near(a, b, tolerances.memory),
        _ => a == b,
    };
    all_resources(&a.node.capacity, &b.node.capacity, capacity)
        && all_resources(&a.node.allocatable, &b.node.allocatable, |_, a, b| {
            is_near(a, b, tolerances.allocatable)
        })
        && a.free.iter().zip(b.free).all(|(a, b)| is_near(*a, *b, tolerances.free))
        && same_labels(a.node, b.node, &settings.balance_ignore_labels)
}

fn all_resources(a: &Resources, b: &Resources, same: impl Fn(&str, i64, i64) -> bool) -> bool {
    let names: BTreeSet<&str> = a.iter().chain(b.iter()).map(|(name, _)| name).collect();
    names.into_iter().all(|name| {
        let (a, b) = (a.get(name), b.get(name));
        a != 0 && b != 0 && same(name, a, b)
    })
}

fn is_near(a: i64, b: i64, ratio: f64) -> bool {
    (a - b).abs() as f64 <= a.max(b) as f64 * ratio
}

fn same_labels(a: &Node, b: &Node, ignored: &[Box<str>]) -> bool {
    let matters = |key: &str| {
        !IGNORED_LABELS.contains(&key) && !ignored.iter().any(|ignored| &**ignored == key)
    };
    let labels = |node: &Node| -> Vec<(Box<str>, Box<str>)> {
        let kept = node.labels.iter().filter(|(key, _)| matters(key));
        kept.map(|(key, value)| (key.into(), value.into())).collect()
    };
    labels(a) == labels(b)
}

/// Distributes `nodes` one at a time to the smallest group that is below its maximum.
///
/// `groups` are pairs of size and maximum; returns how many each gets, which is fewer in total when all are full.
pub(super) fn share(groups: &[(u32, u32)], nodes: u32) -> Vec<u32> {
    let mut sizes: Vec<u32> = groups.iter().map(|(size, _)| *size).collect();
    for _ in 0..nodes {
        let below = (0..groups.len()).filter(|at| sizes[*at] < groups[*at].1);
        let Some(smallest) = below.min_by_key(|at| sizes[*at]) else { break };
        sizes[smallest] += 1;
    }
    sizes.iter().zip(groups).map(|(size, (before, _))| size - before).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Labels, Tolerances};
    use super::*;

    #[test]
    fn rule_1_9_nodes_go_to_the_smallest_group_below_its_maximum() {
        for (groups, nodes, shares) in [
            (vec![(0, 9), (0, 9), (0, 9)], 6, vec![2, 2, 2]),
            (vec![(3, 9), (0, 9)], 4, vec![1, 3]),
            (vec![(0, 1), (5, 9)], 4, vec![1, 3]),
            (vec![(0, 1), (1, 1)], 4, vec![1, 0]),
            (vec![(2, 9), (2, 9)], 1, vec![1, 0]),
            (vec![(7, 5), (0, 2)], 5, vec![0, 2]),
        ] {
            assert_eq!(share(&groups, nodes), shares, "{nodes} over {groups:?}");
        }
    }

    #[test]
    fn rule_1_9_similar_means_near_in_size_and_equal_in_labels_that_matter() {
        let node = |memory: i64, cpu: i64, zone: &str, disk: &str| {
            let size = Resources { cpu, memory, ..Resources::default() };
            let labels: Labels =
                [("topology.kubernetes.io/zone", zone), ("disk", disk)].into_iter().collect();
            Node { labels, capacity: size.clone(), allocatable: size, ..Node::default() }
        };
        let first = node(1000, 4000, "a", "ssd");
        for (other, settings, similar) in [
            (node(1000, 4000, "b", "ssd"), ScaleUpSettings::default(), true),
            (node(1015, 4000, "b", "ssd"), ScaleUpSettings::default(), true),
            (node(1016, 4000, "b", "ssd"), ScaleUpSettings::default(), false),
            (node(1000, 4001, "b", "ssd"), ScaleUpSettings::default(), false),
            (node(1000, 4000, "b", "hdd"), ScaleUpSettings::default(), false),
            (
                node(1000, 4000, "b", "hdd"),
                ScaleUpSettings {
                    balance_ignore_labels: vec!["disk".into()],
                    ..Default::default()
                },
                true,
            ),
            (
                node(1, 1, "b", "ssd"),
                ScaleUpSettings { balance_labels: vec!["disk".into()], ..Default::default() },
                true,
            ),
        ] {
            let of = |node| NewNode { node, free: &[] };
            assert_eq!(is_similar(&of(&first), &of(&other), &settings), similar, "{other:?}");
        }
    }

    #[test]
    fn the_tolerances_of_similar_groups_can_be_set() {
        let strict = Tolerances { memory: 0.0, allocatable: 0.0, free: 0.0 };
        let node = |capacity: i64, allocatable: i64| {
            let size = |memory| Resources { cpu: 4000, memory, ..Resources::default() };
            Node { capacity: size(capacity), allocatable: size(allocatable), ..Node::default() }
        };
        for (memory, allocatable, free, tolerances, similar) in [
            (1010, 1000, 100, strict, false),
            (1010, 1000, 100, Tolerances { memory: 0.01, ..strict }, true),
            (1000, 1100, 100, Tolerances { memory: 0.5, free: 0.5, ..strict }, false),
            (1000, 1100, 100, Tolerances { allocatable: 0.1, ..strict }, true),
            (1000, 1000, 120, Tolerances { memory: 0.5, allocatable: 0.5, ..strict }, false),
            (1000, 1000, 120, Tolerances { free: 0.2, ..strict }, true),
        ] {
            let settings = ScaleUpSettings { balance_tolerances: tolerances, ..Default::default() };
            let (first, other) = (node(1000, 1000), node(memory, allocatable));
            let first = NewNode { node: &first, free: &[100] };
            let other = NewNode { node: &other, free: &[free] };
            assert_eq!(is_similar(&first, &other, &settings), similar, "{tolerances:?}");
        }
    }
}
