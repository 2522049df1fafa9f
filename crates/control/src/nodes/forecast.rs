//! The demand that schedules announce: the pods that a fleet will need as soon as a node that is requested now is ready.

use std::borrow::Borrow;
use std::sync::Arc;

use api::agones::{FLEET_LABEL, Fleet, GameServer};
use api::autoscaling::FleetAutoscaler;
use api::plimsoll::NodeGroup;
use decide::fleet::{Autoscaler, FleetObservation, Replies, Sizing, size};
use decide::gameserver::{self, Occupancy};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use super::fleets::{FleetListers, pod_template};
use super::settled::LONGEST;
use super::virtual_pods::virtual_pods;
use crate::fleet_autoscaler::observe::parse;
use crate::lister::{Lister, Unreadable};
use crate::settings::Sidecar;

/// How long nodes take until they are ready, as long as that was not measured for any group.
const USUAL_PROVISION_TIME: SignedDuration = SignedDuration::from_mins(2);

/// Returns the pods that fleets with schedules will need, beyond their current size, when nodes that are requested now are ready.
pub(super) fn pods_ahead(
    world: &(impl FleetListers + Lister<NodeGroup>),
    sidecar: &Sidecar,
    now: Timestamp,
) -> Result<Vec<Pod>, Unreadable> {
    let autoscalers = Lister::<FleetAutoscaler>::list(world, None);
    let autoscalers = autoscalers.collect::<Result<Vec<_>, _>>()?;
    let autoscalers: Vec<&FleetAutoscaler> = autoscalers.iter().map(Borrow::borrow).collect();
    let mut pods = Vec::new();
    if !autoscalers.iter().any(|one| parse(one).is_ok_and(|spec| spec.policy.has_schedule())) {
        return Ok(pods);
    }
    // Nothing changes when a schedule comes near, so that the next evaluation may be that much later.
    let pause = SignedDuration::try_from(LONGEST).unwrap_or_default();
    let then = now.saturating_add(provision_time(world)? + pause).unwrap_or(now);
    for fleet in Lister::<Fleet>::list(world, None) {
        let fleet = fleet?;
        let fleet: &Fleet = fleet.borrow();
        let (meta, is_going) = (&fleet.metadata, fleet.metadata.deletion_timestamp.is_some());
        let is_its = |one: &&&FleetAutoscaler| {
            one.metadata.namespace == meta.namespace
                && Some(&one.spec.fleet_name) == meta.name.as_ref()
        };
        let its: Vec<&FleetAutoscaler> = autoscalers.iter().filter(is_its).copied().collect();
        let views: Vec<Autoscaler> = its.iter().map(|one| one.view()).collect();
        let owner = Autoscaler::owner(&views).map(|owner| Arc::clone(&owner.name));
        let owner = its.iter().find(|one| one.metadata.name.as_deref() == owner.as_deref());
        let Some(owner) = owner.filter(|_| !is_going) else { continue };
        let missing = growth(owner, fleet, world, then)?;
        let namespace = meta.namespace.as_deref().unwrap_or("default");
        let name = meta.name.as_deref().unwrap_or_default();
        let pod = pod_template(&fleet.spec.template, sidecar);
        let place = (namespace, &*format!("{name}-scheduled"));
        pods.extend(virtual_pods(place, &format!("Fleet {namespace}/{name}"), pod, missing));
    }
    Ok(pods)
}

/// Returns by how many servers the schedule of an autoscaler will make its fleet larger at a time. Policies without a schedule act on the
/// present only.
fn growth(
    autoscaler: &FleetAutoscaler,
    fleet: &Fleet,
    world: &impl FleetListers,
    at: Timestamp,
) -> Result<usize, Unreadable> {
    let Ok(spec) = parse(autoscaler) else { return Ok(0) };
    if !spec.policy.has_schedule() {
        return Ok(0);
    }
    let servers = match spec.policy.reads_servers() {
        true => servers_of(fleet, world)?,
        false => Vec::new(),
    };
    let (view, nodes) = (fleet.view(), Occupancy::from_servers(&servers));
    let observed =
        FleetObservation { fleet: &view, servers: &servers, nodes: &nodes, other_owner: None };
    // What a webhook will say is not known.
    let Sizing::Decided(decision) = size(&spec.policy, observed, &Replies::new(), at) else {
        return Ok(0);
    };
    let to = decision.outcome.map_or(view.replicas, |size| size.to);
    Ok(usize::try_from(to.saturating_sub(view.replicas)).unwrap_or(0))
}

fn servers_of(
    fleet: &Fleet,
    world: &impl FleetListers,
) -> Result<Vec<gameserver::GameServer>, Unreadable> {
    let mut servers = Vec::new();
    for server in Lister::<GameServer>::list(world, fleet.metadata.namespace.as_deref()) {
        let server = server?;
        let server: &GameServer = server.borrow();
        let labels = server.metadata.labels.as_ref();
        if labels.and_then(|labels| labels.get(FLEET_LABEL)) == fleet.metadata.name.as_ref() {
            servers.push(server.view());
        }
    }
    Ok(servers)
}

/// Returns the usual provisioning time of the slowest group, since any of them may be chosen.
fn provision_time(world: &impl Lister<NodeGroup>) -> Result<SignedDuration, Unreadable> {
    let mut longest = None;
    for group in Lister::<NodeGroup>::list(world, None) {
        let group = group?;
        let group: &NodeGroup = group.borrow();
        let measured = group.status.as_ref().and_then(|status| status.provision_time);
        longest = longest.max(measured.map(|time| time.0));
    }
    Ok(longest.unwrap_or(USUAL_PROVISION_TIME))
}
