//! What-ifs: every change is logged, and undone by doing its opposite.

use super::{ClassId, NodeId, PodId, Snapshot};

/// A moment to go back to.
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
    /// Remembers this moment, to come back to with [`Self::undo_to`].
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
            Op::AddNode => self.forget_newest_node(),
            Op::Put { class, node } => self.take(class, node),
            Op::Take { class, node } => self.put(class, node),
            Op::Listed { pod } => {
                let node = self.node_of[pod].take().expect("it was placed");
                // What came after it on that node is undone already, so it is the last.
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
