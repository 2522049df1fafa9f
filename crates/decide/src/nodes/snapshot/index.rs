//! Finds the first node with enough room without looking at those that have none.
//!
//! A tree over the nodes keeps, for every stretch of them, the most cpu, memory and pod slots that any has free.

use super::NodeId;

/// What is free on a node, or the most of each that is free in a stretch of nodes.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) cpu: i64,
    pub(super) memory: i64,
    pub(super) slots: i64,
}

impl Room {
    /// A node that takes nothing.
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

    pub(super) fn is_built(&self) -> bool {
        self.leaves > 0
    }

    pub(super) fn set(&mut self, node: NodeId, room: Room) {
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

    /// Finds the first node from `from` on that has what is wanted and that `takes` accepts.
    pub(super) fn first(
        &self,
        wanted: Room,
        from: NodeId,
        takes: impl Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        if from >= self.leaves {
            return None;
        }
        let mut at = self.leaves + from;
        loop {
            if self.tree[at].has(wanted) {
                if at >= self.leaves {
                    if takes(at - self.leaves) {
                        return Some(at - self.leaves);
                    }
                } else {
                    at *= 2;
                    continue;
                }
            }
            // On to the next stretch to the right: up while this is a right child, then over.
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
        fn the_first_node_found_is_the_first_there_is(
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
    }
}
