//! Resolves votes into one decision.
//!
//! The vote for the largest capacity wins. Within a named group, votes for no change only count when there are no others, so
//! that a pair of checks on one metric, one for high and one for low values, can still scale in.

use super::reason::Outcome;
use super::vote::{Ballot, Direction, Vote, Voter};
use super::{OnError, Policy, ScalingDecision};
use crate::rules::Metric;

/// Votes that are resolved among themselves first.
#[derive(Clone, Copy, PartialEq)]
enum Group<'a> {
    /// The checks without a group.
    Ungrouped,
    Named(&'a str),
    /// The rules about one metric.
    About(Metric),
}

/// The sort key of a vote: the direction, then the size. Of equal votes the limited one wins, so that the order of checks does
/// not determine whether the decision counts as limited.
type Strength = (Direction, i64, bool);

fn strength(ballot: &Ballot) -> Strength {
    match ballot.direction {
        Direction::None => (Direction::None, 0, false),
        Direction::Up | Direction::Down => (ballot.direction, ballot.count, ballot.cut),
    }
}

/// Resolves the votes into one decision.
pub(super) fn resolve(votes: &[Vote], policy: &Policy, count: i64) -> ScalingDecision {
    let keep = |outcome| ScalingDecision::new(count, count, vec![outcome]);
    let failed = votes.iter().find_map(|vote| match vote {
        Vote::Doubt(voter, _, OnError::Fail) => Some(*voter),
        Vote::Doubt(..) | Vote::Cast(..) | Vote::Absent(..) => None,
    });
    if let Some(voter) = failed {
        return keep(Outcome::CheckFailed { voter });
    }
    let holder = votes.iter().find_map(|vote| match vote {
        Vote::Doubt(voter, _, OnError::Hold) => Some(*voter),
        Vote::Doubt(..) | Vote::Cast(..) | Vote::Absent(..) => None,
    });
    let Some((voter, ballot)) = winner(votes, policy) else {
        return keep(holder.map_or(Outcome::NoVotes, |voter| Outcome::HeldInDoubt { voter }));
    };
    match (ballot.direction, holder) {
        (Direction::None, _) => keep(Outcome::NothingWanted { voter }),
        // A check without data might have voted for the current size, whatever group it is in.
        (Direction::Down, Some(voter)) => keep(Outcome::HeldInDoubt { voter }),
        (Direction::Up | Direction::Down, _) => {
            let outcome = Outcome::Won { voter, direction: ballot.direction, count: ballot.count };
            let mut decision = ScalingDecision::new(count, ballot.count, vec![outcome]);
            if ballot.cut {
                decision.limited = true;
                decision.reasons.push(Outcome::Cut { voter });
            }
            decision
        }
    }
}

/// Returns the winning vote: first of each group, then among the winners of the groups.
fn winner<'a>(votes: &'a [Vote], policy: &Policy) -> Option<(Voter, &'a Ballot)> {
    let mut best: Option<(Voter, &Ballot)> = None;
    for (index, vote) in votes.iter().enumerate() {
        let group = group(vote.voter(), policy);
        let is_first = votes[..index].iter().all(|v| self::group(v.voter(), policy) != group);
        if !is_first {
            continue;
        }
        let members = votes[index..].iter().filter(|v| self::group(v.voter(), policy) == group);
        best = stronger(best, group_winner(members, group));
    }
    best
}

fn group_winner<'a>(
    members: impl Iterator<Item = &'a Vote>,
    group: Group<'_>,
) -> Option<(Voter, &'a Ballot)> {
    let (mut moves, mut stays) = (None, None);
    for member in members {
        let Vote::Cast(voter, ballot) = member else { continue };
        let is_quiet = group != Group::Ungrouped && ballot.direction == Direction::None;
        let best = if is_quiet { &mut stays } else { &mut moves };
        *best = stronger(*best, Some((*voter, ballot)));
    }
    moves.or(stays)
}

/// Returns the stronger of two votes; of equal ones, the first.
fn stronger<'a>(
    a: Option<(Voter, &'a Ballot)>,
    b: Option<(Voter, &'a Ballot)>,
) -> Option<(Voter, &'a Ballot)> {
    match (a, b) {
        (Some(a), Some(b)) if strength(b.1) > strength(a.1) => Some(b),
        (Some(a), _) => Some(a),
        (None, b) => b,
    }
}

fn group(voter: Voter, policy: &Policy) -> Group<'_> {
    match voter {
        Voter::Check(index) => match policy.checks[index].group.as_str() {
            "" => Group::Ungrouped,
            name => Group::Named(name),
        },
        Voter::Rule(index) => Group::About(policy.rules[index].metric),
    }
}
