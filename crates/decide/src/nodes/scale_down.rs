//! Which nodes does nobody need, and which of them go now?
//!
//! Nodes with little use whose pods have another place are unneeded: one after another is emptied in a what-if that
//! stays, so that no two count on the same room. Of those, the ones that have been so for long enough go, as many as
//! limits allow. For every other node there is a reason.

mod confirm;
mod eligible;
mod keep;
mod look;
mod select;
mod settle;
mod simulate;

use jiff::Timestamp;

use super::{NodeId, PodId, ScaleUp, Settings, Snapshot, Status, Turn};

pub use keep::Keep;
use look::Look;
use settle::Settled;
use simulate::Found;

/// What to do about nodes that nobody needs. All lists are sorted by the node's name, but for `delete`, which is in the
/// order in which to carry it out.
#[derive(Clone, Debug, Default)]
pub struct ScaleDown {
    /// Nodes with little use whose pods have another place, with the moment since when.
    pub unneeded: Vec<(Box<str>, Timestamp)>,
    /// Those of them that go now.
    pub delete: Vec<Removal>,
    /// What keeps every other node.
    pub unremovable: Vec<(Box<str>, Keep)>,
    /// When time alone could change the answer.
    pub wake_at: Option<Timestamp>,
}

/// A node that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    pub node: Box<str>,
    /// Where each of its pods would find another place; an empty node has none.
    pub moves: Vec<(PodId, NodeId)>,
}

impl Removal {
    /// Tells whether pods have to be moved off it first.
    pub fn is_drain(&self) -> bool {
        !self.moves.is_empty()
    }
}

/// What the decision looks at besides the cluster.
#[derive(Clone, Copy)]
struct Given<'a> {
    settings: &'a Settings,
    status: &'a Status,
    /// Whether nodes are being added in this very turn.
    adds_now: bool,
    now: Timestamp,
}

impl Turn<'_> {
    /// Plans which nodes go, after what was planned to be added. In a cluster that is too unhealthy to touch nothing is
    /// planned. The what-ifs of the plan are left in the snapshot.
    pub fn scale_down(&mut self, status: &Status, added: &ScaleUp) -> ScaleDown {
        if !self.is_healthy {
            return ScaleDown::default();
        }
        // Pods that were promised a place on a node that is there keep it.
        for (pod, node) in &added.elsewhere {
            if self.snapshot.node_of(*pod).is_none() {
                self.snapshot.place(*pod, *node);
            }
        }
        let adds_now = added.resizes.iter().any(|resize| resize.to > resize.from);
        let given = Given { settings: self.settings, status, adds_now, now: self.now };
        plan(&mut self.snapshot, given)
    }
}

fn plan(snapshot: &mut Snapshot<'_>, given: Given<'_>) -> ScaleDown {
    let look = Look::new(snapshot, given);
    if !given.settings.scale_down.enabled {
        return look.all_kept();
    }
    let settled = settle::run(&look, snapshot);
    look.report(snapshot, settled)
}

impl Look<'_> {
    /// Gives the plan of an autoscaler that may not remove anything.
    fn all_kept(&self) -> ScaleDown {
        let why = |node: NodeId| match self.group_of(node) {
            Some(_) => Keep::ScaleDownDisabled,
            None => Keep::NotAutoscaled,
        };
        let unremovable = self.nodes().map(|node| (self.name(node), why(node))).collect();
        ScaleDown { unremovable, ..ScaleDown::default() }
    }

    fn report(&self, snapshot: &Snapshot<'_>, settled: Settled) -> ScaleDown {
        let Settled { goes, spare, kept } = settled;
        let mut unneeded: Vec<_> =
            goes.iter().chain(&spare).map(|f| (self.name(f.node), self.since(f.node))).collect();
        unneeded.sort();
        let to = |pod: &PodId| Some((*pod, snapshot.node_of(*pod)?));
        let removal = |gone: &Found| Removal {
            node: self.name(gone.node),
            moves: gone.pods.iter().filter_map(to).collect(),
        };
        let delete = goes.iter().map(removal).collect();
        let unremovable: Vec<_> = self
            .nodes()
            .zip(kept)
            .filter_map(|(node, keep)| Some((self.name(node), keep?)))
            .collect();
        let wake_at = unremovable.iter().filter_map(|(_, keep)| keep.until()).min();
        ScaleDown { unneeded, delete, unremovable, wake_at }
    }
}
