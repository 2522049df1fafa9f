//! How large a fleet should be.

use std::sync::Arc;

use api::agones::Fleet;
use api::autoscaling::{FleetAutoscaleReview, FleetAutoscaler};
use control::fleet_autoscaler::observe::{self, Observation};
use control::{Lister, Unreadable};
use decide::Reason;
use decide::fleet::{self, Autoscaler, Replies, Reply, Sizing};
use serde_json::json;

use super::Servers;
use crate::commands::evaluate::decision::Decision;
use crate::commands::evaluate::world::{Object, World};

/// Decides the size of an autoscaler's fleet.
pub(super) fn decide(
    object: &Object,
    world: &World,
    servers: &Servers,
) -> Result<Option<Decision>, Unreadable> {
    let autoscaler: FleetAutoscaler = object.read()?;
    let wanted = observe::wanted(&autoscaler).map_err(|problems| object.unreadable(problems))?;
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let name = &autoscaler.spec.fleet_name;
    let Some(target) = world.find("Fleet", namespace, name) else {
        return Ok(missing(object, world, &format!("Fleet {namespace}/{name}")));
    };
    let seen = Observation {
        fleet: target.read::<Fleet>()?.view(),
        servers: servers.of_fleet(namespace, name),
        nodes: Arc::clone(&servers.nodes),
        rival: observe::rival(&object.name, &autoscalers(world, namespace, name)?),
    };
    let reply = reply(world, object, &seen.fleet)?;
    let mut replies = Replies::new();
    let decision = loop {
        match seen.size(&wanted.policy, &replies, world.now) {
            Sizing::Decided(decision) => break decision,
            Sizing::Ask(id) => drop(replies.insert(id, reply.clone())),
        }
    };
    Ok(Some(describe(object, target, decision)))
}

/// Answers where the fleet is missing: among other fleets that is what a cluster would say too; without any fleet the files
/// are not meant as a world.
fn missing(object: &Object, world: &World, fleet: &str) -> Option<Decision> {
    world.only_validated(object, &format!("{fleet} is not in the files"));
    world.of("Fleet").next()?;
    let message = format!("{fleet} does not exist");
    let decision = Decision::about(object)
        .line(format!("FleetNotFound: {message}"))
        .with("error", json!({"code": "FleetNotFound", "message": message}))
        .with("limited", false)
        .with("appliedPolicy", "");
    Some(decision.with("reasons", json!([])).with("votes", json!([])))
}

/// Lists the autoscalers that name a fleet.
fn autoscalers(world: &World, namespace: &str, fleet: &str) -> Result<Vec<Autoscaler>, Unreadable> {
    let mut found = Vec::new();
    for autoscaler in Lister::<FleetAutoscaler>::list(world, Some(namespace)) {
        let autoscaler = autoscaler?;
        found.extend((autoscaler.spec.fleet_name == fleet).then(|| autoscaler.view()));
    }
    Ok(found)
}

/// Finds what a webhook or a WebAssembly module answered: the review that names the autoscaler or its fleet, or that names
/// none.
fn reply(world: &World, autoscaler: &Object, fleet: &fleet::Fleet) -> Result<Reply, Unreadable> {
    let about = |review: &&(&Object, FleetAutoscaleReview)| {
        let (object, review) = review;
        let request = review.request.clone().unwrap_or_default();
        let is = |written: &str, wanted: &str| written.is_empty() || written == wanted;
        is(&object.name, &autoscaler.name)
            && is(&request.name, &fleet.name)
            && is(&request.namespace, &fleet.namespace)
    };
    let is_named = |(object, review): &(&Object, FleetAutoscaleReview)| {
        !object.name.is_empty() || review.request.as_ref().is_some_and(|r| !r.name.is_empty())
    };
    let read = |object| {
        let review = FleetAutoscaleReview::read(&Object::value(object));
        Ok((object, review.map_err(|problems| object.unreadable(problems))?))
    };
    let all: Vec<_> = world.of("FleetAutoscaleReview").map(read).collect::<Result<_, _>>()?;
    let mut found: Vec<_> = all.iter().filter(about).collect();
    found.sort_by_key(|review| !is_named(review));
    Ok(found.first().map_or(Reply::None, |(_, review)| review.reply()))
}

fn describe(subject: &Object, target: &Object, decided: fleet::Decision) -> Decision {
    let from = decided.from;
    let decision = Decision::about(subject).with("target", target.reference()).with("from", from);
    let decision = match &decided.outcome {
        Ok(size) => {
            let limited = if size.limited { ", limited" } else { "" };
            let change = if size.to == from {
                format!("{target}: stays at {from}, by {}{limited}", size.applied)
            } else {
                format!("{target}: {from} -> {}, by {}{limited}", size.to, size.applied)
            };
            decision
                .line(change)
                .with("to", size.to)
                .with("limited", size.limited)
                .with("appliedPolicy", size.applied.to_string())
        }
        Err(refusal) => decision
            .line(format!("{target}: stays at {from}, without an answer"))
            .line(format!("{}: {refusal}", refusal.code()))
            .with("error", json!({"code": refusal.code(), "message": refusal.to_string()}))
            .with("limited", false)
            .with("appliedPolicy", ""),
    };
    decision.because(&decided.reasons).with("votes", json!([]))
}
