//! The past decisions that stabilization and rate limits need, no more.

use jiff::{SignedDuration, Timestamp};

use super::before;
use super::behavior::{Behavior, PastDecision};

/// The most decisions that are kept.
const MOST: usize = 256;

/// Adds a decision to the past ones, oldest first, and drops those that are older than every window and period.
///
/// Of equal decisions in a row that changed nothing only the newest is kept: a window holds both or the newer one.
pub fn remember(
    history: &[PastDecision],
    decision: PastDecision,
    behavior: &Behavior,
) -> Vec<PastDecision> {
    let start = before(decision.at, longest(behavior));
    let mut kept: Vec<PastDecision> =
        history.iter().filter(|past| past.at > start).copied().collect();
    let is_same = |past: &PastDecision| {
        past.wanted == decision.wanted && past.from == past.to && decision.from == decision.to
    };
    if kept.last().is_some_and(is_same) {
        kept.pop();
    }
    kept.push(decision);
    let surplus = kept.len().saturating_sub(MOST);
    kept.drain(..surplus);
    kept
}

/// The outcome of a pending action, from the size that the target has now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingAction {
    /// The target was scaled.
    Applied,
    /// The target was not scaled.
    NotApplied,
}

/// Returns whether an action from one size to another was carried out, by the current size. A third size is that of another client, which came
/// after: the action counts, so that its cooldown does.
pub fn pending_action(from: i64, to: i64, count: i64) -> PendingAction {
    if count == from && from != to { PendingAction::NotApplied } else { PendingAction::Applied }
}

fn longest(behavior: &Behavior) -> SignedDuration {
    let of = |direction: &super::Scaling| {
        let periods = direction.steps.iter().map(|step| step.period);
        periods.chain([direction.window]).max().unwrap_or_default()
    };
    of(&behavior.up).max(of(&behavior.down))
}

/// Returns the moment at which a cooldown that ends at `until`, inclusive, holds no more.
pub fn just_after(until: Timestamp) -> Timestamp {
    super::after(until, SignedDuration::from_millis(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{Change, Scaling, Select, Step};

    fn at(second: i64, wanted: i64, from: i64, to: i64) -> PastDecision {
        PastDecision { at: Timestamp::from_second(second).unwrap(), wanted, from, to }
    }

    fn behavior() -> Behavior {
        let step = Step { change: Change::Units(4), period: SignedDuration::from_secs(15) };
        let direction = |seconds| Scaling {
            window: SignedDuration::from_secs(seconds),
            tolerance: 0.0,
            select: Select::Max,
            steps: vec![step],
        };
        Behavior { up: direction(0), down: direction(60) }
    }

    #[test]
    fn entries_outside_all_windows_are_dropped_and_repetitions_are_stored_once() {
        let mut history = Vec::new();
        for (decision, wanted) in [
            (at(100, 5, 5, 5), vec![100]),
            (at(110, 5, 5, 5), vec![110]),
            (at(120, 3, 5, 5), vec![110, 120]),
            (at(130, 3, 5, 4), vec![110, 120, 130]),
            (at(140, 3, 4, 4), vec![110, 120, 130, 140]),
            (at(150, 3, 4, 4), vec![110, 120, 130, 150]),
            (at(170, 3, 4, 4), vec![120, 130, 170]),
            (at(300, 9, 4, 4), vec![300]),
        ] {
            history = remember(&history, decision, &behavior());
            let kept: Vec<i64> = history.iter().map(|past| past.at.as_second()).collect();
            assert_eq!(kept, wanted);
        }
        for second in 0..1000 {
            history = remember(&history, at(300, second, 4, 4), &behavior());
        }
        assert_eq!(history.len(), MOST);
    }

    #[test]
    fn a_pending_action_is_compared_with_the_target() {
        for (from, to, count, wanted) in [
            (3, 5, 5, PendingAction::Applied),
            (3, 5, 3, PendingAction::NotApplied),
            (3, 5, 4, PendingAction::Applied),
            (3, 3, 3, PendingAction::Applied),
        ] {
            assert_eq!(pending_action(from, to, count), wanted, "{from} -> {to}, now {count}");
        }
    }
}
