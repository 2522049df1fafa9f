//! Observes what a scaling policy decides by: the size of its target, and an answer to each of its checks and rules.

use api::plimsoll::scaling_policy::ScalingPolicySpec;
use api::plimsoll::{ContainerStats, MetricSeries, ScalingPolicy};
use decide::checks::{Decision, LastAction, Past, Policy, Reading, Seen, decide};
use jiff::Timestamp;

use crate::lister::{Lister, Unreadable};
use crate::metrics::{Answer, Recorded};

/// Everything that a decision about a policy's target depends on.
pub struct Observation {
    /// The policy as decisions read it.
    pub policy: Policy,
    /// The size that the target was asked to have.
    pub count: i64,
    /// An answer to each check, in the order of the spec.
    pub checks: Vec<Answer>,
    /// An answer to each rule, in the order of the spec.
    pub rules: Vec<Answer>,
    last_action: Option<LastAction>,
    original_count: Option<i64>,
    history: Vec<Past>,
}

/// The answers to the checks and rules of a policy, each in the order of its spec.
pub struct Answers {
    /// To the checks.
    pub checks: Vec<Answer>,
    /// To the rules.
    pub rules: Vec<Answer>,
}

impl Answers {
    /// Answers every check and rule with recorded series.
    pub fn recorded<W>(
        spec: &ScalingPolicySpec,
        recorded: &Recorded<'_, W>,
    ) -> Result<Self, Unreadable>
    where
        W: Lister<MetricSeries> + Lister<ContainerStats>,
    {
        let checks = spec.checks.iter().map(|check| recorded.check(check));
        let rules = spec.rules.iter().map(|rule| recorded.rule(rule, spec));
        Ok(Self {
            checks: checks.collect::<Result<_, _>>()?,
            rules: rules.collect::<Result<_, _>>()?,
        })
    }
}

/// Puts together what a decision about a policy's target depends on.
pub fn observe(
    policy: &ScalingPolicy,
    count: i64,
    answers: Answers,
) -> Result<Observation, Unreadable> {
    let read = policy.spec.decidable();
    let status = policy.status.clone().unwrap_or_default();
    Ok(Observation {
        policy: read.map_err(|problems| Unreadable::new(policy, problems))?,
        count,
        checks: answers.checks,
        rules: answers.rules,
        last_action: status.last_action.as_ref().map(LastAction::from),
        original_count: status.original_count,
        history: status.history.iter().map(Past::from).collect(),
    })
}

impl Observation {
    /// Decides the size of the target.
    pub fn decide(&self, now: Timestamp) -> Decision {
        let checks: Vec<Reading<'_>> = self.checks.iter().map(Answer::reading).collect();
        let rules: Vec<Reading<'_>> = self.rules.iter().map(Answer::reading).collect();
        let seen = Seen {
            count: self.count,
            checks: &checks,
            rules: &rules,
            last_action: self.last_action,
            original_count: self.original_count,
            history: &self.history,
        };
        decide(&self.policy, &seen, now)
    }
}
