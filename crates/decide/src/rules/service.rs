//! Rancher policies: whether a service's load has crossed a threshold for a minute.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::Reason;
use crate::checks::{Direction, Limits, Reading};

/// The evaluated time window.
const MINUTE: SignedDuration = SignedDuration::from_secs(60);

/// One policy of a service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// Exceeded by the mean for a policy that scales up, and the reverse for one that scales down; equality never triggers.
    pub threshold: f64,
    /// The allowed sizes.
    pub limits: Limits,
    /// The direction and step.
    pub action: Move,
    /// The quiet period after an action.
    pub quiet_for: SignedDuration,
    /// When it was last executed.
    pub last_executed_at: Option<Timestamp>,
    /// Whether a step beyond the limits is refused instead of limited.
    pub is_strict: bool,
}

/// A direction and step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Adds units.
    Up(i64),
    /// Removes units.
    Down(i64),
}

/// The result of one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Whether an action that changes the size is due.
    pub fires: bool,
    /// The resulting size.
    pub to: i64,
    /// Whether the step was limited.
    pub limited: bool,
    /// The end of the quiet period, inclusive.
    pub quiet_until: Option<Timestamp>,
    /// The reason.
    pub why: Fire,
}

/// The reason why a policy triggers or does not.
#[derive(Clone, Debug, PartialEq)]
pub enum Fire {
    /// The mean crossed the threshold.
    Crossed { mean: f64 },
    /// It did not.
    NotCrossed { mean: f64 },
    /// The last minute is not covered yet.
    WindowNotFull,
    /// There are no numbers.
    NoData,
    /// All numbers are older than the last minute.
    Stale { newest_at: Timestamp },
    /// The source failed.
    Failed { words: String },
    /// The quiet period has not ended.
    Quiet { mean: f64, until: Timestamp },
    /// The size is at its limit already.
    AtLimit { mean: f64 },
    /// The step exceeds the limits and must not be limited.
    Refused { wanted: i64 },
    /// Another policy of the same service triggers and takes precedence.
    Outvoted,
    /// Another autoscaler sizes the service.
    TargetShared { with: String },
}

