//! Records the evaluations of an autoscaler in its status, in events and in the log.

use api::autoscaling::{FleetAutoscaler, FleetAutoscalerStatus};
use cluster::Error;
use decide::Reason as _;
use decide::fleet::FleetDecision;
use serde_json::json;

use super::Autoscalers;
use super::act::ResizeOutcome;
use super::observe::AutoscalerObservation;
use super::report::{self, AutoscalerEvent};
use cluster::write::{PatchTarget, patch};

/// The component that the events name.
const SOURCE: &str = "fleetautoscaler-controller";

/// Records a decision and its outcome.
pub(super) async fn evaluation(
    autoscaler: &FleetAutoscaler,
    observed: &AutoscalerObservation,
    decision: &FleetDecision,
    outcome: &ResizeOutcome,
    all: &Autoscalers,
) -> Result<(), Error> {
    let name = &*observed.fleet.name;
    match (outcome, &decision.outcome) {
        (ResizeOutcome::Resized, Ok(size)) => {
            let text = report::sentence(name, decision.from, size.to, &decision.reasons);
            let reason = decision.reasons.last().map(|reason| reason.code());
            tracing::info!(fleet = name, from = decision.from, to = size.to, reason, "resizing");
            record_event(autoscaler, AutoscalerEvent::normal("AutoScalingFleet", text), all);
        }
        (ResizeOutcome::Failed(error), Ok(size)) => {
            let (from, to, why) = (decision.from, size.to, error.message());
            let text = format!("Error on scaling fleet {name} from {from} to {to}. Error: {why}");
            tracing::warn!(fleet = name, text, "could not resize the fleet; retrying");
            record_event(autoscaler, AutoscalerEvent::warning("AutoScalingFleetError", text), all);
        }
        // The fleet has changed; the next evaluation records more.
        (ResizeOutcome::Overtaken, _) => return Ok(()),
        (ResizeOutcome::Kept | ResizeOutcome::Resized | ResizeOutcome::Failed(_), _) => {}
    }
    let (now, current) = (all.cx.clock.now(), observed.fleet.status.replicas);
    let Some(is_resized) = all.status_due(autoscaler, matches!(outcome, ResizeOutcome::Resized))
    else {
        return Ok(());
    };
    let status = report::status(autoscaler, current, decision, is_resized, now);
    report::events(autoscaler, &status, decision)
        .into_iter()
        .for_each(|n| record_event(autoscaler, n, all));
    write(autoscaler, &status, all).await
}

/// Records that the fleet does not exist.
pub(super) async fn missing(autoscaler: &FleetAutoscaler, all: &Autoscalers) -> Result<(), Error> {
    let text = format!("the fleet `{}` does not exist", autoscaler.spec.fleet_name);
    let status = report::unable(autoscaler, "FleetNotFound", &text, all.cx.clock.now());
    if report::changed(&autoscaler.status.clone().unwrap_or_default(), &status) {
        let text = format!("could not fetch fleet: {}", autoscaler.spec.fleet_name);
        record_event(autoscaler, AutoscalerEvent::warning("FailedGetFleet", text), all);
    }
    write(autoscaler, &status, all).await
}

fn record_event(autoscaler: &FleetAutoscaler, event: AutoscalerEvent, all: &Autoscalers) {
    all.cx.events.record(autoscaler, SOURCE, event.kind, event.reason, event.text);
}

/// Writes the status if it differs. A conflict is no failure: the newer autoscaler is evaluated next.
async fn write(
    autoscaler: &FleetAutoscaler,
    status: &FleetAutoscalerStatus,
    all: &Autoscalers,
) -> Result<(), Error> {
    if autoscaler.status.as_ref() == Some(status) {
        return Ok(());
    }
    let change = json!({"status": status});
    let what = "write the autoscaler's status";
    match patch(
        &all.cx.client,
        &all.cx.caches.autoscalers,
        autoscaler,
        PatchTarget::Status,
        change,
        what,
    )
    .await
    {
        Err(error) if error.is_conflict() => Ok(()),
        done => done,
    }
}
