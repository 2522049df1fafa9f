//! Records the evaluations of a policy in the journal.

use std::sync::Arc;

use api::plimsoll::scaling_policy::HistoryStatus;
use api::plimsoll::{DecisionOutcome, ScalingPolicy};
use cluster::{DecisionRecord, Signature};
use decide::Reason as _;
use decide::checks::{PastDecision, ScalingDecision, remember};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::describe::describe;
use super::observe::Observation;
use super::{Policies, target};
use crate::description::ObjectName;
use crate::metrics::RecordedSeries;
use crate::targets::Outcome;

/// One evaluation of a policy.
pub(super) struct Evaluation {
    pub(super) policy: Arc<ScalingPolicy>,
    pub(super) observation: Observation,
    pub(super) decision: ScalingDecision,
    pub(super) at: Timestamp,
}

impl Evaluation {
    /// Returns the history with this evaluation, after which the size is `to`; none where no later decision reads it.
    pub(super) fn history(&self, to: i64) -> Vec<HistoryStatus> {
        let Some(behavior) = &self.observation.policy.behavior else { return Vec::new() };
        let status = self.policy.status.as_ref();
        let past = status.map(|status| status.history.as_slice()).unwrap_or_default();
        let past: Vec<PastDecision> = past.iter().map(PastDecision::from).collect();
        let ScalingDecision { from, wanted, .. } = self.decision;
        let kept = remember(&past, PastDecision { at: self.at, wanted, from, to }, behavior);
        let write = |past: PastDecision| HistoryStatus {
            at: Time(past.at),
            wanted: past.wanted,
            from: past.from,
            to: past.to,
        };
        kept.into_iter().map(write).collect()
    }
}

/// Records an evaluation. One that repeats the last is only counted.
pub(super) fn record(evaluation: &Evaluation, outcome: &Outcome, all: &Policies) {
    let Evaluation { policy, decision, at, .. } = evaluation;
    let (outcome, message) = match outcome {
        Outcome::Held => (DecisionOutcome::Held, String::new()),
        Outcome::DryRun => (DecisionOutcome::DryRun, String::new()),
        Outcome::Applied => (DecisionOutcome::Applied, String::new()),
        Outcome::Conflict(why) | Outcome::SameSize(why) => {
            (DecisionOutcome::Overtaken, why.clone())
        }
        Outcome::Failed(why) | Outcome::Unknown(why) => (DecisionOutcome::Failed, why.clone()),
    };
    let codes = decision.reasons.iter().map(|reason| reason.code());
    let signature = Signature::new(Some(decision.to), None, codes, outcome);
    all.cx.decisions.record(&**policy, signature, *at, || {
        let namespace = policy.metadata.namespace.as_deref().unwrap_or_default();
        let target = target::reference(&policy.spec.target, namespace);
        let described = describe(&ObjectName::new(&**policy), &policy.spec, decision, target);
        DecisionRecord { decision: described.json, inputs: inputs(evaluation), outcome, message }
    });
}

/// Captures what was read. It is written as JSON when it is stored, in the background.
///
/// The size of the target and who else sizes it are in the decision, which has them for targets of every kind.
fn inputs(evaluation: &Evaluation) -> Box<dyn FnOnce() -> Vec<Value> + Send> {
    let policy = Arc::clone(&evaluation.policy);
    let checks = evaluation.observation.checks.clone();
    let rules = evaluation.observation.rules.clone();
    Box::new(move || {
        let mut series = RecordedSeries::default();
        for (check, answer) in policy.spec.checks.iter().zip(&checks) {
            let mut question = json!({"query": check.query});
            if let Some(source) = &check.source {
                question["source"] = json!(source);
            }
            // Without a query a check needs no numbers.
            if !check.query.is_empty() {
                series.add(question, &check.name, answer);
            }
        }
        for (rule, answer) in policy.spec.rules.iter().zip(&rules) {
            series.add(json!({"metric": rule.metric.name()}), "", answer);
        }
        let mut objects = vec![policy_input(&policy)];
        objects.extend(series.objects(policy.metadata.namespace.as_deref()));
        objects
    })
}

/// Returns a policy without what no decision reads.
fn policy_input(policy: &ScalingPolicy) -> Value {
    let mut value = json!(policy);
    let meta = &policy.metadata;
    value["metadata"] = json!({"name": meta.name, "namespace": meta.namespace, "uid": meta.uid});
    if let Some(status) = value["status"].as_object_mut() {
        status.retain(|field, _| ["lastAction", "originalCount", "history"].contains(&&**field));
    }
    value
}
