//! Records the decisions of an autoscaler in the journal.

use std::sync::Arc;

use api::agones::Fleet;
use api::autoscaling::FleetAutoscaler;
use api::plimsoll::DecisionOutcome;
use cluster::{DecisionRecord, Key, Signature};
use decide::Reason as _;
use decide::fleet::{FleetDecision, Replies};
use jiff::Timestamp;
use serde_json::Value;

use super::act::ResizeOutcome;
use super::describe::describe;
use super::observe::AutoscalerObservation;
use super::{Autoscalers, observe};
use crate::description::ObjectName;
use crate::inputs;

/// One evaluation of an autoscaler.
pub(super) struct Evaluation<'a> {
    pub(super) autoscaler: &'a Arc<FleetAutoscaler>,
    pub(super) fleet: &'a Arc<Fleet>,
    pub(super) observed: &'a AutoscalerObservation,
    pub(super) replies: &'a Replies,
    pub(super) decision: &'a FleetDecision,
    pub(super) outcome: &'a ResizeOutcome,
    pub(super) at: Timestamp,
}

/// Records an evaluation. One that repeats the last is only counted.
pub(super) fn record(evaluation: &Evaluation<'_>, all: &Autoscalers) {
    let Evaluation { autoscaler, decision, at, .. } = evaluation;
    let (outcome, message) = match evaluation.outcome {
        ResizeOutcome::Kept => (DecisionOutcome::Held, String::new()),
        ResizeOutcome::Resized => (DecisionOutcome::Applied, String::new()),
        ResizeOutcome::Overtaken => (DecisionOutcome::Overtaken, String::new()),
        ResizeOutcome::Failed(error) => (DecisionOutcome::Failed, error.message()),
    };
    let to = decision.outcome.as_ref().ok().map(|size| i64::from(size.to));
    let error = decision.outcome.as_ref().err().map(|refusal| refusal.code());
    let codes = decision.reasons.iter().map(|reason| reason.code());
    let signature = Signature::new(to, error, codes, outcome);
    all.cx.decisions.record(&***autoscaler, signature, *at, || {
        let target = ObjectName::new(&**evaluation.fleet);
        let subject = ObjectName::new(&***autoscaler);
        let decision = describe(&subject, &target, decision).json;
        DecisionRecord { decision, inputs: inputs_of(evaluation, all), outcome, message }
    });
}

/// Captures what was read. It is written as JSON when it is stored, in the background.
fn inputs_of(
    evaluation: &Evaluation<'_>,
    all: &Autoscalers,
) -> Box<dyn FnOnce() -> Vec<Value> + Send> {
    let autoscaler = Arc::clone(evaluation.autoscaler);
    let fleet = Arc::clone(evaluation.fleet);
    let status = evaluation.observed.fleet.status.clone();
    let servers = evaluation.observed.servers.clone();
    let nodes = Arc::clone(&evaluation.observed.nodes);
    let replies = evaluation.replies.clone();
    let key = Key::from_meta(&autoscaler.metadata);
    let history = all.states.with(&key, |state| state.history.clone());
    let namespace = observe::target(&autoscaler).namespace;
    let other_owner =
        evaluation.observed.other_owner.as_ref().map(|name| Key::new(namespace, Arc::clone(name)));
    let other_owner = other_owner.and_then(|key| all.cx.caches.autoscalers.get(&key));
    Box::new(move || {
        let name = fleet.metadata.name.as_deref().unwrap_or_default();
        let mut objects =
            vec![inputs::autoscaler(&autoscaler, &history), inputs::fleet(&fleet, Some(&status))];
        objects.extend(
            other_owner.map(|other_owner| inputs::autoscaler(&other_owner, &Default::default())),
        );
        objects.extend(replies.iter().filter_map(|(id, reply)| inputs::reply(id, reply, &fleet)));
        objects.extend(servers.iter().map(|server| inputs::game_server(server, name)));
        objects.extend(inputs::nodes(&servers, &nodes));
        objects
    })
}
