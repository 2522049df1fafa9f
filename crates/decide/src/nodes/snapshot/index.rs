//! Finds the first node with enough free resources without visiting those that have too few.
//!
//! A segment tree over the nodes stores, for every range of them, the maximum free cpu, memory and pod slots.

use super::NodeId;

/// The free resources of a node, or the maximum of each in a range of nodes.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) cpu: i64,
    pub(super) memory: i64,
    pub(super) slots: i64,
}

impl Room {
    /// A node without free resources.
    pub(super) const NONE: Self = Self { cpu: i64::MIN, memory: i64::MIN, slots: i64::MIN };

    fn most(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.max(other.cpu),
            memory: self.memory.max(other.memory),
            slots: self.slots.max(other.slots),
        }
    }

    fn has(self, wanted: Self) -> bool {
        self.cpu >= wanted.cpu && self.memory >= wanted.memory && self.slots >= wanted.slots
    }
}

#[derive(Default)]
pub(super) struct Index {
    /// The root is at 1, the children of `n` at `2n` and `2n + 1`, the leaves from `leaves` on.
    tree: Vec<Room>,
    leaves: usize,
    /// The node of each leaf, and the leaf of each node, if they are not the same number.
    order: Option<Order>,
}

/// Nodes in an order other than that of their ids.
struct Order {
    nodes: Vec<NodeId>,
    leaf_of: Vec<Option<usize>>,
}

impl Index {
    pub(super) fn rebuild(&mut self, nodes: usize, room: impl Fn(NodeId) -> Room) {
        self.leaves = nodes.next_power_of_two().max(16);
        self.tree = vec![Room::NONE; 2 * self.leaves];
        for node in 0..nodes {
            self.tree[self.leaves + node] = room(node);
        }
        for at in (1..self.leaves).rev() {
            self.tree[at] = self.tree[2 * at].most(self.tree[2 * at + 1]);
        }
    }

    /// Sets the order in which nodes are tried; other nodes are not tried any more.
    pub(super) fn reorder(&mut self, order: &[NodeId], room: impl Fn(NodeId) -> Room) {
        let mut leaf_of = vec![None; order.iter().max().map_or(0, |last| last + 1)];
        order.iter().enumerate().for_each(|(leaf, node)| leaf_of[*node] = Some(leaf));
        self.order = None;
        self.rebuild(order.len(), |leaf| room(order[leaf]));
        self.order = Some(Order { nodes: order.to_vec(), leaf_of });
    }

    pub(super) fn is_built(&self) -> bool {
        self.leaves > 0
    }

    pub(super) fn set(&mut self, node: NodeId, room: Room) {
        let node = match &self.order {
            None => node,
            Some(order) => match order.leaf_of.get(node).copied().flatten() {
                Some(leaf) => leaf,
                None => return,
            },
        };
        if node >= self.leaves {
            let old = std::mem::take(self);
            self.rebuild(node + 1, |n| {
                if n < old.leaves { old.tree[old.leaves + n] } else { Room::NONE }
            });
        }
        let mut at = self.leaves + node;
        self.tree[at] = room;
        while at > 1 {
            at /= 2;
            self.tree[at] = self.tree[2 * at].most(self.tree[2 * at + 1]);
        }
    }

    /// Returns the first node, in order and from position `from` on, that has the wanted resources and that `takes` accepts.
    pub(super) fn first(
        &self,
        wanted: Room,
        from: usize,
        takes: impl Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        let node_at = |leaf: usize| self.order.as_ref().map_or(leaf, |order| order.nodes[leaf]);
        if from >= self.leaves {
            return None;
        }
        let mut at = self.leaves + from;
        loop {
            if self.tree[at].has(wanted) {
                if at >= self.leaves {
                    let node = node_at(at - self.leaves);
                    if takes(node) {
                        return Some(node);
                    }
                } else {
                    at *= 2;
                    continue;
                }
            }
            // Continue with the next range to the right: up while this is a right child, then over.
            while at % 2 == 1 {
                at /= 2;
                if at == 0 {
                    return None;
                }
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_node_equals_that_of_a_linear_scan(
            free in prop::collection::vec((0_i64..5, 0_i64..5, 0_i64..3), 0..70),
            cpu in 0_i64..5, memory in 0_i64..5, from in 0_usize..80,
        ) {
            let mut index = Index::default();
            index.rebuild(0, |_| Room::NONE);
            for (node, (cpu, memory, slots)) in free.iter().enumerate() {
                index.set(node, Room { cpu: *cpu, memory: *memory, slots: *slots });
            }
            let wanted = Room { cpu, memory, slots: 1 };
            let odd = |node: NodeId| node % 2 == 1;
            let first = (from..free.len())
                .find(|n| free[*n].0 >= cpu && free[*n].1 >= memory && free[*n].2 >= 1 && odd(*n));
            prop_assert_eq!(index.first(wanted, from, odd), first);
        }

        #[test]
        fn the_first_node_in_another_order_equals_that_of_a_linear_scan(
            free in prop::collection::vec(0_i64..5, 1..40), cpu in 0_i64..5, keep in 1_usize..4,
        ) {
            let room = |node: NodeId| Room { cpu: free[node], memory: 0, slots: 1 };
            let mut index = Index::default();
            index.rebuild(free.len(), |_| Room::NONE);
            let order: Vec<NodeId> = (0..free.len()).rev().step_by(keep).collect();
            index.reorder(&order, room);
            (0..free.len()).for_each(|node| index.set(node, room(node)));
            let wanted = Room { cpu, memory: 0, slots: 1 };
            let first = order.iter().copied().find(|node| free[*node] >= cpu);
            prop_assert_eq!(index.first(wanted, 0, |_| true), first);
        }
    }
}
