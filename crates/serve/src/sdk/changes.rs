//! Changes that the process requested and that are not written yet, and how they apply to the object.

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

/// The annotation with the id of the SDK server's last write. It shows whether a write without a response succeeded.
pub(super) const WRITE_ANNOTATION: &str = "plimsoll.dev/sdk-write";

/// A state that the process requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestedState {
    /// Ready for players. The controller makes it Ready; in local mode it is Ready at once.
    Ready {
        /// Whether this is only a request to a controller.
        is_request: bool,
    },
    /// Allocated by the process itself.
    Allocated,
    /// Not available for allocation, for a duration or without an end.
    Reserved(Option<Duration>),
    /// The process requested its shutdown.
    Shutdown,
    /// The process stopped sending health pings.
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

    /// Whether later requests are ignored.
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

    /// Replaces an earlier request, unless that was final.
    pub(super) fn request_state(&mut self, requested: RequestedState) {
        if !self.requested_state.is_some_and(RequestedState::is_final) {
            self.requested_state = Some(requested);
        }
    }

    /// Returns the state that will be written to `server`; none if it is terminating or Unhealthy.
    pub(super) fn requested_state_for(&self, server: &GameServer) -> Option<RequestedState> {
        self.requested_state
            .filter(|_| !is_terminating(server) && state(server) != State::Unhealthy)
    }

    /// Returns the object with the changes applied. Counters and lists that it does not have are skipped.
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

/// Returns the state of a game server.
pub(super) fn state(server: &GameServer) -> State {
    server.status.as_ref().map_or(State::Unknown, |status| State::parse(&status.state))
}

/// Whether a game server is being deleted or shut down.
pub(super) fn is_terminating(server: &GameServer) -> bool {
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

/// Returns the players of a game server; without player tracking the capacity is 0.
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

/// Returns the merge patch from `before` to `after`, if they differ. It has the resource version as a precondition, and
/// annotates the object with its id.
pub(super) fn patch(before: &GameServer, after: &GameServer, id: &str) -> Option<Value> {
    let mut patch = merge_diff(&writable_fields(before), &writable_fields(after))?;
    patch["metadata"]["resourceVersion"] = json!(before.metadata.resource_version);
    patch["metadata"]["annotations"][WRITE_ANNOTATION] = json!(id);
    Some(patch)
}

/// Whether the last write of an SDK server to this object has this id.
pub(super) fn is_written_by(server: &GameServer, id: &str) -> bool {
    let annotations = server.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(WRITE_ANNOTATION)).is_some_and(|last| last == id)
}

/// Returns the fields that the SDK server writes.
fn writable_fields(server: &GameServer) -> Value {
    let meta = &server.metadata;
    json!({
        "metadata": {
            "labels": meta.labels.clone().unwrap_or_default(),
            "annotations": meta.annotations.clone().unwrap_or_default(),
        },
        "status": server.status.clone().unwrap_or_default(),
    })
}

fn merge_diff(before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return (before != after).then(|| after.clone());
    };
    let mut out = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        out.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        let changed = merge_diff(old.get(key).unwrap_or(&Value::Null), value);
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
    fn a_patch_has_the_differences_and_the_resource_version() {
        let mut changes = Changes::default();
        changes.request_state(RequestedState::Reserved(Some(Duration::from_secs(5))));
        changes.labels.insert("l".to_owned(), "1".to_owned());
        let before = server("Ready");
        let reserved = changes.onto(&before, NOW);
        let expected = json!({
            "metadata": {
                "labels": {"l": "1"},
                "annotations": {"plimsoll.dev/sdk-write": "id"},
                "resourceVersion": "7",
            },
            "status": {"state": "Reserved", "reservedUntil": "1970-01-01T00:00:05Z"},
        });
        assert_eq!(patch(&before, &reserved, "id"), Some(expected));
        let mut changes = Changes::default();
        changes.request_state(RequestedState::Ready { is_request: true });
        let expected = json!({
            "metadata": {"annotations": {"plimsoll.dev/sdk-write": "id"}, "resourceVersion": "7"},
            "status": {"state": "RequestReady", "reservedUntil": null},
        });
        assert_eq!(patch(&reserved, &changes.onto(&reserved, NOW), "id"), Some(expected));
        assert_eq!(patch(&before, &Changes::default().onto(&before, NOW), "id"), None);
    }

    #[test]
    fn a_terminating_or_unhealthy_server_keeps_its_state() {
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
    fn the_last_state_request_wins_unless_an_earlier_one_was_final() {
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
    fn a_counter_that_the_object_does_not_have_is_skipped() {
        let mut changes = Changes::default();
        changes.counters.insert("gone".to_owned(), PendingCounter::default());
        let before = server("Ready");
        assert_eq!(changes.onto(&before, NOW), before);
    }
}
