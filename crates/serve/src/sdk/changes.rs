//! What did the process ask for that is not written yet, and what does the object look like with it?

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::agones::{CounterStatus, GameServer, LAST_ALLOCATED_ANNOTATION, ListStatus, PlayerStatus};
use decide::gameserver::players::PendingPlayers;
use decide::gameserver::sdk::{PendingCounter, PendingList};
use decide::gameserver::{Counter, List, State};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};

mod split;

/// The annotation with the id of the last write of the SDK server. It tells a write that was made without an answer from
/// one that was not made.
pub(super) const WRITE_ANNOTATION: &str = "plimsoll.dev/sdk-write";

/// A state that the game server has requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestedState {
    /// Players may come. A controller has the last word; where there is none, the state is Ready at once.
    Ready {
        /// Whether a controller has the last word.
        is_request: bool,
    },
    /// Players are here.
    Allocated,
    /// Nobody may come, for a while or until told otherwise.
    Reserved(Option<Duration>),
    /// The end.
    Shutdown,
    /// The process fell silent.
    Unhealthy,
}

impl RequestedState {
    pub(super) fn state(self) -> State {
        match self {
            Self::Ready { is_request: true } => State::RequestReady,
            Self::Ready { is_request: false } => State::Ready,
            Self::Allocated => State::Allocated,
            Self::Reserved(_) => State::Reserved,
            Self::Shutdown => State::Shutdown,
            Self::Unhealthy => State::Unhealthy,
        }
    }

    /// Whether no later request may take its place.
    fn is_final(self) -> bool {
        matches!(self, Self::Shutdown | Self::Unhealthy)
    }
}

/// Changes that are not written yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Changes {
    requested_state: Option<RequestedState>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) counters: BTreeMap<String, PendingCounter>,
    pub(super) lists: BTreeMap<String, PendingList>,
    pub(super) players: PendingPlayers,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Takes in a request in place of an earlier one, unless that was final.
    pub(super) fn request_state(&mut self, requested: RequestedState) {
        if !self.requested_state.is_some_and(RequestedState::is_final) {
            self.requested_state = Some(requested);
        }
    }

    /// Returns the state that will be written to `server`: none once it shuts down or is unhealthy.
    pub(super) fn requested_state_for(&self, server: &GameServer) -> Option<RequestedState> {
        self.requested_state.filter(|_| !is_leaving(server) && state(server) != State::Unhealthy)
    }

    /// Puts the changes onto an object that was just read. Counters and lists that it does not have are dropped.
    pub(super) fn onto(&self, server: &GameServer, now: Timestamp) -> GameServer {
        let mut after = server.clone();
        let texts = [
            (&mut after.metadata.labels, &self.labels),
            (&mut after.metadata.annotations, &self.annotations),
        ];
        for (map, added) in texts {
            if !added.is_empty() {
                map.get_or_insert_default().extend(added.clone());
            }
        }
        if let Some(requested) = self.requested_state_for(server) {
            set_state(&mut after, requested, now);
        }
        for (name, pending) in &self.counters {
            if let Some(stored) = counter(server, name) {
                set_counter(&mut after, name, pending.onto(stored));
            }
        }
        for (name, pending) in &self.lists {
            if let Some(stored) = list(server, name) {
                set_list(&mut after, name, &pending.onto(&stored));
            }
        }
        if self.players != PendingPlayers::default() {
            set_players(&mut after, &self.players.onto(&players(server)));
        }
        after
    }
}

/// Gives the state of a game server.
pub(super) fn state(server: &GameServer) -> State {
    server.status.as_ref().map_or(State::Unknown, |status| State::parse(&status.state))
}

/// Whether a game server is on its way out.
pub(super) fn is_leaving(server: &GameServer) -> bool {
    server.metadata.deletion_timestamp.is_some() || state(server) == State::Shutdown
}

pub(super) fn counter(server: &GameServer, name: &str) -> Option<Counter> {
    let counter = server.status.as_ref()?.counters.as_ref()?.get(name)?;
    Some(Counter { count: counter.count, capacity: counter.capacity })
}

pub(super) fn list(server: &GameServer, name: &str) -> Option<List> {
    let list = server.status.as_ref()?.lists.as_ref()?.get(name)?;
    Some(List { capacity: list.capacity, values: shared(&list.values) })
}

/// Gives the players on a game server; one that says nothing about players has no room for any.
pub(super) fn players(server: &GameServer) -> List {
    let players = server.status.as_ref().and_then(|status| status.players.as_ref());
    players.map_or_else(List::default, |players| List {
        capacity: players.capacity,
        values: shared(players.ids.as_deref().unwrap_or_default()),
    })
}

fn shared(values: &[String]) -> Vec<Arc<str>> {
    values.iter().map(|value| value.as_str().into()).collect()
}

fn owned(list: &List) -> Vec<String> {
    list.values.iter().map(ToString::to_string).collect()
}

fn set_state(server: &mut GameServer, requested: RequestedState, now: Timestamp) {
    let status = server.status.get_or_insert_default();
    status.state = requested.state().to_string();
    status.reserved_until = match requested {
        RequestedState::Reserved(Some(span)) => now.checked_add(span).ok().map(Time),
        RequestedState::Ready { .. }
        | RequestedState::Allocated
        | RequestedState::Reserved(None)
        | RequestedState::Shutdown
        | RequestedState::Unhealthy => None,
    };
    if requested == RequestedState::Allocated {
        let annotations = server.metadata.annotations.get_or_insert_default();
        annotations.insert(LAST_ALLOCATED_ANNOTATION.to_owned(), now.to_string());
    }
}

