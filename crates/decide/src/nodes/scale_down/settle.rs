//! Would a second look, right after the plan was carried out, want more?
//!
//! What was found by emptying all unneeded nodes together need not hold for those that go: one turns out to have no place
//! for a pod, another pod ends up elsewhere, and room appears that was not there before. So the plan is looked at again from
//! where it ends, until that adds nothing.

use super::confirm;
use super::look::Look;
use super::simulate::{self, Found};
use super::{Draft, select};
use crate::nodes::Snapshot;
use crate::nodes::snapshot::Mark;

/// Carries out the draft in the snapshot, and adds to it what a second look would want.
pub(super) fn run(look: &Look<'_>, snapshot: &mut Snapshot<'_>, start: Mark, draft: &mut Draft) {
    let is_all = draft.chosen.len() == draft.found.len();
    snapshot.undo_to(start);
    let before = draft.chosen.len();
    confirm::run(look, snapshot, &draft.found, &mut draft.chosen, &mut draft.kept);
    let is_as_found = draft.chosen.len() == before && (!is_all || is_where_found(snapshot, draft));
    if is_as_found {
        return;
    }
    while let Some(next) = again(look, snapshot, start, draft) {
        *draft = next;
    }
}

fn is_where_found(snapshot: &Snapshot<'_>, draft: &Draft) -> bool {
    draft.chosen.iter().all(|at| {
        let Found { pods, places, .. } = &draft.found[*at];
        pods.iter().zip(places).all(|(pod, place)| snapshot.node_of(*pod) == Some(*place))
    })
}

/// Looks from where the draft ends, and gives a draft that removes more, carried out, if there is one.
fn again(
    look: &Look<'_>,
    snapshot: &mut Snapshot<'_>,
    start: Mark,
    draft: &Draft,
) -> Option<Draft> {
    let end = snapshot.mark();
    let mut fixed: Vec<Found> = draft.chosen.iter().map(|at| draft.found[*at].clone()).collect();
    for found in &mut fixed {
        found.places = found.pods.iter().filter_map(|pod| snapshot.node_of(*pod)).collect();
    }
    let more = simulate::run(look, snapshot, fixed.clone(), draft.kept.clone());
    let mut next = Draft { found: more.found, chosen: Vec::new(), kept: more.kept };
    next.chosen = select::run(look, &next.found, fixed.len(), &mut next.kept);
    if next.chosen.len() <= fixed.len() {
        snapshot.undo_to(end);
        return None;
    }
    snapshot.undo_to(start);
    confirm::run(look, snapshot, &next.found, &mut next.chosen, &mut next.kept);
    if next.chosen.len() > fixed.len() {
        return Some(next);
    }
    // What it wants cannot go along with the rest, so the plan stays as it was.
    snapshot.undo_to(start);
    let (mut all, mut kept) = ((0..fixed.len()).collect(), draft.kept.clone());
    confirm::run(look, snapshot, &fixed, &mut all, &mut kept);
    None
}
