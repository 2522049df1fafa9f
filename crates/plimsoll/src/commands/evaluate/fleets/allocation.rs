//! The game server that an allocation gets.

use api::agones::GameServer;
use api::allocation::GameServerAllocation;
use control::{Description, Unreadable};
use decide::Reason;
use decide::allocation::{self, Allocation};
use serde_json::{Value, json};

use super::Servers;
use crate::commands::evaluate::world::{Object, World};

/// Decides which game server an allocation gets, and what becomes of it. Where upstream leaves it to chance, the same
/// files lead to the same result.
pub(super) fn decide(
    object: &Object,
    world: &World,
    servers: &Servers,
) -> Result<Option<Description>, Unreadable> {
    let request = object.read::<GameServerAllocation>()?.view(0);
    let decision = Description::about(&object.object_name());
    let Some(found) = allocation::allocate(&request, &servers.all, &servers.nodes, world.now)
    else {
        return Ok(Some(
            decision
                .line("UnAllocated: no game server matches")
                .with("state", "UnAllocated")
                .with("gameServer", Value::Null)
                .with("warnings", json!([]))
                .with("reasons", json!([]))
                .with("votes", json!([])),
        ));
    };
    let taken = world.find("GameServer", &found.server.namespace, &found.server.name);
    let Some(taken) = taken else { return Ok(None) };
    let mut server: GameServer = taken.read()?;
    server.take_over(&found.server);
    Ok(Some(describe(decision, taken, &server, &found)))
}

fn describe(
    mut decision: Description,
    taken: &Object,
    server: &GameServer,
    found: &Allocation,
) -> Description {
    // What we do not know of the object stays as it was written.
    let mut after = taken.value().into_owned();
    for (part, fields) in [
        ("metadata", &["labels", "annotations"][..]),
        ("status", &["state", "counters", "lists"][..]),
    ] {
        let new = json!(server);
        for field in fields {
            match new[part].get(field) {
                Some(value) => after[part][*field] = value.clone(),
                None => {
                    after[part].as_object_mut().map(|map| map.remove(*field));
                }
            }
        }
    }
    decision = decision.line(format!("Allocated: {taken}, by selector {}", found.selector));
    for warning in &found.warnings {
        decision = decision.line(format!("{}: {warning}", warning.code()));
    }
    let warning = |w: &allocation::Warning| json!({"code": w.code(), "message": w.to_string()});
    decision
        .with("state", "Allocated")
        .with("target", taken.object_name().to_json())
        .with("gameServer", after)
        .with("selector", found.selector)
        .with("warnings", found.warnings.iter().map(warning).collect::<Vec<_>>())
        .with("reasons", json!([]))
        .with("votes", json!([]))
}
