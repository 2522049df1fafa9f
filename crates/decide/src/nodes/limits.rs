//! Cluster-wide limits.

use super::{Node, Refusal, Settings};

/// The current amounts of the cluster and their limits.
#[derive(Clone)]
pub(super) struct Quota {
    /// Each limit's name, its maximum, and the current amount.
    limits: Vec<(Box<str>, i64, i64)>,
    /// How many more nodes this plan may add.
    plan_left: u32,
}

const NODES: &str = "nodes";

impl Quota {
    /// Counts the existing and upcoming nodes. Unmanaged nodes count too.
    pub(super) fn new<'n>(settings: &Settings, nodes: impl Iterator<Item = &'n Node>) -> Self {
        let limits = &settings.limits;
        let mut all = vec![
            (Box::from("cpu"), limits.cores.max, 0),
            (Box::from("memory"), limits.memory.max, 0),
        ];
        if limits.nodes > 0 {
            all.push((NODES.into(), i64::from(limits.nodes), 0));
        }
        all.extend(limits.resources.iter().map(|(name, range)| (name.clone(), range.max, 0)));
        let mut quota = Self { limits: all, plan_left: settings.scale_up.max_nodes };
        for node in nodes {
            quota.add(node, 1);
        }
        quota
    }

    fn add(&mut self, node: &Node, nodes: u32) {
        let is_virtual = node.labels.get("type") == Some("virtual-kubelet");
        for (name, _, used) in &mut self.limits {
            if !is_virtual || &**name == NODES {
                *used += amount(name, node) * i64::from(nodes);
            }
        }
    }

    /// Counts nodes of a plan.
    pub(super) fn take(&mut self, node: &Node, nodes: u32) {
        self.add(node, nodes);
        self.plan_left = self.plan_left.saturating_sub(nodes);
    }

    /// Returns how many more nodes this plan may add.
    pub(super) fn plan_left(&self) -> u32 {
        self.plan_left
    }

    /// Returns how many more nodes the limit on their number allows.
    pub(super) fn nodes_left(&self) -> u32 {
        let of_nodes = self.limits.iter().find(|(name, ..)| &**name == NODES);
        let left = of_nodes.map_or(i64::MAX, |(_, max, used)| (max - used).max(0));
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    /// Returns how many more nodes like this one all limits allow.
    pub(super) fn allows(&self, node: &Node) -> u32 {
        let left = self.limits.iter().map(|(name, max, used)| match amount(name, node) {
            0 => u32::MAX,
            each => u32::try_from(((max - used) / each).max(0)).unwrap_or(u32::MAX),
        });
        left.min().unwrap_or(u32::MAX).min(self.plan_left)
    }

    /// Returns the limit that does not allow so many more nodes like this one.
    pub(super) fn refusal(&self, node: &Node, nodes: u32) -> Option<Refusal> {
        if self.plan_left < nodes {
            return Some(Refusal::LimitReached("nodes of one plan".into()));
        }
        let sum = |name: &str| amount(name, node).saturating_mul(i64::from(nodes));
        let full =
            |(name, max, used): &&(Box<str>, i64, i64)| used.saturating_add(sum(name)) > *max;
        let full = self.limits.iter().filter(|(name, ..)| amount(name, node) > 0).find(full);
        full.map(|(name, ..)| Refusal::LimitReached(name.clone()))
    }
}

/// Returns how much a node counts towards a limit; cores are rounded up.
fn amount(name: &str, node: &Node) -> i64 {
    match name {
        NODES => 1,
        "cpu" => (node.capacity.cpu + 999) / 1000,
        _ => node.capacity.get(name),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, Range, Resources};
    use super::*;

    fn node(cpu: i64, memory: i64) -> Node {
        Node { capacity: Resources { cpu, memory, ..Resources::default() }, ..Node::default() }
    }

    #[test]
    fn rule_1_7_cores_of_a_node_are_rounded_up_and_every_limit_counts() {
        for (cores, memory, nodes, allowed) in [
            (8, 100, 0, 2), // 4 cores used, 2 each
            (9, 100, 0, 2), // a half core does not help
            (5, 100, 0, 0),
            (100, 50, 0, 4), // memory: 10 used, 10 each
            (100, 100, 3, 1),
            (100, 100, 2, 0),
        ] {
            let limits = Limits {
                nodes,
                cores: Range { min: 0, max: cores },
                memory: Range { min: 0, max: memory },
                ..Limits::default()
            };
            let settings = Settings { limits, ..Settings::default() };
            let there = [node(1500, 5), node(1001, 5)];
            let quota = Quota::new(&settings, there.iter());
            assert_eq!(quota.allows(&node(1500, 10)), allowed, "{cores} {memory} {nodes}");
            for wanted in 1..=4 {
                let refused = quota.refusal(&node(1500, 10), wanted).is_some();
                assert_eq!(refused, wanted > allowed, "{cores} {memory} {nodes}: {wanted}");
            }
        }
    }
}
