//! Limits how fast the size changes, like the `behavior` of a HorizontalPodAutoscaler.
//!
//! Small changes are ignored; then the result is stabilized over a window; then steps are limited per period. None of these
//! moves the result past the current size, or further than the desired size.

use jiff::{SignedDuration, Timestamp};

use super::reason::Outcome;
use super::{ScalingDecision, before};

/// Limits on how fast the size changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Behavior {
    /// Scaling up.
    pub up: Direction,
    /// Scaling down.
    pub down: Direction,
}

/// Limits in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    /// The stabilization window: of all results within it, the one nearest to the current size is used.
    pub window: SignedDuration,
    /// A change of at most this fraction of the current size is ignored.
    pub tolerance: f64,
    /// Which of the steps applies.
    pub select: Select,
    /// The step limits.
    pub steps: Vec<Step>,
}

/// Which of several step limits applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Select {
    /// The one that allows the largest change.
    Max,
    /// The one that allows the smallest change.
    Min,
    /// None: the direction is disabled.
    Disabled,
}

/// The largest change within a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The largest change.
    pub change: Change,
    /// The period.
    pub period: SignedDuration,
}

/// An amount of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A number of units.
    Units(i64),
    /// A percentage of the size at the beginning of the period.
    Percent(i64),
}

/// A past decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastDecision {
    /// When it was made.
    pub at: Timestamp,
    /// The desired size, before limits.
    pub wanted: i64,
    /// The size before.
    pub from: i64,
    /// The size after.
    pub to: i64,
}

/// Holds back a change that is too fast.
pub(super) fn hold(
    decision: ScalingDecision,
    behavior: &Behavior,
    history: &[PastDecision],
    now: Timestamp,
) -> ScalingDecision {
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

/// Returns the stabilized size: up to the minimum and down to the maximum of the window.
fn stabilised(
    behavior: &Behavior,
    from: i64,
    wanted: i64,
    history: &[PastDecision],
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

/// Returns the size that one action may reach.
fn rate_limit(
    direction: &Direction,
    is_up: bool,
    from: i64,
    history: &[PastDecision],
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
    // Past changes may use up the limit, but never reverse the direction.
    match (limit, is_up) {
        (Some(limit), true) => limit.max(from),
        (Some(limit), false) => limit.min(from),
        (None, true) => i64::MAX,
        (None, false) => i64::MIN,
    }
}

#[cfg(test)]
mod tests;
