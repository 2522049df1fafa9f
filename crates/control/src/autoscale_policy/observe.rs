//! Observes what the policies of a service decide by: each policy, and the metric that it watches.
//!
//! The policies of one service are evaluated together, because an action of one starts the quiet period of the others.

use std::borrow::Borrow;

use api::plimsoll::{AutoScalePolicy, ContainerStats, MetricSeries};
use decide::checks::Reading;
use decide::rules::service::{Threshold, Verdict, hold_shared, judge};
use jiff::Timestamp;
use kube::ResourceExt as _;

use crate::lister::{Lister, Unreadable};
use crate::metrics::{Answer, Recorded};

/// Everything that a decision about a service depends on.
pub struct Observation {
    /// The requested size of the service.
    pub count: i64,
    /// The policies, in the order given, with the answer of their metric.
    pub policies: Vec<(Threshold, Answer)>,
    /// The other autoscaler that sizes the service, if any.
    pub shared_with: Option<String>,
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
    let answer = |policy: &P| {
        let policy = policy.borrow();
        recorded.service(&policy.name_any(), &policy.spec)
    };
    let answers = policies.iter().map(answer).collect::<Result<_, _>>()?;
    let thresholds = policies.iter().map(|policy| {
        let policy = policy.borrow();
        policy.decidable().map_err(|problems| Unreadable::new(policy, problems))
    });
    Ok(Observation::new(thresholds.collect::<Result<_, _>>()?, count, answers))
}

impl Observation {
    /// Collects what a decision about a service depends on: its policies, and the answer to each.
    pub fn new(policies: Vec<Threshold>, count: i64, answers: Vec<Answer>) -> Self {
        Self { count, policies: policies.into_iter().zip(answers).collect(), shared_with: None }
    }

    /// Evaluates the policies, and returns a verdict on each.
    pub fn decide(&self, now: Timestamp) -> Vec<Verdict> {
        let policies: Vec<(Threshold, Reading<'_>)> = self
            .policies
            .iter()
            .map(|(threshold, answer)| (*threshold, answer.reading()))
            .collect();
        match &self.shared_with {
            Some(with) => hold_shared(&policies, self.count, with),
            None => judge(&policies, self.count, now),
        }
    }
}
