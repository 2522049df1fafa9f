//! Does a Rancher policy fire: has a service's load crossed its threshold for a minute, and is it time?

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::Reason;
use crate::checks::{Direction, Limits, Reading};

/// How far back a policy looks.
const MINUTE: SignedDuration = SignedDuration::from_secs(60);

/// One policy of a service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// Above it for a policy that scales up, below it for one that scales down; never at it.
    pub threshold: f64,
    /// The sizes it may lead to.
    pub limits: Limits,
    /// Up or down, and by how many.
    pub action: Move,
    /// How long after an action it stays quiet.
    pub quiet_for: SignedDuration,
    /// When it was last carried out.
    pub last_executed_at: Option<Timestamp>,
    /// Whether a step beyond the limits is refused instead of cut.
    pub is_strict: bool,
}

/// Up or down, and by how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// So many more.
    Up(i64),
    /// So many fewer.
    Down(i64),
}

/// What is to be done about a policy now.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Whether an action that changes the size is due now.
    pub fires: bool,
    /// The size afterwards.
    pub to: i64,
    /// Whether the limits cut the step.
    pub limited: bool,
    /// Until when the policy is quiet, with that moment.
    pub quiet_until: Option<Timestamp>,
    /// Why.
    pub why: Fire,
}

/// Why a policy fires or does not.
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
    /// The source failed.
    Failed { words: String },
    /// The last action was a short while ago.
    Quiet { mean: f64, until: Timestamp },
    /// The size is at its limit already.
    AtLimit { mean: f64 },
    /// The step goes beyond the limits, and the policy does not want it cut.
    Refused { wanted: i64 },
    /// Another policy of the same service fires too, and goes first.
    Outvoted,
}

/// Judges all policies of one service together. Up beats down, then the larger size wins, then the first; the others
/// wait for their next turn.
pub fn judge(policies: &[(Threshold, Reading<'_>)], count: i64, now: Timestamp) -> Vec<Verdict> {
    let newest_up = policies
        .iter()
        .filter(|(policy, _)| matches!(policy.action, Move::Up(_)))
        .filter_map(|(policy, _)| policy.last_executed_at)
        .max();
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
    // Limits cut a step; they never turn it round.
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

/// A policy is quiet after its own action, and one that scales down also after any action of its service that scaled up.
fn quiet_until(policy: &Threshold, newest_up: Option<Timestamp>) -> Option<Timestamp> {
    let since = match policy.action {
        Move::Up(_) => policy.last_executed_at,
        Move::Down(_) => policy.last_executed_at.max(newest_up),
    };
    since.map(|at| at.checked_add(policy.quiet_for).unwrap_or(Timestamp::MAX))
}

/// Gives the mean of the last minute, if there are points for all of it.
fn mean(reading: Reading<'_>, now: Timestamp) -> Result<f64, Fire> {
    let series = match reading {
        Reading::Series(series) => series,
        Reading::Missing => return Err(Fire::NoData),
        Reading::Failed(words) => return Err(Fire::Failed { words: words.to_owned() }),
    };
    let start = now.checked_sub(MINUTE).unwrap_or(Timestamp::MIN);
    let just_after = start.checked_add(SignedDuration::from_nanos(1)).unwrap_or(start);
    let values = series.between(just_after, now);
    let is_covered =
        |first: Timestamp| first <= start.checked_add(series.step()).unwrap_or(Timestamp::MAX);
    // A minute of which more than half is missing says too little, wherever the holes are.
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
            Self::Failed { .. } => "Failed",
            Self::Quiet { .. } => "Quiet",
            Self::AtLimit { .. } => "AtLimit",
            Self::Refused { .. } => "Refused",
            Self::Outvoted => "Outvoted",
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
            Self::Failed { words } => write!(f, "the source failed: {words}"),
            Self::Quiet { mean, until } => {
                write!(
                    f,
                    "a mean of {mean:.2} crosses the threshold, but it is quiet until {until}"
                )
            }
            Self::AtLimit { mean } => {
                write!(f, "a mean of {mean:.2} crosses the threshold, but the size is at its limit")
            }
            Self::Refused { wanted } => write!(f, "{wanted} is beyond the limits"),
            Self::Outvoted => f.write_str("another policy of the service fires and goes first"),
        }
    }
}

#[cfg(test)]
mod tests;
