//! The game servers that a fleet deletes when it is larger than its `spec.replicas`.

use std::sync::Arc;

use api::agones::{FLEET_LABEL, Fleet, GameServerSet};
use control::fleet::describe::Removals;
use control::{Description, Lister, Unreadable};
use kube::ResourceExt as _;

use super::Servers;
use crate::commands::evaluate::world::{Object, World};

/// Decides which game servers of a fleet are deleted; `None` while it has no more than it should, unless a recorded decision is replayed.
pub(super) fn decide(
    object: &Object,
    world: &World,
    servers: &Servers,
) -> Result<Option<Description>, Unreadable> {
    let fleet: Arc<Fleet> = Arc::new(object.read()?);
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let all = servers.of_fleet(namespace, &object.name);
    let sets = sets(world, namespace, &object.name)?;
    let removals = Removals::decide(&fleet, sets, all, &servers.nodes, world.now);
    let removals = removals.map_err(|problems| object.unreadable(problems))?;
    let is_shown = world.is_replay || !removals.is_empty();
    Ok(is_shown.then(|| removals.describe(&object.object_name())))
}

/// Lists the sets of a fleet.
fn sets(world: &World, namespace: &str, fleet: &str) -> Result<Vec<GameServerSet>, Unreadable> {
    let is_of = |set: &GameServerSet| set.labels().get(FLEET_LABEL).is_some_and(|f| f == fleet);
    let all = Lister::<GameServerSet>::list(world, Some(namespace));
    all.filter(|set| set.as_ref().map_or(true, is_of)).collect()
}