/// Holds the size for all policies of a service that another autoscaler sizes.
pub fn hold_shared(
    policies: &[(Threshold, Reading<'_>)],
    count: i64,
    shared_with: &str,
) -> Vec<Verdict> {
    let newest_up = newest_up(policies);
    let hold = |(policy, _): &(Threshold, Reading<'_>)| Verdict {
        fires: false,
        to: count,
        limited: false,
        quiet_until: quiet_until(policy, newest_up),
        why: Fire::TargetShared { with: shared_with.to_owned() },
    };
    policies.iter().map(hold).collect()
}

/// Evaluates all policies of one service together. Up takes precedence over down, then the larger size, then the first; the others
/// wait for the next evaluation.
pub fn judge(policies: &[(Threshold, Reading<'_>)], count: i64, now: Timestamp) -> Vec<Verdict> {
    let newest_up = newest_up(policies);
    let mut verdicts: Vec<Verdict> = policies
        .iter()
        .map(|(policy, reading)| one(policy, *reading, newest_up, count, now))
        .collect();
    let strength = |verdict: &Verdict| (Direction::between(count, verdict.to), verdict.to);
    let best = verdicts.iter().filter(|v| v.fires).map(strength).max();
    let mut is_taken = false;
    for verdict in verdicts.iter_mut().filter(|v| v.fires) {
        if is_taken || Some(strength(verdict)) != best {
            *verdict = Verdict {
                fires: false,
                to: count,
                limited: false,
                quiet_until: verdict.quiet_until,
                why: Fire::Outvoted,
            };
        } else {
            is_taken = true;
        }
    }
    verdicts
}

/// Returns when the service was last scaled up.
fn newest_up(policies: &[(Threshold, Reading<'_>)]) -> Option<Timestamp> {
    let ups = policies.iter().filter(|(policy, _)| matches!(policy.action, Move::Up(_)));
    ups.filter_map(|(policy, _)| policy.last_executed_at).max()
}

fn one(
    policy: &Threshold,
    reading: Reading<'_>,
    newest_up: Option<Timestamp>,
    count: i64,
    now: Timestamp,
) -> Verdict {
    let quiet_until = quiet_until(policy, newest_up);
    let keep = |why| Verdict { fires: false, to: count, limited: false, quiet_until, why };
    let mean = match mean(reading, now) {
        Ok(mean) => mean,
        Err(why) => return keep(why),
    };
    let (wanted, crossed) = match policy.action {
        Move::Up(amount) => (count.saturating_add(amount), mean > policy.threshold),
        Move::Down(amount) => (count.saturating_sub(amount), mean < policy.threshold),
    };
    if !crossed {
        return keep(Fire::NotCrossed { mean });
    }
    if let Some(until) = quiet_until.filter(|until| now <= *until) {
        return keep(Fire::Quiet { mean, until });
    }
    let cut = policy.limits.clamp(wanted);
    if policy.is_strict && cut != wanted {
        return keep(Fire::Refused { wanted });
    }
    // Limits shorten a step, but never reverse it.
    let to = match policy.action {
        Move::Up(_) => cut.max(count),
        Move::Down(_) => cut.min(count),
    };
    if to == count {
        return Verdict { limited: true, ..keep(Fire::AtLimit { mean }) };
    }
    let why = Fire::Crossed { mean };
    Verdict { fires: true, to, limited: to != wanted, quiet_until, why }
}

/// Returns the end of the quiet period: after the policy's own action, and for scaling down also after any scale-up of the service.
fn quiet_until(policy: &Threshold, newest_up: Option<Timestamp>) -> Option<Timestamp> {
    let since = match policy.action {
        Move::Up(_) => policy.last_executed_at,
        Move::Down(_) => policy.last_executed_at.max(newest_up),
    };
    since.map(|at| at.checked_add(policy.quiet_for).unwrap_or(Timestamp::MAX))
}

/// Returns the mean of the last minute, if it is covered.
fn mean(reading: Reading<'_>, now: Timestamp) -> Result<f64, Fire> {
    let series = match reading {
        Reading::Series(series) => series,
        Reading::Missing => return Err(Fire::NoData),
        Reading::Stale(newest_at) => return Err(Fire::Stale { newest_at }),
        Reading::Failed(words) => return Err(Fire::Failed { words: words.to_owned() }),
    };
    let start = now.checked_sub(MINUTE).unwrap_or(Timestamp::MIN);
    let just_after = start.checked_add(SignedDuration::from_nanos(1)).unwrap_or(start);
    let values = series.between(just_after, now);
    let is_covered =
        |first: Timestamp| first <= start.checked_add(series.step()).unwrap_or(Timestamp::MAX);
    // A minute of which more than half is missing is not covered, wherever the gaps are.
    let covered = i32::try_from(values.len()).ok().and_then(|n| series.step().checked_mul(n));
    if values.is_empty() {
        return Err(Fire::NoData);
    }
    if !series.first_at().is_some_and(is_covered) || covered.is_some_and(|c| c < MINUTE / 2) {
        return Err(Fire::WindowNotFull);
    }
    Ok(values.iter().sum::<f64>() / values.len() as f64)
}

impl Reason for Fire {
    fn code(&self) -> &'static str {
        match self {
            Self::Crossed { .. } => "Crossed",
            Self::NotCrossed { .. } => "NotCrossed",
            Self::WindowNotFull => "WindowNotFull",
            Self::NoData => "NoData",
            Self::Stale { .. } => "Stale",
            Self::Failed { .. } => "Failed",
            Self::Quiet { .. } => "Quiet",
            Self::AtLimit { .. } => "AtLimit",
            Self::Refused { .. } => "Refused",
            Self::Outvoted => "Outvoted",
            Self::TargetShared { .. } => "TargetShared",
        }
    }
}

impl fmt::Display for Fire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crossed { mean } => write!(f, "a mean of {mean:.2} crosses the threshold"),
            Self::NotCrossed { mean } => {
                write!(f, "a mean of {mean:.2} does not cross the threshold")
            }
            Self::WindowNotFull => f.write_str("the last minute is not covered"),
            Self::NoData => f.write_str("no data"),
            Self::Stale { newest_at } => {
                write!(f, "stale data: the newest point is of {newest_at}")
            }
            Self::Failed { words } => write!(f, "the source failed: {words}"),
            Self::Quiet { mean, until } => {
                write!(
                    f,
                    "a mean of {mean:.2} crosses the threshold, but the policy is quiet until {until}"
                )
            }
            Self::AtLimit { mean } => {
                write!(f, "a mean of {mean:.2} crosses the threshold, but the size is at its limit")
            }
            Self::Refused { wanted } => write!(f, "{wanted} exceeds the limits"),
            Self::Outvoted => f.write_str("another policy of the service takes precedence"),
            Self::TargetShared { with } => write!(f, "{with} sizes the same target"),
        }
    }
}

#[cfg(test)]
mod tests;
