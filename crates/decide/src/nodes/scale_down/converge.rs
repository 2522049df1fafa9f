//! Plans removals such that an evaluation right afterwards removes nothing more.
//!
//! The search for unneeded nodes empties one after another and may move a pod twice, to a node that turns out to be unneeded too.
//! A plan may not: when a node is removed, each of its pods moves to a node that stays. So the plan is simulated as it will be
//! carried out, and evaluated again from there. Further removals are added; if no order works for all of them, nodes whose pods
//! would move twice stay, and the plan is made again without them.

use std::collections::{BTreeMap, BTreeSet};

use super::confirm;
use super::context::ScaleDownContext;
use super::select;
use super::simulate::{self, SearchResult, UnneededNode};
use super::unremovable::UnremovableReason;
use crate::nodes::snapshot::Mark;
use crate::nodes::{NodeId, PodId, Snapshot};

/// A plan, simulated in the snapshot.
pub(super) struct ConvergedPlan {
    /// The nodes to remove, in order.
    pub(super) removed: Vec<UnneededNode>,
    /// Other unneeded nodes.
    pub(super) spare: Vec<UnneededNode>,
    /// The reason why each node is kept.
    pub(super) kept: Vec<Option<UnremovableReason>>,
}

/// Nodes that stay although they could be removed alone.
type Excluded = BTreeMap<NodeId, UnremovableReason>;

/// How often a plan is evaluated again. Hardly any needs more than two or three passes; one that needs more is carried out as it
/// is, and the next evaluation plans the rest.
const MAX_PASSES: u32 = 100;

/// Plans removals, and simulates them in the snapshot.
pub(super) fn run(context: &ScaleDownContext<'_>, snapshot: &mut Snapshot<'_>) -> ConvergedPlan {
    evaluate_again(context, snapshot, &mut { MAX_PASSES })
}

fn evaluate_again(
    context: &ScaleDownContext<'_>,
    snapshot: &mut Snapshot<'_>,
    passes_left: &mut u32,
) -> ConvergedPlan {
    let start = snapshot.mark();
    let SearchResult { found, kept: needed, moves_twice } = simulate::run(context, snapshot);
    let mut excluded = Excluded::new();
    loop {
        let mut kept = needed.clone();
        let mut chosen = select::run(context, &found, &excluded, &mut kept);
        let is_all = chosen.len() == found.len();
        if is_all && !moves_twice {
            // The order in which they were emptied works.
            chosen.sort_unstable();
        } else {
            snapshot.undo_to(start);
            confirm::run(context, snapshot, &found, &mut chosen, &mut kept);
        }
        let removed: Vec<UnneededNode> = chosen.iter().map(|at| found[*at].clone()).collect();
        let is_full = kept.contains(&Some(UnremovableReason::NodeGroupMaxDeletionCountReached));
        let removed = if is_full || is_where_search_ended(context, snapshot, &removed, found.len())
        {
            Ok(removed)
        } else {
            with_more(context, snapshot, start, passes_left, removed)
        };
        match removed {
            Ok(removed) => return converged(removed, found, kept),
            Err(more) => excluded.extend(more),
        }
    }
}

fn converged(
    removed: Vec<UnneededNode>,
    mut found: Vec<UnneededNode>,
    mut kept: Vec<Option<UnremovableReason>>,
) -> ConvergedPlan {
    removed.iter().for_each(|gone| kept[gone.node] = None);
    found.retain(|found| kept[found.node].is_some());
    ConvergedPlan { removed, spare: found, kept }
}

/// Returns whether a plan ends in the state of the search for unneeded nodes, which found nothing more there. Nodes of a group
/// that is at its minimum by then would be tried differently: they take pods before candidates do.
fn is_where_search_ended(
    context: &ScaleDownContext<'_>,
    snapshot: &Snapshot<'_>,
    removed: &[UnneededNode],
    found: usize,
) -> bool {
    let is_there = |(pod, place): (&PodId, &NodeId)| snapshot.node_of(*pod) == Some(*place);
    removed.len() == found
        && removed.iter().all(|f| f.pods.iter().zip(&f.places).all(is_there))
        && !context.is_smallest_after(removed)
}

/// Adds the removals of a second evaluation to a plan that is simulated in the snapshot. If they cannot all be carried out,
/// returns the nodes to exclude: those whose pods the second evaluation moves again.
fn with_more(
    context: &ScaleDownContext<'_>,
    snapshot: &mut Snapshot<'_>,
    start: Mark,
    passes_left: &mut u32,
    mut removed: Vec<UnneededNode>,
) -> Result<Vec<UnneededNode>, Excluded> {
    let mut excluded = Excluded::new();
    while !removed.is_empty() && *passes_left > 0 {
        *passes_left -= 1;
        let after = context.after(snapshot, &removed);
        let mut more = evaluate_again(&after, snapshot, passes_left).removed;
        let twice = moved_twice(context, &removed, &more);
        let moved: BTreeSet<PodId> = removed.iter().flat_map(|f| &f.pods).copied().collect();
        more.iter_mut().for_each(|found| found.pods.retain(|pod| !moved.contains(pod)));
        removed.append(&mut more);
        if twice.is_empty() {
            // Two consecutive plans are a plan, and the second one has been evaluated again itself.
            break;
        }
        excluded.extend(twice);
        for found in &mut removed {
            found.places = found.pods.iter().filter_map(|pod| snapshot.node_of(*pod)).collect();
        }
        snapshot.undo_to(start);
        let mut order = (0..removed.len()).collect();
        if confirm::attempt(context, snapshot, &removed, &mut order).is_err() {
            return Err(excluded);
        }
        removed = order.into_iter().map(|at| removed[at].clone()).collect();
    }
    Ok(removed)
}

/// Returns the nodes with a pod that a second evaluation moves again.
fn moved_twice(
    context: &ScaleDownContext<'_>,
    removed: &[UnneededNode],
    more: &[UnneededNode],
) -> Excluded {
    let again: BTreeMap<PodId, NodeId> =
        more.iter().flat_map(|f| f.pods.iter().map(|pod| (*pod, f.node))).collect();
    let keep = |found: &UnneededNode| {
        let (pod, to) = found.pods.iter().find_map(|pod| Some((*pod, *again.get(pod)?)))?;
        let keep = UnremovableReason::PodWouldMoveTwice {
            pod: context.pod(pod).full_name().into(),
            to: context.name(to),
        };
        Some((found.node, keep))
    };
    removed.iter().filter_map(keep).collect()
}
