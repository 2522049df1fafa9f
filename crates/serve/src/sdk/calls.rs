//! The calls of the SDK, whichever way they come in.

use std::sync::Arc;
use std::time::Duration;

use api::agones::{GameServer, sdk_annotation, sdk_label};
use decide::gameserver::List;
use decide::gameserver::sdk::{CounterUpdate, PendingList, Rejected};

use super::changes::{self, Changes, RequestedState};
use super::conformance::Call;
use super::core::{Core, Writes};
use super::message;
use super::refusal::{Refusal, Subject};
use crate::proto::{beta, sdk};

/// The longest reservation that is kept with an end.
const LONGEST: u64 = 100 * 365 * 24 * 60 * 60;

/// Which fields of a list to set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mask {
    pub(super) capacity: bool,
    pub(super) values: bool,
}

impl Mask {
    /// Reads the names of fields. None at all is the capacity: a published client sends that.
    pub(super) fn read<'a>(
        paths: impl Iterator<Item = &'a str>,
        list: &beta::List,
    ) -> Result<Self, Refusal> {
        let mut mask = Self::default();
        let mut is_empty = true;
        for path in paths {
            is_empty = false;
            match path {
                "capacity" => mask.capacity = true,
                "values" => mask.values = true,
                "name" => {}
                other => return Err(unknown_field(other)),
            }
        }
        if is_empty && !list.values.is_empty() {
            return Err(Refusal::argument("update_mask: expected capacity, values or both"));
        }
        mask.capacity |= is_empty;
        Ok(mask)
    }
}

/// The stable service.
impl Core {
    pub(super) async fn set_ready(&self) -> Result<(), Refusal> {
        self.attend().await?;
        self.record(Call::Ready);
        self.request_state(self.ready())
    }

    pub(super) async fn allocate(&self) -> Result<(), Refusal> {
        self.attend().await?;
        self.record(Call::Allocate);
        self.request_state(RequestedState::Allocated)
    }

    pub(super) async fn shutdown(&self) -> Result<(), Refusal> {
        self.attend().await?;
        self.record(Call::Shutdown);
        self.request_state(RequestedState::Shutdown)
    }

    /// Reserves for some seconds; 0 and less is until told otherwise.
    pub(super) async fn reserve(&self, seconds: i64) -> Result<(), Refusal> {
        self.attend().await?;
        self.record(Call::Reserve);
        let seconds = u64::try_from(seconds).unwrap_or(0).min(LONGEST);
        self.request_state(RequestedState::Reserved(
            (seconds > 0).then(|| Duration::from_secs(seconds)),
        ))
    }

    pub(super) async fn game_server(&self) -> Result<sdk::GameServer, Refusal> {
        self.attend().await?;
        self.record(Call::GameServer);
        Ok(message::of(&self.current()?))
    }

    pub(super) async fn set_label(&self, key: &str, value: &str) -> Result<(), Refusal> {
        self.attend().await?;
        let bad_key = |problem| Refusal::Invalid(format!("invalid label key {key:?}: {problem}"));
        let bad_value = |problem| {
            Refusal::Invalid(format!("invalid label value {value:?} for key {key:?}: {problem}"))
        };
        let full = sdk_label(key, "").map_err(bad_key)?;
        sdk_label(key, value).map_err(bad_value)?;
        self.change(|server, changes| {
            self.record(Call::SetLabel { server, value });
            changes.labels.insert(full, value.to_owned());
            Ok(())
        })
    }

    pub(super) async fn set_annotation(&self, key: &str, value: &str) -> Result<(), Refusal> {
        self.attend().await?;
        let bad_key =
            |problem| Refusal::Invalid(format!("invalid annotation key {key:?}: {problem}"));
        let full = sdk_annotation(key, "").map_err(bad_key)?;
        self.change_text(|server, changes| {
            self.record(Call::SetAnnotation { server, value });
            changes.annotations.insert(full, value.to_owned());
            Ok(())
        })
    }

    /// Notes a sign of life.
    pub(super) fn ping(&self) {
        self.note_call();
        self.record(Call::Health);
        self.pulse.beat();
    }

    fn record(&self, call: Call<'_>) {
        if let Some(recorder) = &self.recorder {
            recorder.record(&call);
        }
    }
}

/// Counters and lists.
impl Core {
    pub(super) async fn counter(&self, name: &str) -> Result<beta::Counter, Refusal> {
        self.attend().await?;
        self.record(Call::GetCounter);
        let counter = changes::counter(&self.current()?, name);
        let counter = counter.ok_or_else(|| Refusal::no_counter(name, self.writes))?;
        let (count, capacity) = (counter.count, counter.capacity);
        Ok(beta::Counter { name: name.to_owned(), count, capacity })
    }

    pub(super) async fn update_counter(
        &self,
        asked: beta::CounterUpdateRequest,
    ) -> Result<beta::Counter, Refusal> {
        self.attend().await?;
        let update =
            CounterUpdate { capacity: asked.capacity, count: asked.count, diff: asked.count_diff };
        let name = asked.name;
        let counter = self.change(|server, changes| {
            let stored = changes::counter(server, &name);
            let stored = stored.ok_or_else(|| Refusal::no_counter(&name, self.writes))?;
            let mut pending = changes.counters.get(&name).copied().unwrap_or_default();
            let counter = pending
                .update(stored, update)
                .map_err(|rejected| Refusal::about(Subject::Counter(&name), rejected))?;
            changes.counters.insert(name.clone(), pending);
            Ok(counter)
        })?;
        self.record(Call::UpdateCounter(update));
        Ok(beta::Counter { name, count: counter.count, capacity: counter.capacity })
    }

