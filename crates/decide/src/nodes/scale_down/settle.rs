//! What goes now, so that a second look right after it wants nothing more?
//!
//! The search for unneeded nodes empties one after another and may move a pod twice, to a node that turns out to be unneeded
//! too. The plan may not: at the turn of each of its nodes every pod goes to a node that stays. So the plan is tried as it will
//! be carried out, and looked at again from where it ends. What that look wants is added; if the whole then works in no
//! order, those whose pods would have to move twice stay, and the plan is made again without them.

use std::collections::{BTreeMap, BTreeSet};

use super::confirm;
use super::keep::Keep;
use super::look::Look;
use super::select;
use super::simulate::{self, Found, Outcome};
use crate::nodes::snapshot::Mark;
use crate::nodes::{NodeId, PodId, Snapshot};

/// A plan, carried out in the snapshot.
pub(super) struct Settled {
    /// The nodes that go, in that order.
    pub(super) goes: Vec<Found>,
    /// Other nodes that nobody needs.
    pub(super) spare: Vec<Found>,
    /// What keeps each node that stays.
    pub(super) kept: Vec<Option<Keep>>,
}

/// Nodes that stay although they could go alone.
type Barred = BTreeMap<NodeId, Keep>;

/// How often a plan is looked at again. Hardly any needs more than two or three looks; one that needs more than these can be
/// carried out as it is, and the next turn sees the rest.
const MOST_LOOKS: u32 = 100;

/// Plans what goes, and carries it out in the snapshot.
pub(super) fn run(look: &Look<'_>, snapshot: &mut Snapshot<'_>) -> Settled {
    look_again(look, snapshot, &mut { MOST_LOOKS })
}

fn look_again(look: &Look<'_>, snapshot: &mut Snapshot<'_>, looks_left: &mut u32) -> Settled {
    let start = snapshot.mark();
    let Outcome { found, kept: needed, moves_twice } = simulate::run(look, snapshot);
    let mut barred = Barred::new();
    loop {
        let mut kept = needed.clone();
        let mut chosen = select::run(look, &found, &barred, &mut kept);
        let is_all = chosen.len() == found.len();
        if is_all && !moves_twice {
            // The order in which they were emptied is one that works.
            chosen.sort_unstable();
        } else {
            snapshot.undo_to(start);
            confirm::run(look, snapshot, &found, &mut chosen, &mut kept);
        }
        let goes: Vec<Found> = chosen.iter().map(|at| found[*at].clone()).collect();
        let is_full = kept.contains(&Some(Keep::NodeGroupMaxDeletionCountReached));
        let goes = if is_full || is_where_search_ended(look, snapshot, &goes, found.len()) {
            Ok(goes)
        } else {
            with_more(look, snapshot, start, looks_left, goes)
        };
        match goes {
            Ok(goes) => return settled(goes, found, kept),
            Err(more) => barred.extend(more),
        }
    }
}

fn settled(goes: Vec<Found>, mut found: Vec<Found>, mut kept: Vec<Option<Keep>>) -> Settled {
    goes.iter().for_each(|gone| kept[gone.node] = None);
    found.retain(|found| kept[found.node].is_some());
    Settled { goes, spare: found, kept }
}

/// Tells whether a plan ends where the search for unneeded nodes did, which found nothing more there. Nodes of a group that
/// is at its smallest size by then would be tried in another way: they take pods before those that may go.
fn is_where_search_ended(
    look: &Look<'_>,
    snapshot: &Snapshot<'_>,
    goes: &[Found],
    found: usize,
) -> bool {
    let is_there = |(pod, place): (&PodId, &NodeId)| snapshot.node_of(*pod) == Some(*place);
    goes.len() == found
        && goes.iter().all(|f| f.pods.iter().zip(&f.places).all(is_there))
        && !look.is_smallest_after(goes)
}

/// Adds what a second look would want to a plan that is carried out in the snapshot. If they cannot all go, gives the nodes
/// to do without: those whose pods a second look moves once more.
fn with_more(
    look: &Look<'_>,
    snapshot: &mut Snapshot<'_>,
    start: Mark,
    looks_left: &mut u32,
    mut goes: Vec<Found>,
) -> Result<Vec<Found>, Barred> {
    let mut barred = Barred::new();
    while !goes.is_empty() && *looks_left > 0 {
        *looks_left -= 1;
        let after = look.after(snapshot, &goes);
        let mut more = look_again(&after, snapshot, looks_left).goes;
        let twice = moved_twice(look, &goes, &more);
        let moved: BTreeSet<PodId> = goes.iter().flat_map(|f| &f.pods).copied().collect();
        more.iter_mut().for_each(|found| found.pods.retain(|pod| !moved.contains(pod)));
        goes.append(&mut more);
        if twice.is_empty() {
            // One plan after the other is a plan, and the second look has looked again itself.
            break;
        }
        barred.extend(twice);
        for found in &mut goes {
            found.places = found.pods.iter().filter_map(|pod| snapshot.node_of(*pod)).collect();
        }
        snapshot.undo_to(start);
        let mut order = (0..goes.len()).collect();
        if confirm::attempt(look, snapshot, &goes, &mut order).is_err() {
            return Err(barred);
        }
        goes = order.into_iter().map(|at| goes[at].clone()).collect();
    }
    Ok(goes)
}

/// Finds the nodes with a pod that a second look moves once more.
fn moved_twice(look: &Look<'_>, goes: &[Found], more: &[Found]) -> Barred {
    let again: BTreeMap<PodId, NodeId> =
        more.iter().flat_map(|f| f.pods.iter().map(|pod| (*pod, f.node))).collect();
    let keep = |found: &Found| {
        let (pod, to) = found.pods.iter().find_map(|pod| Some((*pod, *again.get(pod)?)))?;
        let keep =
            Keep::PodWouldMoveTwice { pod: look.pod(pod).full_name().into(), to: look.name(to) };
        Some((found.node, keep))
    };
    goes.iter().filter_map(keep).collect()
}
