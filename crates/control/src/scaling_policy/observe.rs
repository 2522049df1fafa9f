//! Observes what a scaling policy decides by: the size of its target, and an answer to each of its checks and rules.

use api::plimsoll::scaling_policy::{ScalingPolicySpec, ScalingPolicyStatus};
use api::plimsoll::{ContainerStats, MetricSeries, ScalingPolicy};
use decide::checks::{
    LastAction, PastDecision, Policy, Reading, ScalingDecision, TargetObservation, decide,
};
use jiff::Timestamp;

use crate::lister::{Lister, Unreadable};
use crate::metrics::{Answer, Recorded};

/// Everything that a decision about a policy's target depends on.
pub struct Observation {
    /// The policy as decisions read it.
    pub policy: Policy,
    /// The requested size of the target.
    pub count: i64,
    /// An answer to each check, in the order of the spec.
    pub checks: Vec<Answer>,
    /// An answer to each rule, in the order of the spec.
    pub rules: Vec<Answer>,
    /// The other autoscaler that sizes the target, if any.
    pub shared_with: Option<String>,
    last_action: Option<LastAction>,
    original_count: Option<i64>,
    history: Vec<PastDecision>,
}

/// The answers to the checks and rules of a policy, each in the order of its spec.
pub struct Answers {
    /// The answers to the checks.
    pub checks: Vec<Answer>,
    /// The answers to the rules.
    pub rules: Vec<Answer>,
}

impl Answers {
    /// Returns empty answers for all checks and rules, where no source was queried.
    pub(crate) fn none(spec: &ScalingPolicySpec) -> Self {
        let nothing = |len: usize| vec![Answer::NoData; len];
        Self { checks: nothing(spec.checks.len()), rules: nothing(spec.rules.len()) }
    }

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

/// Collects what a decision about a policy's target depends on.
pub fn observe(
    policy: &ScalingPolicy,
    count: i64,
    answers: Answers,
) -> Result<Observation, Unreadable> {
    let read = policy.spec.decidable();
    let read = read.map_err(|problems| Unreadable::new(policy, problems))?;
    Ok(Observation::new(read, policy.status.as_ref(), count, answers))
}

impl Observation {
    /// Collects what a decision depends on: a policy that was read, its status, the size of its target, and the answers.
    pub fn new(
        policy: Policy,
        status: Option<&ScalingPolicyStatus>,
        count: i64,
        answers: Answers,
    ) -> Self {
        let last_action = status.and_then(|status| status.last_action.as_ref());
        let history = status.map(|status| status.history.as_slice()).unwrap_or_default();
        Self {
            policy,
            count,
            checks: answers.checks,
            rules: answers.rules,
            shared_with: None,
            last_action: last_action.map(LastAction::from),
            original_count: status.and_then(|status| status.original_count),
            history: history.iter().map(PastDecision::from).collect(),
        }
    }

    /// Decides the size of the target.
    pub fn decide(&self, now: Timestamp) -> ScalingDecision {
        let checks: Vec<Reading<'_>> = self.checks.iter().map(Answer::reading).collect();
        let rules: Vec<Reading<'_>> = self.rules.iter().map(Answer::reading).collect();
        let observed = TargetObservation {
            count: self.count,
            checks: &checks,
            rules: &rules,
            last_action: self.last_action,
            original_count: self.original_count,
            history: &self.history,
            shared_with: self.shared_with.as_deref(),
        };
        decide(&self.policy, &observed, now)
    }
}