    pub(super) async fn list(&self, name: &str) -> Result<beta::List, Refusal> {
        self.attend().await?;
        self.record(Call::GetList);
        let list = changes::list(&self.current()?, name);
        let list = list.ok_or_else(|| Refusal::no_list(name, self.writes))?;
        Ok(list_message(name.to_owned(), &list))
    }

    pub(super) async fn update_list(
        &self,
        asked: beta::List,
        mask: Mask,
    ) -> Result<beta::List, Refusal> {
        self.attend().await?;
        let capacity = mask.capacity.then_some(asked.capacity);
        let values: Vec<Arc<str>> = asked.values.iter().map(|v| v.as_str().into()).collect();
        let values = mask.values.then_some(&*values);
        let list = self.change_list(asked.name, None, |stored, pending| {
            pending.replace(stored, capacity, values)
        })?;
        self.record(Call::UpdateList);
        Ok(list)
    }

    pub(super) async fn add_value(&self, name: String, value: &str) -> Result<beta::List, Refusal> {
        self.attend().await?;
        let add = |stored: &List, pending: &mut PendingList| pending.add(stored, value.into());
        let list = self.change_list(name, Some(value), add)?;
        self.record(Call::AddListValue);
        Ok(list)
    }

    pub(super) async fn remove_value(
        &self,
        name: String,
        value: &str,
    ) -> Result<beta::List, Refusal> {
        self.attend().await?;
        let remove = |stored: &List, pending: &mut PendingList| pending.remove(stored, value);
        let list = self.change_list(name, Some(value), remove)?;
        self.record(Call::RemoveListValue);
        Ok(list)
    }

    fn change_list(
        &self,
        name: String,
        value: Option<&str>,
        with: impl FnOnce(&List, &mut PendingList) -> Result<List, Rejected>,
    ) -> Result<beta::List, Refusal> {
        let list = self.change_text(|server, changes| {
            let stored = changes::list(server, &name);
            // Setting a list has the words of local mode everywhere.
            let words = value.map_or(Writes::Here, |_| self.writes);
            let stored = stored.ok_or_else(|| Refusal::no_list(&name, words))?;
            let mut pending = changes.lists.get(&name).cloned().unwrap_or_default();
            let list = with(&stored, &mut pending)
                .map_err(|r| Refusal::about(Subject::List(&name, value.unwrap_or_default()), r))?;
            changes.lists.insert(name.clone(), pending);
            Ok(list)
        })?;
        Ok(list_message(name, &list))
    }
}

/// Player tracking.
impl Core {
    pub(super) async fn players(&self) -> Result<List, Refusal> {
        self.attend().await?;
        Ok(changes::players(&self.current()?))
    }

    pub(super) async fn player_capacity(&self) -> Result<i64, Refusal> {
        self.record(Call::GetPlayerCapacity);
        Ok(self.players().await?.capacity)
    }

    pub(super) async fn player_count(&self) -> Result<i64, Refusal> {
        self.record(Call::GetPlayerCount);
        Ok(self.players().await?.len())
    }

    pub(super) async fn connected_players(&self) -> Result<Vec<String>, Refusal> {
        self.record(Call::GetConnectedPlayers);
        Ok(self.players().await?.values.iter().map(ToString::to_string).collect())
    }

    pub(super) async fn is_player_connected(&self, id: &str) -> Result<bool, Refusal> {
        self.record(Call::IsPlayerConnected { id });
        Ok(self.players().await?.contains(id))
    }

    pub(super) async fn set_player_capacity(&self, capacity: i64) -> Result<(), Refusal> {
        self.attend().await?;
        self.record(Call::SetPlayerCapacity);
        self.change(|_, changes| changes.players.set_capacity(capacity).map_err(of_players))
    }

    pub(super) async fn player_connect(&self, id: &str) -> Result<bool, Refusal> {
        self.attend().await?;
        self.change_text(|server, changes| {
            let stored = changes::players(server);
            let is_new = changes.players.connect(&stored, id).map_err(of_players)?;
            self.record(Call::PlayerConnect { now: &changes.players.onto(&stored) });
            Ok(is_new)
        })
    }

    pub(super) async fn player_disconnect(&self, id: &str) -> Result<bool, Refusal> {
        self.attend().await?;
        self.change(|server: &GameServer, changes: &mut Changes| {
            let stored = changes::players(server);
            let was_there = changes.players.disconnect(&stored, id);
            self.record(Call::PlayerDisconnect { now: &changes.players.onto(&stored) });
            Ok(was_there)
        })
    }

    /// Notes that somebody watches.
    pub(super) async fn watching(
        &self,
    ) -> Result<impl futures::Stream<Item = Arc<sdk::GameServer>> + Send + use<>, Refusal> {
        self.attend().await?;
        self.record(Call::Watch);
        self.watch()
    }
}

fn list_message(name: String, list: &List) -> beta::List {
    let values = list.values.iter().map(ToString::to_string).collect();
    beta::List { name, capacity: list.capacity, values }
}

fn unknown_field(path: &str) -> Refusal {
    let valid = "Use valid field name(s): name, capacity, values";
    Refusal::argument(format!("Field Mask Path(s): {path} are invalid for List. {valid}"))
}

fn of_players(rejected: Rejected) -> Refusal {
    Refusal::about(Subject::Players, rejected)
}
