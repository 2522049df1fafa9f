//! Finds unneeded nodes and decides which of them to remove now.
//!
//! Underutilized nodes whose pods fit elsewhere are unneeded: they are emptied one after another in a cumulative simulation, so
//! that no two rely on the same free resources. Those that have been unneeded for long enough are removed, within limits. Every
//! other node gets a reason.

mod confirm;
mod context;
mod converge;
mod eligible;
mod select;
mod simulate;
mod unremovable;
mod validate;

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{Evaluation, NodeId, PodId, ScaleUp, Settings, Snapshot, Status};

use super::drain::DrainOutcome;
use context::ScaleDownContext;
use converge::ConvergedPlan;
use simulate::UnneededNode;
pub use unremovable::UnremovableReason;
pub use validate::DrainPlan;

/// The plan for unneeded nodes. All lists are sorted by node name, except `delete`, which is in the order in which to carry it
/// out.
#[derive(Clone, Debug, Default)]
pub struct ScaleDown {
    /// Underutilized nodes whose pods fit elsewhere, with the time since when.
    pub unneeded: Vec<(Box<str>, Timestamp)>,
    /// Those of them that are removed now.
    pub delete: Vec<Removal>,
    /// The reason why each other node is kept.
    pub unremovable: Vec<(Box<str>, UnremovableReason)>,
    /// The time at which the result could change without any other change.
    pub wake_at: Option<Timestamp>,
}

/// A node to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    pub node: Box<str>,
    /// The new node of each of its pods; an empty node has none.
    pub moves: Vec<(PodId, NodeId)>,
    /// Those of its pods that are idle game servers. Their sets replace them before the node is removed.
    pub replaced: Vec<PodId>,
}

impl Removal {
    /// Returns whether it has to be drained first.
    pub fn is_drain(&self) -> bool {
        !self.moves.is_empty()
    }
}

/// The input of the decision besides the cluster.
#[derive(Clone, Copy)]
struct ScaleDownInput<'a> {
    settings: &'a Settings,
    status: &'a Status,
    /// The groups to which nodes are added in the same evaluation.
    growing: &'a BTreeSet<&'a str>,
    now: Timestamp,
}

impl Evaluation<'_> {
    /// Plans removals, after the planned additions. Nothing is planned in an unhealthy cluster. The simulated changes of the plan
    /// are left in the snapshot.
    pub fn scale_down(&mut self, status: &Status, added: &ScaleUp) -> ScaleDown {
        if !self.is_healthy {
            return ScaleDown::default();
        }
        // Pods that were promised a place on an existing node keep it.
        for (pod, node) in &added.on_existing {
            if self.snapshot.node_of(*pod).is_none() {
                self.snapshot.place(*pod, *node);
            }
        }
        let growing = added.resizes.iter().filter(|resize| resize.to > resize.from);
        let growing = growing.map(|resize| &*self.cluster.groups[resize.group].name).collect();
        let growing = &growing;
        let input = ScaleDownInput { settings: self.settings, status, growing, now: self.now };
        plan(&mut self.snapshot, input)
    }
}

fn plan(snapshot: &mut Snapshot<'_>, input: ScaleDownInput<'_>) -> ScaleDown {
    let context = ScaleDownContext::new(snapshot, input);
    if !input.settings.scale_down.enabled {
        return context.all_kept();
    }
    let converged = converge::run(&context, snapshot);
    context.report(snapshot, converged)
}

impl ScaleDownContext<'_> {
    /// Returns the plan when scale-down is disabled.
    fn all_kept(&self) -> ScaleDown {
        let why = |node: NodeId| match self.group_of(node) {
            Some(_) => UnremovableReason::ScaleDownDisabled,
            None => UnremovableReason::NotAutoscaled,
        };
        let unremovable = self.nodes().map(|node| (self.name(node), why(node))).collect();
        ScaleDown { unremovable, ..ScaleDown::default() }
    }

    fn report(&self, snapshot: &Snapshot<'_>, converged: ConvergedPlan) -> ScaleDown {
        let ConvergedPlan { removed, spare, kept } = converged;
        let mut unneeded: Vec<_> =
            removed.iter().chain(&spare).map(|f| (self.name(f.node), self.since(f.node))).collect();
        unneeded.sort();
        let to = |pod: &PodId| Some((*pod, snapshot.node_of(*pod)?));
        let is_replaced = |pod: &PodId| {
            self.drain_outcome(*pod, snapshot.classes.of_pod(*pod)) == DrainOutcome::Replaced
        };
        let removal = |gone: &UnneededNode| Removal {
            node: self.name(gone.node),
            moves: gone.pods.iter().filter_map(to).collect(),
            replaced: gone.pods.iter().copied().filter(is_replaced).collect(),
        };
        let delete = removed.iter().map(removal).collect();
        let unremovable: Vec<_> = self
            .nodes()
            .zip(kept)
            .filter_map(|(node, keep)| Some((self.name(node), keep?)))
            .collect();
        let wake_at = unremovable.iter().filter_map(|(_, keep)| keep.until()).min();
        ScaleDown { unneeded, delete, unremovable, wake_at }
    }
}
