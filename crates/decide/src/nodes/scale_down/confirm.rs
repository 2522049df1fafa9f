//! Do the pods of the nodes that go have a place while the other unneeded nodes stay?
//!
//! The search for unneeded nodes emptied all of them. When only some go, the pods of the others stay where they are,
//! which can be in the way: of a spread, of a pod that must not be near. And a pod that was moved twice has never been
//! tried where it ends up. So the plan is gone through once more as it will be carried out, and what has no place then
//! stays.

use super::keep::Keep;
use super::look::Look;
use super::simulate::{Found, move_all, takes_pods};
use crate::nodes::{NodeId, PodId, Snapshot};

/// Carries out the removal of `chosen` in the snapshot, without those that turn out to have no place for a pod.
pub(super) fn run(
    look: &Look<'_>,
    snapshot: &mut Snapshot<'_>,
    found: &[Found],
    chosen: &mut Vec<usize>,
    kept: &mut [Option<Keep>],
) {
    let start = snapshot.mark();
    while let Err((at, keep)) = attempt(look, snapshot, found, chosen) {
        snapshot.undo_to(start);
        let failed = found[at].node;
        kept[failed] = Some(keep);
        let whole = look.group_of(failed).filter(|group| group.all_or_nothing);
        chosen.retain(|other| {
            let node = found[*other].node;
            let goes_along = whole
                .is_some_and(|w| look.group_of(node).is_some_and(|group| group.name == w.name));
            if goes_along && node != failed {
                kept[node] = Some(Keep::AtomicScaleDownFailed);
            }
            *other != at && !goes_along
        });
    }
}

/// Moves every pod of the chosen nodes, none of them to another chosen node. A node whose pods have no place yet is tried
/// again after the others, since those may bring along what its pods want to be near; `chosen` is then in that order.
pub(super) fn attempt(
    look: &Look<'_>,
    snapshot: &mut Snapshot<'_>,
    found: &[Found],
    chosen: &mut Vec<usize>,
) -> Result<(), (usize, Keep)> {
    if chosen.is_empty() {
        return Ok(());
    }
    let mut is_unneeded = vec![false; look.nodes().len()];
    found.iter().for_each(|f| is_unneeded[f.node] = true);
    let there: Vec<NodeId> = snapshot
        .nodes()
        .take_while(|node| *node < look.nodes().end)
        .filter(|node| takes_pods(look, *node))
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
            let Found { node, pods, places, .. } = &found[*at];
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
    let none =
        |(at, pod): (usize, PodId)| (at, Keep::NoPlaceToMovePods(look.pod(pod).full_name().into()));
    refused.map_or(Ok(()), |refused| Err(none(refused)))
}
