//! Confirms that the pods of the removed nodes fit while the other unneeded nodes stay.
//!
//! The search for unneeded nodes emptied all of them. When only some are removed, the pods of the others stay where they are, which
//! can violate a spread constraint or anti-affinity. And a pod that was moved twice was never tried at its final node. So the
//! plan is simulated once more as it will be carried out, and nodes whose pods do not fit stay.

use super::context::ScaleDownContext;
use super::simulate::{UnneededNode, move_all, takes_pods};
use super::unremovable::UnremovableReason;
use crate::nodes::{NodeId, PodId, Snapshot};

/// Simulates the removal of `chosen` in the snapshot, without nodes whose pods do not fit elsewhere.
pub(super) fn run(
    context: &ScaleDownContext<'_>,
    snapshot: &mut Snapshot<'_>,
    found: &[UnneededNode],
    chosen: &mut Vec<usize>,
    kept: &mut [Option<UnremovableReason>],
) {
    let start = snapshot.mark();
    while let Err((at, keep)) = attempt(context, snapshot, found, chosen) {
        snapshot.undo_to(start);
        let failed = found[at].node;
        kept[failed] = Some(keep);
        let whole = context.group_of(failed).filter(|group| group.all_or_nothing);
        chosen.retain(|other| {
            let node = found[*other].node;
            let goes_along = whole
                .is_some_and(|w| context.group_of(node).is_some_and(|group| group.name == w.name));
            if goes_along && node != failed {
                kept[node] = Some(UnremovableReason::AtomicScaleDownFailed);
            }
            *other != at && !goes_along
        });
    }
}

/// Moves every pod of the chosen nodes, none of them to another chosen node. A node whose pods do not fit yet is tried again after
/// the others, since those may satisfy its pods' affinity; `chosen` is then in that order.
pub(super) fn attempt(
    context: &ScaleDownContext<'_>,
    snapshot: &mut Snapshot<'_>,
    found: &[UnneededNode],
    chosen: &mut Vec<usize>,
) -> Result<(), (usize, UnremovableReason)> {
    if chosen.is_empty() {
        return Ok(());
    }
    let mut is_unneeded = vec![false; context.nodes().len()];
    found.iter().for_each(|f| is_unneeded[f.node] = true);
    let there: Vec<NodeId> = snapshot
        .nodes()
        .take_while(|node| *node < context.nodes().end)
        .filter(|node| takes_pods(context, *node))
        .collect();
    let (spare, stays): (Vec<_>, Vec<_>) = there.into_iter().partition(|node| is_unneeded[*node]);
    snapshot.prefer(&[stays, spare].concat());
    chosen.iter().for_each(|at| snapshot.close(found[*at].node));
    let mut done = Vec::with_capacity(chosen.len());
    let mut left = std::mem::take(chosen);
    let mut refused = None;
    while !left.is_empty() && refused.is_none() {
        let before = left.len();
        left.retain(|at| {
            let UnneededNode { node, pods, places, .. } = &found[*at];
            if let Err(pod) = move_all(snapshot, *node, pods, places) {
                refused.get_or_insert((*at, pod));
                return true;
            }
            snapshot.remove_node(*node);
            done.push(*at);
            false
        });
        refused = refused.filter(|_| left.len() == before);
    }
    chosen.extend(done.into_iter().chain(left));
    let none = |(at, pod): (usize, PodId)| {
        (at, UnremovableReason::NoPlaceToMovePods(context.pod(pod).full_name().into()))
    };
    refused.map_or(Ok(()), |refused| Err(none(refused)))
}
