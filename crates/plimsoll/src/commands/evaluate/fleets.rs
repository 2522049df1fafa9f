//! Decisions about fleets: their size, what goes when they shrink, and which game server an allocation gets.

mod allocation;
mod autoscaler;
mod fleet;

use std::collections::BTreeSet;

use api::agones;
use decide::gameserver::{GameServer, Occupancy};

use super::decision::Decision;
use super::world::{Object, World};

/// The game servers of all fleets and namespaces, and how busy they make the nodes.
pub(crate) struct Servers {
    all: Vec<GameServer>,
    nodes: Occupancy,
}

impl Servers {
    /// Reads the game servers of a world. A node counts as known while there is a Node of its name; a world without any
    /// Nodes knows none.
    fn of(world: &World) -> Self {
        let all: Vec<_> = world
            .of("GameServer")
            .filter_map(Object::read::<agones::GameServer>)
            .map(|server| server.view())
            .collect();
        let mut nodes = Occupancy::of(&all);
        let names: BTreeSet<&str> = world.of("Node").map(|node| node.name.as_str()).collect();
        nodes.keep(|node| names.contains(node));
        Self { all, nodes }
    }

    /// Gives the game servers that carry a fleet's name.
    fn of_fleet(&self, namespace: &str, name: &str) -> Vec<GameServer> {
        let is_of = |s: &&GameServer| {
            &*s.namespace == namespace
                && s.labels.get(agones::FLEET_LABEL).is_some_and(|fleet| &**fleet == name)
        };
        self.all.iter().filter(is_of).cloned().collect()
    }
}

/// Decides about one object of Agones' kinds; `None` where there is nothing to decide.
pub(crate) fn decide(object: &Object, world: &World) -> Option<Decision> {
    let servers = || world.servers.get_or_init(|| Servers::of(world));
    match object.kind.as_str() {
        "FleetAutoscaler" => autoscaler::decide(object, world, servers()),
        "Fleet" => fleet::decide(object, world, servers()),
        "GameServerAllocation" => allocation::decide(object, world, servers()),
        _ => None,
    }
}
