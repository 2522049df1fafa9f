//! How large a fleet should be.

use std::sync::Arc;

use api::agones::Fleet;
use api::autoscaling::{FleetAutoscaleReview, FleetAutoscaler};
use decide::Reason;
use decide::fleet::{self, Autoscaler, Observation, Reply};
use serde_json::json;

use super::Servers;
use crate::commands::evaluate::decision::Decision;
use crate::commands::evaluate::world::{Object, World};

/// Decides the size of an autoscaler's fleet.
pub(super) fn decide(object: &Object, world: &World, servers: &Servers) -> Option<Decision> {
    let autoscaler: FleetAutoscaler = object.read()?;
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let name = &autoscaler.spec.fleet_name;
    let Some(target) = world.get("Fleet", namespace, name) else {
        return missing(object, world, &format!("Fleet {namespace}/{name}"));
    };
    let fleet = target.read::<Fleet>()?.view();
    let owner = owner(world, namespace, name);
    let policy = autoscaler.spec.policy.view(&reply(world, object, &fleet))?;
    let seen = Observation {
        fleet: &fleet,
        servers: &servers.of_fleet(namespace, name),
        nodes: &servers.nodes,
        rival: owner.as_ref().filter(|owner| ***owner != *object.name),
    };
    Some(describe(object, target, fleet::size(&policy, seen, world.now)))
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

/// Finds the autoscaler that moves a fleet, among all that name it.
fn owner(world: &World, namespace: &str, fleet: &str) -> Option<Arc<str>> {
    let all: Vec<Autoscaler> = world
        .of("FleetAutoscaler")
        .filter(|o| o.namespace.as_deref() == Some(namespace))
        .filter_map(Object::read::<FleetAutoscaler>)
        .filter(|a| a.spec.fleet_name == fleet)
        .map(|a| a.view())
        .collect();
    Autoscaler::owner(&all).map(|owner| Arc::clone(&owner.name))
}

/// Finds what a webhook or a WebAssembly module answered: the review that names the autoscaler or its fleet, or that names
/// none.
fn reply(world: &World, autoscaler: &Object, fleet: &fleet::Fleet) -> Reply {
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
    let all: Vec<_> = world
        .of("FleetAutoscaleReview")
        .filter_map(|object| Some((object, FleetAutoscaleReview::read(&object.value()).ok()?)))
        .collect();
    let mut found: Vec<_> = all.iter().filter(about).collect();
    found.sort_by_key(|review| !is_named(review));
    found.first().map_or(Reply::None, |(_, review)| review.reply())
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
