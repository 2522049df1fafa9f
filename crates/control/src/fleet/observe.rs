//! Observes a fleet and its sets.

use std::borrow::Borrow;
use std::sync::Arc;

use api::Problem;
use api::agones::{Fleet, GAME_SERVER_SET_LABEL, GameServerSet};
use cluster::{Caches, Key};
use decide::fleet::{self, FleetSet, ServerSet, SetPlan, plan_sets};
use decide::gameserver::GameServer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// A fleet with its sets.
pub struct FleetObservation<S> {
    /// The fleet.
    pub fleet: Arc<Fleet>,
    /// Its sets, in any order.
    pub sets: Vec<S>,
    /// `status.readyReplicas` of the fleet.
    ready: i32,
    /// What decisions read of each set, in the same order.
    observed: Vec<FleetSet>,
}

impl<S: Borrow<GameServerSet>> FleetObservation<S> {
    /// Decides the sizes of the sets, or returns the fields of the fleet that cannot be read.
    pub fn plan(&self) -> Result<SetPlan, Vec<Problem>> {
        let update = self.fleet.update()?;
        Ok(plan_sets(self.fleet.spec.replicas, self.ready, update, &self.observed))
    }
}

/// Observes one fleet; `None` when it is gone or being deleted.
pub(super) fn fleet(key: &Key, caches: &Caches) -> Option<FleetObservation<Arc<GameServerSet>>> {
    let fleet = caches.fleets.get(key)?;
    if fleet.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let sets = caches.sets.owned(uid(&fleet.metadata), Arc::clone);
    let has_servers =
        |set: &GameServerSet| !caches.servers.owned(uid(&set.metadata), |_| ()).is_empty();
    let observed = sets.iter().map(|set| observe_set(&fleet, set, has_servers(set))).collect();
    let ready = fleet.status.as_ref().map_or(0, |status| status.ready_replicas);
    Some(FleetObservation { fleet, sets, ready, observed })
}

/// Returns what the plan for a fleet's sets reads of one of them.
fn observe_set(fleet: &Fleet, set: &GameServerSet, has_servers: bool) -> FleetSet {
    FleetSet {
        view: set.in_rollout(),
        created_at: set.metadata.creation_timestamp.as_ref().map(|time| time.0),
        has_current_template: set.spec.template == fleet.spec.template,
        is_being_deleted: set.metadata.deletion_timestamp.is_some(),
        has_servers,
    }
}

fn uid(metadata: &ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

/// A set of a fleet at its size in the fleet's plan, with its game servers.
pub struct SizedSet {
    /// The set.
    pub view: ServerSet,
    /// Its game servers.
    pub servers: Vec<GameServer>,
}

/// Returns the sets of a fleet at their sizes in the next plan, the active one first, or the fields of the fleet that
/// cannot be read. The sets' counts are those of the game servers, so objects need no status; game servers that
/// name none of the sets belong to the active one.
pub fn sized_sets(
    fleet: &Arc<Fleet>,
    mut sets: Vec<GameServerSet>,
    servers: Vec<GameServer>,
) -> Result<Vec<SizedSet>, Vec<Problem>> {
    let active = active(fleet, &mut sets)?;
    let mut by_set: Vec<Vec<GameServer>> = sets.iter().map(|_| Vec::new()).collect();
    for server in servers {
        let name = server.labels.get(GAME_SERVER_SET_LABEL).map(|name| &**name);
        let of_name = sets.iter().position(|set| set.metadata.name.as_deref() == name);
        by_set[of_name.unwrap_or(active)].push(server);
    }
    let observed = sets.iter().zip(&by_set).map(|(set, servers)| {
        let mut observed = observe_set(fleet, set, !servers.is_empty());
        observed.view.status = fleet::status(&fleet.spec.template.spec.start(), servers).counts;
        observed
    });
    let observed: Vec<FleetSet> = observed.collect();
    let ready = observed.iter().map(|set| set.view.status.ready).sum();
    let observation = FleetObservation { fleet: Arc::clone(fleet), sets, ready, observed };
    let plan = observation.plan()?;
    let mut sets = observation.sets;
    for (index, replicas) in plan.resize.iter().copied().chain([(active, plan.replicas)]) {
        sets[index].spec.replicas = replicas;
    }
    sets[active].spec.scheduling = Some(fleet.spec.scheduling);
    sets[active].spec.priorities.clone_from(&fleet.spec.priorities);
    let order = std::iter::once(active).chain(plan.rest);
    let sized = order.map(|index| SizedSet {
        view: sets[index].view(fleet.mode()),
        servers: std::mem::take(&mut by_set[index]),
    });
    Ok(sized.collect())
}

/// Returns the index of the active set, which is added where there is none yet.
fn active(fleet: &Fleet, sets: &mut Vec<GameServerSet>) -> Result<usize, Vec<Problem>> {
    let observed: Vec<FleetSet> = sets.iter().map(|set| observe_set(fleet, set, false)).collect();
    // Which set is the active one depends on nothing that is counted.
    if let Some(active) = plan_sets(0, 0, fleet.update()?, &observed).active {
        return Ok(active);
    }
    let mut new = GameServerSet::default();
    new.spec.template = fleet.spec.template.clone();
    sets.push(new);
    Ok(sets.len() - 1)
}

/// Returns the key of the fleet that controls a set.
pub(super) fn fleet_of(set: &GameServerSet) -> Option<Key> {
    let owners = set.metadata.owner_references.iter().flatten();
    let mut owners = owners.filter(|o| o.controller == Some(true) && o.kind == "Fleet");
    let name = owners.next()?.name.as_str();
    Some(Key::new(set.metadata.namespace.as_deref().unwrap_or_default(), name))
}
