//! Records what a fleet does to its sets and game servers in the journal.

use std::sync::Arc;

use api::agones::{Fleet, GameServerSet};
use api::plimsoll::DecisionOutcome;
use cluster::{DecisionRecord, Error, Signature};
use decide::fleet::SetPlan;
use decide::gameserver::{GameServer, Occupancy};
use jiff::Timestamp;
use serde_json::Value;

use super::describe::Removals;
use super::observe::FleetObservation;
use crate::context::Context;
use crate::description::ObjectName;
use crate::inputs;

type CachedObservation = FleetObservation<Arc<GameServerSet>>;

/// A fleet and its game servers before its plan is carried out.
pub(super) struct FleetSnapshot {
    fleet: Arc<Fleet>,
    sets: Vec<Arc<GameServerSet>>,
    servers: Vec<GameServer>,
    nodes: Occupancy,
    at: Timestamp,
}

impl FleetSnapshot {
    /// Returns the snapshot of a fleet whose plan creates, resizes or deletes sets; `None` where it changes no set.
    pub(super) fn before(
        observed: &CachedObservation,
        plan: &SetPlan,
        cx: &Context,
    ) -> Option<PendingRecord> {
        let active = plan.active.map(|index| observed.sets[index].spec.replicas);
        let is_change =
            !plan.delete.is_empty() || !plan.resize.is_empty() || active != Some(plan.replicas);
        if !is_change {
            return None;
        }
        let applied = signature(&observed.fleet, DecisionOutcome::Applied);
        // Mostly this is a further step of the last decision.
        let is_repeated = cx.decisions.is_repeated(&*observed.fleet, applied);
        Some(PendingRecord((!is_repeated).then(|| Self::take(observed, cx))))
    }

    fn take(observed: &CachedObservation, cx: &Context) -> Self {
        let uids = observed.sets.iter().map(|set| set.metadata.uid.as_deref().unwrap_or_default());
        let servers = uids
            .flat_map(|uid| cx.caches.servers.owned(uid, |server| GameServer::clone(&server.view)));
        Self {
            fleet: Arc::clone(&observed.fleet),
            sets: observed.sets.clone(),
            servers: servers.collect(),
            nodes: cx.nodes.occupancy().clone(),
            at: cx.clock.now(),
        }
    }

    fn record(self, outcome: DecisionOutcome, message: String) -> DecisionRecord {
        let sets = self.sets.iter().map(|set| GameServerSet::clone(set)).collect();
        let servers = self.servers.clone();
        let removals = Removals::decide(&self.fleet, sets, servers, &self.nodes, self.at);
        let subject = ObjectName::new(&*self.fleet);
        let decision = removals.map(|removals| removals.describe(&subject).json);
        let decision = decision.unwrap_or_default();
        DecisionRecord { decision, inputs: Box::new(move || self.inputs()), outcome, message }
    }

    fn inputs(&self) -> Vec<Value> {
        let name = self.fleet.metadata.name.as_deref().unwrap_or_default();
        let mut objects = vec![inputs::fleet(&self.fleet, None)];
        objects.extend(self.sets.iter().map(|set| inputs::set(set)));
        objects.extend(self.servers.iter().map(|server| inputs::game_server(server, name)));
        objects.extend(inputs::nodes(&self.servers, &self.nodes));
        objects
    }
}

/// A change that is being carried out, with a snapshot to describe it where it is a new one.
pub(super) struct PendingRecord(Option<FleetSnapshot>);

impl PendingRecord {
    /// Records how the change ended.
    pub(super) fn record(
        self,
        observed: &CachedObservation,
        result: &Result<(), Error>,
        cx: &Context,
    ) {
        let (outcome, message) = match result {
            Ok(()) => (DecisionOutcome::Applied, String::new()),
            Err(error) if error.is_conflict() => (DecisionOutcome::Overtaken, String::new()),
            Err(error) => (DecisionOutcome::Failed, error.message()),
        };
        let at = self.0.as_ref().map_or_else(|| cx.clock.now(), |snapshot| snapshot.at);
        let signature = signature(&observed.fleet, outcome);
        cx.decisions.record(&*observed.fleet, signature, at, || {
            let snapshot = self.0.unwrap_or_else(|| FleetSnapshot::take(observed, cx));
            FleetSnapshot { at, ..snapshot }.record(outcome, message)
        });
    }
}

fn signature(fleet: &Fleet, outcome: DecisionOutcome) -> Signature {
    Signature::new(Some(i64::from(fleet.spec.replicas)), None, [], outcome)
}
