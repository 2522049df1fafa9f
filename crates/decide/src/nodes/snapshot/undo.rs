//! Simulated changes: each is logged, and undone by its inverse.

use super::{ClassId, NodeId, PodId, Snapshot};

/// A savepoint in the log.
#[derive(Clone, Copy, Debug)]
pub struct Mark(usize);

/// One change.
pub(super) enum Op {
    AddNode,
    Put { class: ClassId, node: NodeId },
    Take { class: ClassId, node: NodeId },
    Listed { pod: PodId },
    Unlisted { pod: PodId, node: NodeId, at: usize },
    Closed { node: NodeId },
    RemovedNode { node: NodeId },
}

impl Snapshot<'_> {
    /// Returns a savepoint for [`Self::undo_to`].
    pub fn mark(&self) -> Mark {
        Mark(self.log.len())
    }

    /// Undoes every change since `mark`, newest first.
    pub fn undo_to(&mut self, mark: Mark) {
        while self.log.len() > mark.0 {
            let Some(op) = self.log.pop() else { return };
            self.undo(&op);
        }
    }

    fn undo(&mut self, op: &Op) {
        match *op {
            Op::AddNode => self.remove_newest_node(),
            Op::Put { class, node } => self.take(class, node),
            Op::Take { class, node } => self.put(class, node),
            Op::Listed { pod } => {
                let node = self.node_of[pod].take().expect("the pod was placed");
                // Later changes on that node are undone already, so it is the last.
                self.pods_on[node].pop();
            }
            Op::Unlisted { pod, node, at } => {
                self.pods_on[node].insert(at, pod);
                self.node_of[pod] = Some(node);
            }
            Op::Closed { node } => self.set_closed(node, false),
            Op::RemovedNode { node } => self.set_there(node, true),
        }
    }
}
