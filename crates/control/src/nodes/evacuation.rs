//! Moves the idle game servers of a node to other nodes, before the node is removed.
//!
//! The node is cordoned and its game servers are marked. Their sets create replacements, and delete a marked game server once its
//! replacement is Ready. An allocation that comes first wins: the removal ends, and nothing has failed. No game server is evicted.
//!
//! Marks of removals that are not in progress are taken back in the next evaluation, whatever ended the removal; the cordon is taken back with
//! the taints.

use std::sync::Arc;
use std::time::Duration;

use api::agones::{EVACUATE_ANNOTATION, may_evacuate};
use cluster::error::api_message;
use cluster::write::{self, PatchTarget};
use cluster::{CachedGameServer, EventType, Key};
use decide::nodes::{Blocking, GameServerUse, UnremovableReason};
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;
use tokio::time::Instant;

use super::NodeController;
use super::fleets::{fleet_of, game_server_use, set_of};
use super::removal::{NotRemoved, Removal};
use super::taints::{self, TaintChange};
use crate::context::Context;

/// How long the game servers of a node may take until they are replaced.
const MAX_TIME: Duration = Duration::from_mins(15);
/// How often that is checked.
const POLL: Duration = Duration::from_millis(250);

impl Removal {
    /// Has the idle game servers of the node replaced, and waits until they are gone.
    pub(super) async fn evacuate(&self) -> Result<(), NotRemoved> {
        if !self.cx.scales_fleets || !self.autoscaler.spec.fleets.aware {
            return Ok(());
        }
        if self.idle()?.is_empty() {
            return Ok(());
        }
        let (at, deadline) = (self.cx.clock.now(), Instant::now() + MAX_TIME);
        let cordoned = taints::change(&self.cx.client, self.name(), TaintChange::Cordon).await;
        cordoned.map_err(|error| format!("could not cordon it: {}", api_message(&error)))?;
        self.record(EventType::Normal, "ScaleDown", "moving the idle game servers of the node");
        loop {
            let there = self.idle()?;
            if there.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let minutes = MAX_TIME.as_secs() / 60;
                let names = list(&there);
                let text =
                    format!("its game servers were not replaced within {minutes} minutes: {names}");
                return Err(text.into());
            }
            join_all(there.iter().map(|server| mark(server, at, &self.cx))).await;
            tokio::time::sleep(POLL).await;
        }
    }

    /// Returns the idle game servers on the node, unless one of them is in use. Those that stay where they are follow the rules for other pods.
    fn idle(&self) -> Result<Vec<Arc<CachedGameServer>>, UnremovableReason> {
        let servers = &self.cx.caches.servers;
        let on_node = self.cx.nodes.pods_on(self.name()).into_iter();
        let mut idle = Vec::new();
        for server in on_node.filter_map(|pod| servers.get(&pod)) {
            let (state, is_going) = (server.view.state, server.view.is_being_deleted());
            match game_server_use(state, is_going, may_move(&server, &self.cx)) {
                Some(GameServerUse::Idle | GameServerUse::Ending) => idle.push(server),
                Some(GameServerUse::Allocated) => {
                    return Err(blocked_by(&server, Blocking::GameServerAllocated));
                }
                Some(GameServerUse::Reserved) => {
                    return Err(blocked_by(&server, Blocking::GameServerReserved));
                }
                None => {}
            }
        }
        Ok(idle)
    }
}

/// Returns that the pod of a game server, which has its name, keeps the node.
fn blocked_by(server: &CachedGameServer, blocking: Blocking) -> UnremovableReason {
    let name = Key::from_meta(&server.object.metadata).to_string();
    UnremovableReason::BlockedByPod(name.into(), blocking)
}

/// Returns whether a game server may be moved: its set replaces it, and neither its fleet nor its set forbids it.
fn may_move(server: &CachedGameServer, cx: &Context) -> bool {
    let meta = &server.object.metadata;
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let Some(set) = set_of(meta) else { return false };
    match fleet_of(meta) {
        Some(fleet) => {
            let fleet = cx.caches.fleets.get(&Key::new(namespace, fleet));
            fleet.is_none_or(|fleet| may_evacuate(&fleet.metadata))
        }
        None => {
            let set = cx.caches.sets.get(&Key::new(namespace, set.name.as_str()));
            set.is_none_or(|set| may_evacuate(&set.metadata))
        }
    }
}

fn list(servers: &[Arc<CachedGameServer>]) -> String {
    let names = servers.iter().map(|server| Key::from_meta(&server.object.metadata).to_string());
    names.collect::<Vec<_>>().join(", ")
}

/// Marks a game server, unless it has changed since it was read.
async fn mark(server: &CachedGameServer, at: Timestamp, cx: &Context) {
    if server.view.is_evacuating || server.view.is_being_deleted() {
        return;
    }
    annotate(server, json!(Time(at)), cx).await;
}

/// Writes the mark of a game server. One that has changed in the meantime is read again, and the write is decided on again.
async fn annotate(server: &CachedGameServer, value: serde_json::Value, cx: &Context) {
    let change = json!({"metadata": {"annotations": {EVACUATE_ANNOTATION: value}}});
    let (servers, what) = (&cx.caches.servers, "mark a game server on a node that is emptied");
    let written =
        write::patch(&cx.client, servers, server, PatchTarget::Object, change, what).await;
    if let Err(error) = written
        && !error.is_conflict()
    {
        let name = Key::from_meta(&server.object.metadata);
        tracing::warn!(gameserver = %name, error = error.message(), "could not mark it; will retry");
    }
}

impl NodeController {
    /// Takes back the marks of game servers on nodes whose removal has ended, in this process or in an earlier one.
    pub(super) async fn release_abandoned(&self) {
        let is_removed = |node: &str| self.removing.contains(node);
        let servers = self.cx.caches.servers.all();
        let marked = servers.iter().filter(|server| {
            let view = &server.view;
            view.is_evacuating && !view.is_being_deleted() && !is_removed(&view.node)
        });
        join_all(marked.map(|server| annotate(server, serde_json::Value::Null, &self.cx))).await;
    }
}
