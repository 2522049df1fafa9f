//! Decides which game servers of a fleet are deleted, and describes that decision.

use std::sync::Arc;

use api::Problem;
use api::agones::{Fleet, GameServerSet};
use decide::fleet::{self, Limits};
use decide::gameserver::{GameServer, Occupancy};
use jiff::Timestamp;
use serde_json::json;

use super::observe::sized_sets;
use crate::description::{Description, ObjectName};

/// The game servers that a fleet deletes to reach its size.
pub struct Removals {
    /// How many game servers it has that are not being deleted.
    from: usize,
    /// Its `spec.replicas`.
    to: i32,
    /// The names of the game servers that are deleted now, in order.
    delete: Vec<Arc<str>>,
    /// Whether more are deleted later.
    is_partial: bool,
}

impl Removals {
    /// Decides which game servers of a fleet are deleted, or returns the fields of the fleet that cannot be read.
    pub fn decide(
        fleet: &Arc<Fleet>,
        sets: Vec<GameServerSet>,
        servers: Vec<GameServer>,
        nodes: &Occupancy,
        now: Timestamp,
    ) -> Result<Self, Vec<Problem>> {
        let from = servers.iter().filter(|server| !server.is_being_deleted()).count();
        let (mut delete, mut is_partial) = (Vec::new(), false);
        for set in sized_sets(fleet, sets, servers)? {
            let limits = Limits::for_mode(fleet.mode());
            let pass = fleet::reconcile(&set.view, &set.servers, nodes, limits, now);
            delete.extend(pass.delete);
            is_partial |= pass.is_partial;
        }
        Ok(Self { from, to: fleet.spec.replicas, delete, is_partial })
    }

    /// Whether nothing is deleted and there are not too many.
    pub fn is_empty(&self) -> bool {
        let is_too_large = usize::try_from(self.to).is_ok_and(|to| to < self.from);
        self.delete.is_empty() && !is_too_large
    }

    /// Describes the decision about the fleet `subject`.
    pub fn describe(&self, subject: &ObjectName) -> Description {
        let names: Vec<&str> = self.delete.iter().map(|name| &**name).collect();
        let mut description = Description::about(subject)
            .line(format!("{} -> {}", self.from, self.to))
            .with("target", subject.to_json())
            .with("from", self.from)
            .with("to", self.to)
            .with("limited", self.is_partial)
            .with("delete", json!(names));
        for name in names {
            description = description.line(format!("deletes {name}"));
        }
        description.with("reasons", json!([])).with("votes", json!([]))
    }
}
