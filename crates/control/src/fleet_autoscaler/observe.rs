//! What does an autoscaler see of its fleet?
//!
//! The game servers themselves are counted, not what the fleet's status says of them, which is two writes behind.

use std::sync::Arc;

use api::agones::Fleet;
use api::autoscaling::{FleetAutoscaler, PolicyType};
use cluster::Key;
use decide::fleet::{self, Autoscaler, Observation};
use decide::gameserver::{GameServer, Occupancy};
use jiff::SignedDuration;

use super::{Autoscalers, STABILIZATION_ANNOTATION};

/// A fleet at one moment.
pub(super) struct Seen {
    pub(super) fleet: Arc<Fleet>,
    /// The fleet with what was counted in place of its status.
    pub(super) view: fleet::Fleet,
    servers: Vec<GameServer>,
    nodes: Occupancy,
    rival: Option<Arc<str>>,
}

/// Looks at the fleet that an autoscaler names; `None` where there is none.
pub(super) fn fleet(autoscaler: &FleetAutoscaler, all: &Autoscalers) -> Option<Seen> {
    let key = Key::from_meta(&autoscaler.metadata);
    let target = target(autoscaler);
    let caches = &all.cx.caches;
    let fleet = caches.fleets.get(&target)?;
    let uid = fleet.metadata.uid.as_deref().unwrap_or_default();
    let sets = caches.sets.owned(uid, |set| set.metadata.uid.clone().unwrap_or_default());
    let servers: Vec<Arc<GameServer>> =
        sets.iter().flat_map(|uid| caches.servers.owned(uid, |s| Arc::clone(&s.view))).collect();
    let mut view = fleet.view();
    view.status = fleet::merge([&fleet::status(&view.template, &servers)]);
    // Only policies that take single servers away look at them.
    let (servers, nodes) = if walks(autoscaler) {
        let servers = servers.iter().map(|server| GameServer::clone(server)).collect();
        (servers, all.cx.nodes.occupancy().clone())
    } else {
        (Vec::new(), Occupancy::default())
    };
    let rival = owner(&target, all).filter(|owner| **owner != *key.name);
    Some(Seen { fleet, view, servers, nodes, rival })
}

/// Names the fleet of an autoscaler.
pub(super) fn target(autoscaler: &FleetAutoscaler) -> Key {
    let namespace = autoscaler.metadata.namespace.as_deref().unwrap_or_default();
    Key::new(namespace, autoscaler.spec.fleet_name.as_str())
}

/// Gives the time for which a fleet waits before it shrinks.
pub(super) fn window(autoscaler: &FleetAutoscaler) -> Option<SignedDuration> {
    let text = autoscaler.metadata.annotations.as_ref()?.get(STABILIZATION_ANNOTATION)?;
    match api::duration::parse(text) {
        Ok(window) => Some(window).filter(SignedDuration::is_positive),
        Err(problem) => {
            let name = autoscaler.metadata.name.as_deref().unwrap_or_default();
            tracing::warn!(name, problem, "{STABILIZATION_ANNOTATION} is passed over");
            None
        }
    }
}

/// Finds the autoscaler that moves a fleet, among all that name it.
fn owner(target: &Key, all: &Autoscalers) -> Option<Arc<str>> {
    let rivals = all.watchers.of(target);
    let rivals: Vec<Autoscaler> =
        rivals.iter().filter_map(|key| Some(all.cx.caches.autoscalers.get(key)?.view())).collect();
    Autoscaler::owner(&rivals).map(|owner| Arc::clone(&owner.name))
}

/// Whether a policy, or one inside it, may look at single servers.
fn walks(autoscaler: &FleetAutoscaler) -> bool {
    match autoscaler.spec.policy.type_ {
        PolicyType::Buffer | PolicyType::Webhook | PolicyType::Wasm => false,
        PolicyType::Counter | PolicyType::List | PolicyType::Schedule | PolicyType::Chain => true,
    }
}

impl Seen {
    pub(super) fn observation(&self) -> Observation<'_> {
        Observation {
            fleet: &self.view,
            servers: &self.servers,
            nodes: &self.nodes,
            rival: self.rival.as_ref(),
        }
    }

    /// Whether the fleet is being deleted, which is none of an autoscaler's business.
    pub(super) fn is_going(&self) -> bool {
        self.fleet.metadata.deletion_timestamp.is_some()
    }
}
