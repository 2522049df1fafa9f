//! Records the verdicts on the policies of a service in the journal.

use std::sync::Arc;

use api::plimsoll::{AutoScalePolicy, DecisionOutcome};
use cluster::{DecisionRecord, Signature};
use decide::Reason as _;
use serde_json::{Value, json};

use super::describe::describe;
use super::{Evaluation, Services};
use crate::description::ObjectName;
use crate::metrics::RecordedSeries;
use crate::targets::Outcome;

/// Records the verdict on each policy. One that repeats the last is only counted.
pub(super) fn record(evaluation: &Evaluation, outcome: &Outcome, all: &Services) {
    let firing = evaluation.firing();
    for (place, (policy, verdict)) in
        evaluation.policies.iter().zip(&evaluation.verdicts).enumerate()
    {
        let (outcome, message) = match outcome {
            _ if firing != Some(place) => (DecisionOutcome::Held, String::new()),
            Outcome::Held | Outcome::DryRun => (DecisionOutcome::Held, String::new()),
            Outcome::Applied => (DecisionOutcome::Applied, String::new()),
            Outcome::Conflict(why) | Outcome::SameSize(why) => {
                (DecisionOutcome::Overtaken, why.clone())
            }
            Outcome::Failed(why) | Outcome::Unknown(why) => (DecisionOutcome::Failed, why.clone()),
        };
        let codes = [verdict.why.code()];
        let signature = Signature::new(Some(verdict.to), None, codes, outcome);
        all.cx.decisions.record(&**policy, signature, evaluation.at, || {
            let (subject, service) = (ObjectName::new(&**policy), &policy.spec.service_id);
            let decision = describe(&subject, service, evaluation.count, verdict).json;
            DecisionRecord { decision, inputs: inputs(evaluation), outcome, message }
        });
    }
}

/// Captures what was read. It is written as JSON when it is stored, in the background.
fn inputs(evaluation: &Evaluation) -> Box<dyn FnOnce() -> Vec<Value> + Send> {
    let policies: Vec<Arc<AutoScalePolicy>> = evaluation.policies.clone();
    let answers = evaluation.answers.clone();
    Box::new(move || {
        let mut objects: Vec<Value> = policies.iter().map(|policy| reduced(policy)).collect();
        let mut series = RecordedSeries::default();
        for (policy, answer) in policies.iter().zip(&answers) {
            let (spec, name) = (&policy.spec, policy.metadata.name.as_deref());
            let question = json!({"serviceId": spec.service_id, "metric": spec.metric.name()});
            series.add(question, name.unwrap_or_default(), answer);
        }
        let namespace = policies.first().and_then(|policy| policy.metadata.namespace.as_deref());
        objects.extend(series.objects(namespace));
        objects
    })
}

/// Returns a policy without what no decision reads, and without the address that carries actions out.
fn reduced(policy: &AutoScalePolicy) -> Value {
    let mut value = json!(policy);
    let meta = &policy.metadata;
    value["metadata"] = json!({"name": meta.name, "namespace": meta.namespace, "uid": meta.uid});
    if let Some(spec) = value["spec"].as_object_mut() {
        spec.remove("webhook");
    }
    if let Some(status) = value["status"].as_object_mut() {
        status.retain(|field, _| field == "lastExecuted");
    }
    value
}
