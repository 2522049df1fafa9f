//! The cooldown after an action.
//!
//! One cooldown holds both directions; its length depends on the direction of the last action.

use jiff::{SignedDuration, Timestamp};

use super::reason::Outcome;
use super::{ScalingDecision, after};

/// How long to wait after an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cooldown {
    /// After a scale-up.
    pub after_up: SignedDuration,
    /// After any other action.
    pub after_down: SignedDuration,
}

/// The most recent action on a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastAction {
    /// When it was carried out.
    pub at: Timestamp,
    /// The size before.
    pub from: i64,
    /// The size after.
    pub to: i64,
}

/// Holds the current size during the cooldown, including its last moment.
pub(super) fn hold(
    decision: ScalingDecision,
    cooldown: &Cooldown,
    last: Option<LastAction>,
    now: Timestamp,
) -> ScalingDecision {
    let Some(last) = last.filter(|_| decision.to != decision.from) else { return decision };
    let pause = if last.to > last.from { cooldown.after_up } else { cooldown.after_down };
    let until = after(last.at, pause);
    if pause.is_zero() || now > until {
        return decision;
    }
    let (from, wanted) = (decision.from, decision.to);
    decision.held(from, Outcome::CoolingDown { wanted, until })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cooldown_is_that_of_the_last_action() {
        let cooldown = Cooldown {
            after_up: SignedDuration::from_secs(60),
            after_down: SignedDuration::from_secs(600),
        };
        let now = Timestamp::from_second(10_000).unwrap();
        for (ago, from, to, wanted, moves) in [
            (59, 3, 5, 8, false),
            (60, 3, 5, 8, false), // at its very end
            (61, 3, 5, 8, true),
            (61, 3, 5, 1, true), // both directions
            (59, 3, 5, 1, false),
            (61, 6, 5, 8, false),
            (600, 6, 5, 1, false),
            (601, 6, 5, 1, true),
            (-5, 6, 5, 1, false), // a clock that runs ahead
            (1, 6, 5, 5, false),  // nothing wanted
        ] {
            let at = Timestamp::from_second(10_000 - ago).unwrap();
            let decision = ScalingDecision::new(5, wanted, vec![]);
            let last = Some(LastAction { at, from, to });
            let held = hold(decision, &cooldown, last, now);
            assert_eq!((held.to != 5, held.limited), (moves, !moves && wanted != 5), "{ago} s ago");
        }
    }

    #[test]
    fn a_zero_cooldown_never_holds() {
        let none = Cooldown { after_up: SignedDuration::ZERO, after_down: SignedDuration::ZERO };
        let now = Timestamp::from_second(10_000).unwrap();
        let last = Some(LastAction { at: now, from: 1, to: 5 });
        assert_eq!(hold(ScalingDecision::new(5, 9, vec![]), &none, last, now).to, 9);
    }
}