fn set_counter(server: &mut GameServer, name: &str, counter: Counter) {
    let counters = server.status.get_or_insert_default().counters.get_or_insert_default();
    let counter = CounterStatus { count: counter.count, capacity: counter.capacity };
    counters.insert(name.to_owned(), counter);
}

fn set_list(server: &mut GameServer, name: &str, list: &List) {
    let lists = server.status.get_or_insert_default().lists.get_or_insert_default();
    lists.insert(name.to_owned(), ListStatus { capacity: list.capacity, values: owned(list) });
}

fn set_players(server: &mut GameServer, list: &List) {
    server.status.get_or_insert_default().players =
        Some(PlayerStatus { count: list.len(), capacity: list.capacity, ids: Some(owned(list)) });
}

/// Returns the merge patch that makes `after` of `before`, if they differ. It names the version it was decided on, and
/// leaves its id on the object.
pub(super) fn patch(before: &GameServer, after: &GameServer, id: &str) -> Option<Value> {
    let mut patch = difference(&written(before), &written(after))?;
    patch["metadata"]["resourceVersion"] = json!(before.metadata.resource_version);
    patch["metadata"]["annotations"][WRITE_ANNOTATION] = json!(id);
    Some(patch)
}

/// Whether the last write of an SDK server to this object has this id.
pub(super) fn is_written_by(server: &GameServer, id: &str) -> bool {
    let annotations = server.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(WRITE_ANNOTATION)).is_some_and(|last| last == id)
}

/// Gives the part of an object that is ever written.
fn written(server: &GameServer) -> Value {
    let meta = &server.metadata;
    json!({
        "metadata": {
            "labels": meta.labels.clone().unwrap_or_default(),
            "annotations": meta.annotations.clone().unwrap_or_default(),
        },
        "status": server.status.clone().unwrap_or_default(),
    })
}

fn difference(before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return (before != after).then(|| after.clone());
    };
    let mut out = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        out.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        let changed = difference(old.get(key).unwrap_or(&Value::Null), value);
        out.extend(changed.map(|changed| (key.clone(), changed)));
    }
    (!out.is_empty()).then_some(Value::Object(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(state: &str) -> GameServer {
        let object = json!({
            "metadata": {"name": "a", "resourceVersion": "7"},
            "spec": {"template": {"spec": {"containers": []}}},
            "status": {"state": state, "counters": {"rooms": {"count": 1, "capacity": 10}}},
        });
        serde_json::from_value(object).unwrap()
    }

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn a_patch_holds_what_differs_and_the_version() {
        let mut changes = Changes::default();
        changes.request_state(RequestedState::Reserved(Some(Duration::from_secs(5))));
        changes.labels.insert("l".to_owned(), "1".to_owned());
        let before = server("Ready");
        let reserved = changes.onto(&before, NOW);
        let wanted = json!({
            "metadata": {
                "labels": {"l": "1"},
                "annotations": {"plimsoll.dev/sdk-write": "id"},
                "resourceVersion": "7",
            },
            "status": {"state": "Reserved", "reservedUntil": "1970-01-01T00:00:05Z"},
        });
        assert_eq!(patch(&before, &reserved, "id"), Some(wanted));
        let mut changes = Changes::default();
        changes.request_state(RequestedState::Ready { is_request: true });
        let wanted = json!({
            "metadata": {"annotations": {"plimsoll.dev/sdk-write": "id"}, "resourceVersion": "7"},
            "status": {"state": "RequestReady", "reservedUntil": null},
        });
        assert_eq!(patch(&reserved, &changes.onto(&reserved, NOW), "id"), Some(wanted));
        assert_eq!(patch(&before, &Changes::default().onto(&before, NOW), "id"), None);
    }

    #[test]
    fn a_server_on_its_way_out_or_unhealthy_keeps_its_state() {
        let mut changes = Changes::default();
        changes.request_state(RequestedState::Allocated);
        for state in ["Shutdown", "Unhealthy"] {
            let before = server(state);
            assert_eq!(changes.onto(&before, NOW), before);
        }
        let mut deleted = server("Ready");
        deleted.metadata.deletion_timestamp = Some(Time(NOW));
        assert_eq!(changes.onto(&deleted, NOW), deleted);
    }

    #[test]
    fn the_last_request_counts_unless_an_earlier_one_was_final() {
        for (requests, state) in [
            (
                vec![RequestedState::Ready { is_request: true }, RequestedState::Allocated],
                "Allocated",
            ),
            (vec![RequestedState::Shutdown, RequestedState::Allocated], "Shutdown"),
            (vec![RequestedState::Unhealthy, RequestedState::Shutdown], "Unhealthy"),
        ] {
            let mut changes = Changes::default();
            requests.iter().for_each(|state| changes.request_state(*state));
            let after = changes.onto(&server("Scheduled"), NOW);
            assert_eq!(after.status.unwrap().state, state, "{requests:?}");
        }
    }

    #[test]
    fn a_counter_that_the_object_does_not_have_is_dropped() {
        let mut changes = Changes::default();
        changes.counters.insert("gone".to_owned(), PendingCounter::default());
        let before = server("Ready");
        assert_eq!(changes.onto(&before, NOW), before);
    }
}
