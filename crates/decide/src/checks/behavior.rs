//! How fast may the size change? As HorizontalPodAutoscaler's `behavior` has it.
//!
//! First small changes are let be, then the answer settles on what was wanted all through a window, then steps are cut
//! to what may change in a period. None of these moves the answer past the present size, or further than was wanted.

use jiff::{SignedDuration, Timestamp};

use super::reason::Outcome;
use super::{Decision, before};

/// How fast the size may change.
#[derive(Clone, Debug, PartialEq)]
pub struct Behavior {
    /// Upwards.
    pub up: Direction,
    /// Downwards.
    pub down: Direction,
}

/// How fast the size may change in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    /// The answer is the one nearest to the present size of all that were given within this window.
    pub window: SignedDuration,
    /// A change of at most this share of the present size is let be.
    pub tolerance: f64,
    /// Which of the steps holds.
    pub select: Select,
    /// The largest steps.
    pub steps: Vec<Step>,
}

/// Which of several steps holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Select {
    /// The one that allows the largest change.
    Max,
    /// The one that allows the smallest change.
    Min,
    /// None: there is no change in this direction.
    Disabled,
}

/// How much may change within a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// How much.
    pub change: Change,
    /// The period.
    pub period: SignedDuration,
}

/// How much may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// So many units.
    Units(i64),
    /// A share of the size at the beginning of the period, in percent.
    Percent(i64),
}

/// An earlier decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// When.
    pub at: Timestamp,
    /// The size that was wanted, before it was held back.
    pub wanted: i64,
    /// The size before.
    pub from: i64,
    /// The size after.
    pub to: i64,
}

/// Holds an answer back where it comes too fast.
pub(super) fn hold(
    decision: Decision,
    behavior: &Behavior,
    history: &[Past],
    now: Timestamp,
) -> Decision {
    let (from, wanted) = (decision.from, decision.to);
    let direction = if wanted > from { &behavior.up } else { &behavior.down };
    if wanted == from {
        return decision;
    }
    if (wanted - from).unsigned_abs() as f64 <= direction.tolerance * from as f64 {
        return decision.held(from, Outcome::WithinTolerance { wanted });
    }
    let settled = stabilised(behavior, from, wanted, history, now);
    let decision = if settled == wanted {
        decision
    } else {
        decision.held(settled, Outcome::Stabilised { wanted, settled })
    };
    if settled == from {
        return decision;
    }
    let limit = rate_limit(direction, settled > from, from, history, now);
    let allowed = if settled > from { settled.min(limit) } else { settled.max(limit) };
    if allowed == settled {
        return decision;
    }
    decision.held(allowed, Outcome::RateLimited { wanted: settled, allowed })
}

/// Gives what was wanted all through the windows: up to the least, down to the most.
fn stabilised(
    behavior: &Behavior,
    from: i64,
    wanted: i64,
    history: &[Past],
    now: Timestamp,
) -> i64 {
    let since = |window: SignedDuration| {
        let start = before(now, window);
        history.iter().filter(move |past| past.at > start && past.at <= now).map(|past| past.wanted)
    };
    let least = since(behavior.up.window).chain([wanted]).min().unwrap_or(wanted);
    let most = since(behavior.down.window).chain([wanted]).max().unwrap_or(wanted);
    from.clamp(least, most)
}

/// Gives the size that one action may reach.
fn rate_limit(
    direction: &Direction,
    is_up: bool,
    from: i64,
    history: &[Past],
    now: Timestamp,
) -> i64 {
    let reach = |step: &Step| {
        let start = before(now, step.period);
        let recent = history.iter().filter(|past| past.at > start && past.at <= now);
        let changed: i64 =
            recent.fold(0, |sum, past| sum.saturating_add(past.to.saturating_sub(past.from)));
        let base = from.saturating_sub(changed);
        match (step.change, is_up) {
            (Change::Units(units), true) => base.saturating_add(units),
            (Change::Units(units), false) => base.saturating_sub(units),
            (Change::Percent(share), true) => {
                (base as f64 * (1.0 + share as f64 / 100.0)).ceil() as i64
            }
            (Change::Percent(share), false) => (base as f64 * (1.0 - share as f64 / 100.0)) as i64,
        }
    };
    let reaches = direction.steps.iter().map(reach);
    let limit = match (direction.select, is_up) {
        (Select::Disabled, _) => Some(from),
        (Select::Max, true) | (Select::Min, false) => reaches.max(),
        (Select::Min, true) | (Select::Max, false) => reaches.min(),
    };
    // What changed before may leave nothing for now, but never asks to go back.
    match (limit, is_up) {
        (Some(limit), true) => limit.max(from),
        (Some(limit), false) => limit.min(from),
        (None, true) => i64::MAX,
        (None, false) => i64::MIN,
    }
}

#[cfg(test)]
mod tests;
