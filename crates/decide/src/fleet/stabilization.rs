//! Stabilizes scale-down.
//!
//! With a window, a fleet shrinks only to the largest size desired within it: a short dip does not remove servers that are needed
//! again a minute later. Scale-up is never held back, and neither is a maximum.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

use super::{FleetDecision, Reason};

/// The sizes desired recently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Oldest first, each smaller than the one before it: a larger size makes all smaller ones before it irrelevant.
    wanted: VecDeque<(Timestamp, i32)>,
}

/// Holds a scale-down until `window` has passed without a larger size, and records the desired size.
pub fn stabilize(
    mut decision: FleetDecision,
    history: &mut History,
    window: SignedDuration,
    now: Timestamp,
) -> FleetDecision {
    let Ok(size) = &mut decision.outcome else { return decision };
    if history.wanted.is_empty() {
        // Before the first evaluation, the current size counts as desired.
        history.record(now, decision.from);
    }
    history.record(now, size.to);
    history.expire(window, now);
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

impl FromIterator<(Timestamp, i32)> for History {
    /// Returns a history of sizes, from old to new.
    fn from_iter<I: IntoIterator<Item = (Timestamp, i32)>>(sizes: I) -> Self {
        let mut history = Self::default();
        sizes.into_iter().for_each(|(at, wanted)| history.record(at, wanted));
        history
    }
}

impl History {
    /// Returns the sizes that still count, from old to new.
    pub fn entries(&self) -> impl Iterator<Item = (Timestamp, i32)> {
        self.wanted.iter().copied()
    }

    fn record(&mut self, now: Timestamp, wanted: i32) {
        while self.wanted.back().is_some_and(|(_, smaller)| *smaller <= wanted) {
            self.wanted.pop_back();
        }
        self.wanted.push_back((now, wanted));
    }

    /// Drops sizes older than the window, and those in the future, since then the clock was set back.
    fn expire(&mut self, window: SignedDuration, now: Timestamp) {
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

    fn wants(from: i32, to: i32) -> FleetDecision {
        let applied = Applied::Policy("Buffer");
        let outcome = Ok(Size { to, limited: false, applied });
        FleetDecision { from, outcome, reasons: Vec::new(), wake_at: None }
    }

    /// Simulates desired sizes minute by minute, and returns the resulting sizes.
    fn play(start: i32, wanted: &[i32]) -> Vec<i32> {
        let (mut history, mut size) = (History::default(), start);
        let step = |(minute, to): (usize, &i32)| {
            let now = at(i64::try_from(minute).unwrap());
            size = stabilize(wants(size, *to), &mut history, WINDOW, now).outcome.unwrap().to;
            size
        };
        wanted.iter().enumerate().map(step).collect()
    }

    #[test]
    fn a_short_dip_is_ignored_and_scale_up_is_never_held() {
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
    fn the_end_of_the_hold_is_reported_and_scheduled() {
        let mut history = History::default();
        let held = stabilize(wants(10, 4), &mut history, WINDOW, at(0));
        assert_eq!(held.reasons, [Reason::Settling { asked: 4, until: at(5) }]);
        assert_eq!(held.wake_at, Some(at(5)));
        let done = stabilize(wants(10, 4), &mut history, WINDOW, at(5));
        assert_eq!((done.outcome.unwrap().to, done.wake_at), (4, None));
    }

    #[test]
    fn a_maximum_and_a_manual_change_are_not_held() {
        let mut capped = wants(10, 4);
        capped.reasons.push(Reason::AtMaximum { asked: 12, max: 4 });
        let mut history = History::default();
        assert_eq!(stabilize(capped, &mut history, WINDOW, at(0)).outcome.unwrap().to, 4);
        let mut history = History::default();
        stabilize(wants(10, 10), &mut history, WINDOW, at(0));
        let by_hand = stabilize(wants(6, 4), &mut history, WINDOW, at(1));
        assert_eq!(by_hand.outcome.unwrap().to, 6, "held where it is, not pushed back up");
    }

    #[test]
    fn setting_the_clock_back_holds_nothing_forever() {
        let mut history = History::default();
        stabilize(wants(10, 10), &mut history, WINDOW, at(600));
        let back = stabilize(wants(10, 4), &mut history, WINDOW, at(0));
        assert_eq!(back.outcome.unwrap().to, 4);
    }

    #[test]
    fn a_refusal_is_not_recorded() {
        let mut history = History::default();
        let refused = FleetDecision { outcome: Err(Refusal::Inactive), ..wants(10, 0) };
        assert_eq!(stabilize(refused.clone(), &mut history, WINDOW, at(0)), refused);
        assert_eq!(history, History::default());
    }
}
