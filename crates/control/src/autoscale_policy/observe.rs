//! Observes what the policies of a service decide by: each policy, and the metric that it watches.
//!
//! The policies of one service are judged together, because the action of one keeps the others quiet.

use std::borrow::Borrow;

use api::plimsoll::{AutoScalePolicy, ContainerStats, MetricSeries};
use decide::checks::Reading;
use decide::rules::service::{Threshold, Verdict, judge};
use jiff::Timestamp;

use crate::lister::{Lister, Unreadable};
use crate::metrics::{Answer, Recorded};

/// Everything that a decision about a service depends on.
pub struct Observation {
    /// The size that the service was asked to have.
    pub count: i64,
    /// The policies, in the order given, with the answer of their metric.
    pub policies: Vec<(Threshold, Answer)>,
}

/// Observes all policies of one service.
pub fn observe<P, W>(
    policies: &[P],
    count: i64,
    recorded: &Recorded<'_, W>,
) -> Result<Observation, Unreadable>
where
    P: Borrow<AutoScalePolicy>,
    W: Lister<MetricSeries> + Lister<ContainerStats>,
{
    let one = |policy: &P| {
        let policy = policy.borrow();
        let threshold = policy.spec.decidable();
        let threshold = threshold.map_err(|problems| Unreadable::new(policy, problems))?;
        Ok((threshold, recorded.service(&policy.spec)?))
    };
    Ok(Observation { count, policies: policies.iter().map(one).collect::<Result<_, _>>()? })
}

impl Observation {
    /// Judges the policies, and returns a verdict on each.
    pub fn decide(&self, now: Timestamp) -> Vec<Verdict> {
        let policies: Vec<(Threshold, Reading<'_>)> = self
            .policies
            .iter()
            .map(|(threshold, answer)| (*threshold, answer.reading()))
            .collect();
        judge(&policies, self.count, now)
    }
}
