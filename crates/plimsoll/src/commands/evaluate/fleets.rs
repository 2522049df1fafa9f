//! Decisions about fleets: their size, what goes when they shrink, and which game server an allocation gets.

mod allocation;
mod autoscaler;
mod fleet;

use std::collections::BTreeSet;
use std::sync::Arc;

use api::agones;
use control::{Description, Lister, OCCUPANCY_ANNOTATION, Unreadable, read_occupancy};
use decide::gameserver::{GameServer, Occupancy};
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::world::{Object, World};

/// The game servers of all fleets and namespaces, and how busy they make the nodes.
pub(crate) struct Servers {
    all: Vec<GameServer>,
    nodes: Arc<Occupancy>,
}

impl Servers {
    /// Reads the game servers of a world. A node counts as known while there is a Node of its name; a world without any
    /// Nodes knows none.
    fn read(world: &World) -> Result<Self, Unreadable> {
        let servers = Lister::<agones::GameServer>::list(world, None);
        let all: Vec<_> = servers.map(|server| Ok(server?.view())).collect::<Result<_, _>>()?;
        let mut nodes = Occupancy::from_servers(&all);
        let names: BTreeSet<&str> = world.of("Node").map(|node| node.name.as_str()).collect();
        nodes.keep(|node| names.contains(node));
        for node in world.of("Node") {
            add_others(&mut nodes, node);
            let taints = node.value()["spec"]["taints"].clone();
            let taints: Vec<Taint> = serde_json::from_value(taints).unwrap_or_default();
            nodes.set_unneeded(&node.name, cluster::unneeded_since(&taints));
        }
        Ok(Self { all, nodes: Arc::new(nodes) })
    }

    /// Returns the game servers that carry a fleet's name.
    fn of_fleet(&self, namespace: &str, name: &str) -> Vec<GameServer> {
        let is_of = |s: &&GameServer| {
            &*s.namespace == namespace
                && s.labels.get(agones::FLEET_LABEL).is_some_and(|fleet| &**fleet == name)
        };
        self.all.iter().filter(is_of).cloned().collect()
    }
}

/// Adds the game servers of a recorded node that are not recorded themselves.
fn add_others(nodes: &mut Occupancy, node: &Object) {
    let value = node.value();
    let others = value["metadata"]["annotations"][OCCUPANCY_ANNOTATION].as_str();
    let Some([ready, allocated]) = others.and_then(read_occupancy) else { return };
    for (state, count) in [("Ready", ready), ("Allocated", allocated)] {
        let status = agones::GameServerStatus {
            state: state.to_owned(),
            node_name: node.name.clone(),
            ..agones::GameServerStatus::default()
        };
        let other = agones::server_view(&ObjectMeta::default(), &status);
        (0..count).for_each(|_| nodes.add(&other));
    }
}

/// Decides about one object of Agones' kinds; `None` where there is nothing to decide.
pub(crate) fn decide(object: &Object, world: &World) -> Result<Option<Description>, Unreadable> {
    let servers =
        || world.servers.get_or_init(|| Servers::read(world)).as_ref().map_err(Clone::clone);
    match object.kind.as_str() {
        "FleetAutoscaler" => autoscaler::decide(object, world, servers()?),
        "Fleet" => fleet::decide(object, world, servers()?),
        "GameServerAllocation" => allocation::decide(object, world, servers()?),
        _ => Ok(None),
    }
}
