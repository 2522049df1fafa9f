//! Which game servers go when a fleet is to be smaller than it is.

use std::sync::Arc;

use api::agones::{FLEET_LABEL, Fleet, GAME_SERVER_SET_LABEL, GameServerSet};
use decide::fleet::{self, Limits, SetView};
use decide::gameserver::GameServer;
use serde_json::json;

use super::Servers;
use crate::commands::evaluate::decision::Decision;
use crate::commands::evaluate::world::{Object, World};

/// One set of a fleet, and its game servers.
struct Set {
    set: GameServerSet,
    servers: Vec<GameServer>,
}

/// Decides which game servers of a fleet go; `None` while it has no more than it should.
pub(super) fn decide(object: &Object, world: &World, servers: &Servers) -> Option<Decision> {
    let fleet: Fleet = object.read()?;
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let all = servers.of_fleet(namespace, &object.name);
    let staying = all.iter().filter(|s| !s.is_being_deleted()).count();
    let mut sets = sets(&fleet, world, namespace, &object.name);
    share(&mut sets, all);
    resize(&fleet, &mut sets);
    let mut delete: Vec<Arc<str>> = Vec::new();
    let mut is_partial = false;
    for set in &sets {
        let limits = Limits::of(fleet.mode());
        let view = set.set.view(fleet.mode());
        let pass = fleet::reconcile(&view, &set.servers, &servers.nodes, limits, world.now);
        delete.extend(pass.delete);
        is_partial |= pass.is_partial;
    }
    let is_too_large = usize::try_from(fleet.spec.replicas).is_ok_and(|r| r < staying);
    if delete.is_empty() && !is_too_large {
        return None;
    }
    Some(describe(object, &fleet, staying, &delete, is_partial))
}

/// Finds the sets of a fleet, the one with its present template first. A fleet whose sets are not in the files is one set.
fn sets(fleet: &Fleet, world: &World, namespace: &str, name: &str) -> Vec<Set> {
    let mut sets: Vec<Set> = world
        .of("GameServerSet")
        .filter(|o| o.namespace.as_deref() == Some(namespace))
        .filter_map(Object::read::<GameServerSet>)
        .filter(|set| {
            set.metadata.labels.as_ref().and_then(|l| l.get(FLEET_LABEL)).map(String::as_str)
                == Some(name)
        })
        .map(|set| Set { set, servers: Vec::new() })
        .collect();
    sets.sort_by_key(|s| s.set.metadata.creation_timestamp.clone());
    let is_active = |s: &Set| s.set.spec.template == fleet.spec.template;
    let mut active = match sets.iter().position(is_active) {
        Some(index) => sets.remove(index),
        None => Set { set: GameServerSet::default(), servers: Vec::new() },
    };
    let spec = &mut active.set.spec;
    spec.scheduling = Some(fleet.spec.scheduling);
    spec.priorities = fleet.spec.priorities.clone();
    sets.insert(0, active);
    sets
}

/// Gives each set the game servers that carry its name; those that carry none are the present set's.
fn share(sets: &mut [Set], servers: Vec<GameServer>) {
    for server in servers {
        let name = server.labels.get(GAME_SERVER_SET_LABEL).map(|name| &**name);
        let owner = sets.iter().position(|s| s.set.metadata.name.as_deref() == name).unwrap_or(0);
        sets[owner].servers.push(server);
    }
}

/// Gives each set the size that the fleet's next pass would give it.
fn resize(fleet: &Fleet, sets: &mut [Set]) {
    let views: Vec<SetView> = sets
        .iter()
        .map(|s| {
            let counts = fleet::status(&fleet.spec.template.spec.start(), &s.servers).counts;
            SetView { status: counts, ..s.set.in_rollout() }
        })
        .collect();
    let ready = views.iter().map(|v| v.status.ready).sum();
    let Some((active, rest)) = views.split_first() else { return };
    let rollout = fleet::rollout(fleet.spec.replicas, ready, fleet.update(), active, rest);
    sets[0].set.spec.replicas = rollout.active;
    for (name, replicas) in rollout.resize {
        if let Some(set) = sets.iter_mut().find(|s| s.set.metadata.name.as_deref() == Some(&*name))
        {
            set.set.spec.replicas = replicas;
        }
    }
}

fn describe(
    subject: &Object,
    fleet: &Fleet,
    staying: usize,
    delete: &[Arc<str>],
    is_partial: bool,
) -> Decision {
    let names: Vec<&str> = delete.iter().map(|name| &**name).collect();
    let mut decision = Decision::about(subject)
        .line(format!("{staying} -> {}", fleet.spec.replicas))
        .with("target", subject.reference())
        .with("from", staying)
        .with("to", fleet.spec.replicas)
        .with("limited", is_partial)
        .with("delete", json!(names));
    for name in names {
        decision = decision.line(format!("deletes {name}"));
    }
    decision.with("reasons", json!([])).with("votes", json!([]))
}
