//! The size that a FleetAutoscaler sets.

use std::sync::Arc;

use api::agones::Fleet;
use api::autoscaling::{FleetAutoscaleReview, FleetAutoscaler};
use control::fleet_autoscaler::describe::describe;
use control::fleet_autoscaler::observe::{self, AutoscalerObservation, AutoscalerSpec};
use control::{Description, HISTORY_ANNOTATION, Lister, Unreadable, read_history};
use decide::fleet::{self, Autoscaler, FleetDecision, Replies, Reply, Sizing};
use serde_json::json;

use super::Servers;
use crate::commands::evaluate::world::{Object, World};

/// Decides the size of an autoscaler's fleet.
pub(super) fn decide(
    object: &Object,
    world: &World,
    servers: &Servers,
) -> Result<Option<Description>, Unreadable> {
    let autoscaler: FleetAutoscaler = object.read()?;
    let spec = observe::parse(&autoscaler).map_err(|problems| object.unreadable(problems))?;
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let name = &autoscaler.spec.fleet_name;
    let Some(target) = world.find("Fleet", namespace, name) else {
        return Ok(missing(object, world, &format!("Fleet {namespace}/{name}")));
    };
    let observed = AutoscalerObservation {
        fleet: target.read::<Fleet>()?.view(),
        servers: servers.of_fleet(namespace, name),
        nodes: Arc::clone(&servers.nodes),
        other_owner: observe::other_owner(&object.name, &autoscalers(world, namespace, name)?),
    };
    let mut replies = Replies::new();
    let decision = loop {
        match observed.size(&spec.policy, &replies, world.now) {
            Sizing::Decided(decision) => break decision,
            Sizing::Ask(id) => {
                let reply = reply(world, object, &observed.fleet, &id)?;
                replies.insert(id, reply);
            }
        }
    };
    let decision = stabilize(decision, &autoscaler, &spec, world);
    Ok(Some(describe(&object.object_name(), &target.object_name(), &decision)))
}

/// Applies the stabilization window to a decision, where the sizes that were wanted within it are recorded.
fn stabilize(
    decision: FleetDecision,
    autoscaler: &FleetAutoscaler,
    spec: &AutoscalerSpec,
    world: &World,
) -> FleetDecision {
    let annotations = autoscaler.metadata.annotations.as_ref();
    let sizes = annotations.and_then(|annotations| annotations.get(HISTORY_ANNOTATION));
    match (spec.stabilization, sizes) {
        (Some(window), Some(sizes)) => {
            fleet::stabilize(decision, &mut read_history(sizes), window, world.now)
        }
        (None, _) | (_, None) => decision,
    }
}

/// Returns the decision where the fleet is missing: with other fleets in the files it is that of a cluster; without any fleet the files
/// are not meant as a world.
fn missing(object: &Object, world: &World, fleet: &str) -> Option<Description> {
    world.only_validated(object, &format!("{fleet} is not in the files"));
    world.of("Fleet").next()?;
    let message = format!("{fleet} does not exist");
    let decision = Description::about(&object.object_name())
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

/// Finds the response of a webhook or a WebAssembly module: the review that names the autoscaler or its fleet, or that names
/// none. In a recorded decision it also names the entry of the chain.
fn reply(
    world: &World,
    autoscaler: &Object,
    fleet: &fleet::Fleet,
    id: &str,
) -> Result<Reply, Unreadable> {
    let about = |review: &&(&Object, FleetAutoscaleReview)| {
        let (object, review) = review;
        let request = review.request.clone().unwrap_or_default();
        let is = |written: &str, spec: &str| written.is_empty() || written == spec;
        (!world.is_replay || request.uid == id)
            && is(&object.name, &autoscaler.name)
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
