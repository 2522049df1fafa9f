//! How is it told what an autoscaler did? By its status, by events, and in the log.

use api::autoscaling::{FleetAutoscaler, FleetAutoscalerStatus};
use cluster::Error;
use decide::Reason as _;
use decide::fleet::Decision;
use serde_json::json;

use super::Autoscalers;
use super::act::Outcome;
use super::observe::Observation;
use super::report::{self, Note};
use cluster::write::{PatchTarget, patch};

/// Who says so.
const SOURCE: &str = "fleetautoscaler-controller";

/// Tells what was decided and done.
pub(super) async fn all(
    autoscaler: &FleetAutoscaler,
    seen: &Observation,
    decision: &Decision,
    outcome: &Outcome,
    all: &Autoscalers,
) -> Result<(), Error> {
    let name = &*seen.fleet.name;
    match (outcome, &decision.outcome) {
        (Outcome::Resized, Ok(size)) => {
            let text = report::sentence(name, decision.from, size.to, &decision.reasons);
            let reason = decision.reasons.last().map(|reason| reason.code());
            tracing::info!(fleet = name, from = decision.from, to = size.to, reason, "resizing");
            say(autoscaler, Note::normal("AutoScalingFleet", text), all);
        }
        (Outcome::Failed(error), Ok(size)) => {
            let (from, to, why) = (decision.from, size.to, error.message());
            let text = format!("Error on scaling fleet {name} from {from} to {to}. Error: {why}");
            tracing::warn!(fleet = name, text, "will retry");
            say(autoscaler, Note::warning("AutoScalingFleetError", text), all);
        }
        // The fleet is another one by now; the next look has more to say.
        (Outcome::Overtaken, _) => return Ok(()),
        (Outcome::Kept | Outcome::Resized | Outcome::Failed(_), _) => {}
    }
    let (now, current) = (all.cx.clock.now(), seen.fleet.status.replicas);
    let Some(is_resized) = all.tells(autoscaler, matches!(outcome, Outcome::Resized)) else {
        return Ok(());
    };
    let status = report::status(autoscaler, current, decision, is_resized, now);
    report::notes(autoscaler, &status, decision).into_iter().for_each(|n| say(autoscaler, n, all));
    write(autoscaler, &status, all).await
}

/// Tells that there is no such fleet.
pub(super) async fn missing(autoscaler: &FleetAutoscaler, all: &Autoscalers) -> Result<(), Error> {
    let text = format!("the fleet `{}` does not exist", autoscaler.spec.fleet_name);
    let status = report::unable(autoscaler, "FleetNotFound", &text, all.cx.clock.now());
    if report::changed(&autoscaler.status.clone().unwrap_or_default(), &status) {
        let text = format!("could not fetch fleet: {}", autoscaler.spec.fleet_name);
        say(autoscaler, Note::warning("FailedGetFleet", text), all);
    }
    write(autoscaler, &status, all).await
}

fn say(autoscaler: &FleetAutoscaler, note: Note, all: &Autoscalers) {
    all.cx.events.record(autoscaler, SOURCE, note.kind, note.reason, note.text);
}

/// Writes the status if it differs. That a newer autoscaler is there is no failure: it is looked at next.
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
