//! Which game servers go when a fleet is to be smaller than it is.

use std::sync::Arc;

use api::agones::{FLEET_LABEL, Fleet, GameServerSet};
use control::fleet::observe::sized_sets;
use control::{Lister, Unreadable};
use decide::fleet::{self, Limits};
use kube::ResourceExt as _;
use serde_json::json;

use super::Servers;
use crate::commands::evaluate::decision::Decision;
use crate::commands::evaluate::world::{Object, World};

/// Decides which game servers of a fleet go; `None` while it has no more than it should.
pub(super) fn decide(
    object: &Object,
    world: &World,
    servers: &Servers,
) -> Result<Option<Decision>, Unreadable> {
    let fleet: Arc<Fleet> = Arc::new(object.read()?);
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let all = servers.of_fleet(namespace, &object.name);
    let staying = all.iter().filter(|s| !s.is_being_deleted()).count();
    let sets = sized_sets(&fleet, sets(world, namespace, &object.name)?, all);
    let mut delete: Vec<Arc<str>> = Vec::new();
    let mut is_partial = false;
    for set in sets.map_err(|problems| object.unreadable(problems))? {
        let limits = Limits::of(fleet.mode());
        let pass = fleet::reconcile(&set.view, &set.servers, &servers.nodes, limits, world.now);
        delete.extend(pass.delete);
        is_partial |= pass.is_partial;
    }
    let is_too_large = usize::try_from(fleet.spec.replicas).is_ok_and(|r| r < staying);
    if delete.is_empty() && !is_too_large {
        return Ok(None);
    }
    Ok(Some(describe(object, &fleet, staying, &delete, is_partial)))
}

/// Lists the sets of a fleet.
fn sets(world: &World, namespace: &str, fleet: &str) -> Result<Vec<GameServerSet>, Unreadable> {
    let is_of = |set: &GameServerSet| set.labels().get(FLEET_LABEL).is_some_and(|f| f == fleet);
    let all = Lister::<GameServerSet>::list(world, Some(namespace));
    all.filter(|set| set.as_ref().map_or(true, is_of)).collect()
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
