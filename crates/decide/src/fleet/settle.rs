//! Whether a fleet may shrink yet.
//!
//! With a window, a fleet shrinks only to the largest size that was wanted within it: a short lull gives nothing away that is
//! needed again a minute later. Growing is never held back, and neither is a maximum.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

use super::{Decision, Reason};

/// The sizes that were wanted lately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// From old to new, each smaller than the one before it: a larger size makes all smaller ones before it pointless.
    wanted: VecDeque<(Timestamp, i32)>,
}

/// Holds a decision to shrink back until `window` has passed without a larger size, and notes what it wanted.
pub fn settle(
    mut decision: Decision,
    history: &mut History,
    window: SignedDuration,
    now: Timestamp,
) -> Decision {
    let Ok(size) = &mut decision.outcome else { return decision };
    if history.wanted.is_empty() {
        // What was wanted before we began to look is the size that is there.
        history.note(now, decision.from);
    }
    history.note(now, size.to);
    history.forget(window, now);
    let is_capped = decision.reasons.iter().any(|r| matches!(r, Reason::AtMaximum { .. }));
    let Some((held_at, largest)) = history.wanted.front().copied() else { return decision };
    let held = largest.min(decision.from);
    if held <= size.to || is_capped {
        return decision;
    }
    let until = held_at.saturating_add(window).unwrap_or(Timestamp::MAX);
    decision.reasons.push(Reason::Settling { asked: size.to, until });
    size.to = held;
    decision.wake_at = decision.wake_at.into_iter().chain([until]).min();
    decision
}

impl History {
    fn note(&mut self, now: Timestamp, wanted: i32) {
        while self.wanted.back().is_some_and(|(_, smaller)| *smaller <= wanted) {
            self.wanted.pop_back();
        }
        self.wanted.push_back((now, wanted));
    }

    /// Drops what is older than the window; and what is in the future, since then the clock was set back.
    fn forget(&mut self, window: SignedDuration, now: Timestamp) {
        let since = now.saturating_sub(window).unwrap_or(Timestamp::MIN);
        self.wanted.retain(|(at, _)| (since < *at || *at == now) && *at <= now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::{Applied, Refusal, Size};

    const WINDOW: SignedDuration = SignedDuration::from_mins(5);

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn wants(from: i32, to: i32) -> Decision {
        let applied = Applied::Policy("Buffer");
        let outcome = Ok(Size { to, limited: false, applied });
        Decision { from, outcome, reasons: Vec::new(), wake_at: None }
    }

    /// Plays what is wanted minute by minute, and gives the sizes.
    fn play(start: i32, wanted: &[i32]) -> Vec<i32> {
        let (mut history, mut size) = (History::default(), start);
        let step = |(minute, to): (usize, &i32)| {
            let now = at(i64::try_from(minute).unwrap());
            size = settle(wants(size, *to), &mut history, WINDOW, now).outcome.unwrap().to;
            size
        };
        wanted.iter().enumerate().map(step).collect()
    }

    #[test]
    fn a_lull_gives_nothing_away_and_growth_is_never_held_back() {
        for (start, wanted, sizes) in [
            (10, vec![10, 4, 4, 10, 4], vec![10, 10, 10, 10, 10]),
            (10, vec![4, 12, 30, 4], vec![10, 12, 30, 30]),
            (10, vec![4; 7], vec![10, 10, 10, 10, 10, 4, 4]),
            (10, vec![10, 8, 6, 4, 4, 4, 4, 4, 4], vec![10, 10, 10, 10, 10, 8, 6, 4, 4]),
        ] {
            assert_eq!(play(start, &wanted), sizes, "{wanted:?}");
        }
    }

    #[test]
    fn it_says_until_when_and_wakes_then() {
        let mut history = History::default();
        let held = settle(wants(10, 4), &mut history, WINDOW, at(0));
        assert_eq!(held.reasons, [Reason::Settling { asked: 4, until: at(5) }]);
        assert_eq!(held.wake_at, Some(at(5)));
        let done = settle(wants(10, 4), &mut history, WINDOW, at(5));
        assert_eq!((done.outcome.unwrap().to, done.wake_at), (4, None));
    }

    #[test]
    fn a_maximum_and_a_size_set_by_hand_are_not_held() {
        let mut capped = wants(10, 4);
        capped.reasons.push(Reason::AtMaximum { asked: 12, max: 4 });
        let mut history = History::default();
        assert_eq!(settle(capped, &mut history, WINDOW, at(0)).outcome.unwrap().to, 4);
        let mut history = History::default();
        settle(wants(10, 10), &mut history, WINDOW, at(0));
        let by_hand = settle(wants(6, 4), &mut history, WINDOW, at(1));
        assert_eq!(by_hand.outcome.unwrap().to, 6, "held where it is, not pushed back up");
    }

    #[test]
    fn a_clock_that_is_set_back_holds_nothing_for_ever() {
        let mut history = History::default();
        settle(wants(10, 10), &mut history, WINDOW, at(600));
        let back = settle(wants(10, 4), &mut history, WINDOW, at(0));
        assert_eq!(back.outcome.unwrap().to, 4);
    }

    #[test]
    fn what_has_no_answer_is_not_noted() {
        let mut history = History::default();
        let refused = Decision { outcome: Err(Refusal::Inactive), ..wants(10, 0) };
        assert_eq!(settle(refused.clone(), &mut history, WINDOW, at(0)), refused);
        assert_eq!(history, History::default());
    }
}
