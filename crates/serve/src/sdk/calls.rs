//! The calls of the SDK, for both transports.

use std::sync::Arc;
use std::time::Duration;

use api::agones::{GameServer, sdk_annotation, sdk_label};
use decide::gameserver::List;
use decide::gameserver::sdk::{CounterUpdate, PendingList, Rejected};

use super::changes::{self, Changes, RequestedState};
use super::conformance::Call;
use super::core::{Core, WriteMode};
use super::error::{CallError, Subject};
use super::message;
use crate::proto::{beta, sdk};

/// The longest reservation with an end, in seconds.
const MAX_RESERVATION: u64 = 100 * 365 * 24 * 60 * 60;

/// The fields of a list to update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mask {
    pub(super) capacity: bool,
    pub(super) values: bool,
}

impl Mask {
    /// Parses field names. An empty mask means the capacity, as one of the published clients sends it.
    pub(super) fn read<'a>(
        paths: impl Iterator<Item = &'a str>,
        list: &beta::List,
    ) -> Result<Self, CallError> {
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
            return Err(CallError::invalid_argument(
                "update_mask: expected capacity, values or both",
            ));
        }
        mask.capacity |= is_empty;
        Ok(mask)
    }
}

/// The stable service.
impl Core {
    pub(super) async fn set_ready(&self) -> Result<(), CallError> {
        self.begin_call().await?;
        self.record(Call::Ready);
        self.request_state(self.ready_request())
    }

    pub(super) async fn allocate(&self) -> Result<(), CallError> {
        self.begin_call().await?;
        self.record(Call::Allocate);
        self.request_state(RequestedState::Allocated)
    }

    pub(super) async fn shutdown(&self) -> Result<(), CallError> {
        self.begin_call().await?;
        self.record(Call::Shutdown);
        self.request_state(RequestedState::Shutdown)
    }

    /// Reserves for a number of seconds; without an end if that is not positive.
    pub(super) async fn reserve(&self, seconds: i64) -> Result<(), CallError> {
        self.begin_call().await?;
        self.record(Call::Reserve);
        let seconds = u64::try_from(seconds).unwrap_or(0).min(MAX_RESERVATION);
        self.request_state(RequestedState::Reserved(
            (seconds > 0).then(|| Duration::from_secs(seconds)),
        ))
    }

    pub(super) async fn game_server(&self) -> Result<sdk::GameServer, CallError> {
        self.begin_call().await?;
        self.record(Call::GameServer);
        Ok(message::from_object(&self.current()?))
    }

    pub(super) async fn set_label(&self, key: &str, value: &str) -> Result<(), CallError> {
        self.begin_call().await?;
        let bad_key = |problem| CallError::Invalid(format!("invalid label key {key:?}: {problem}"));
        let bad_value = |problem| {
            CallError::Invalid(format!("invalid label value {value:?} for key {key:?}: {problem}"))
        };
        let full = sdk_label(key, "").map_err(bad_key)?;
        sdk_label(key, value).map_err(bad_value)?;
        self.change(|server, changes| {
            self.record(Call::SetLabel { server, value });
            changes.labels.insert(full, value.to_owned());
            Ok(())
        })
    }

    pub(super) async fn set_annotation(&self, key: &str, value: &str) -> Result<(), CallError> {
        self.begin_call().await?;
        let bad_key =
            |problem| CallError::Invalid(format!("invalid annotation key {key:?}: {problem}"));
        let full = sdk_annotation(key, "").map_err(bad_key)?;
        self.change_checking_size(|server, changes| {
            self.record(Call::SetAnnotation { server, value });
            changes.annotations.insert(full, value.to_owned());
            Ok(())
        })
    }

    /// Records a health ping.
    pub(super) fn ping(&self) {
        self.record_call();
        self.record(Call::Health);
        self.heartbeat.ping();
    }

    fn record(&self, call: Call<'_>) {
        if let Some(recorder) = &self.recorder {
            recorder.record(&call);
        }
    }
}

/// Counters and lists.
impl Core {
    pub(super) async fn counter(&self, name: &str) -> Result<beta::Counter, CallError> {
        self.begin_call().await?;
        self.record(Call::GetCounter);
        let counter = changes::counter(&self.current()?, name);
        let counter = counter.ok_or_else(|| CallError::counter_not_found(name, self.write_mode))?;
        let (count, capacity) = (counter.count, counter.capacity);
        Ok(beta::Counter { name: name.to_owned(), count, capacity })
    }

    pub(super) async fn update_counter(
        &self,
        request: beta::CounterUpdateRequest,
    ) -> Result<beta::Counter, CallError> {
        self.begin_call().await?;
        let update = CounterUpdate {
            capacity: request.capacity,
            count: request.count,
            diff: request.count_diff,
        };
        let name = request.name;
        let counter = self.change(|server, changes| {
            let stored = changes::counter(server, &name);
            let stored =
                stored.ok_or_else(|| CallError::counter_not_found(&name, self.write_mode))?;
            let mut pending = changes.counters.get(&name).copied().unwrap_or_default();
            let counter = pending
                .update(stored, update)
                .map_err(|rejected| CallError::rejected(Subject::Counter(&name), rejected))?;
            changes.counters.insert(name.clone(), pending);
            Ok(counter)
        })?;
        self.record(Call::UpdateCounter(update));
        Ok(beta::Counter { name, count: counter.count, capacity: counter.capacity })
    }

    pub(super) async fn list(&self, name: &str) -> Result<beta::List, CallError> {
        self.begin_call().await?;
        self.record(Call::GetList);
        let list = changes::list(&self.current()?, name);
        let list = list.ok_or_else(|| CallError::list_not_found(name, self.write_mode))?;
        Ok(list_message(name.to_owned(), &list))
    }

    pub(super) async fn update_list(
        &self,
        request: beta::List,
        mask: Mask,
    ) -> Result<beta::List, CallError> {
        self.begin_call().await?;
        let capacity = mask.capacity.then_some(request.capacity);
        let values: Vec<Arc<str>> = request.values.iter().map(|v| v.as_str().into()).collect();
        let values = mask.values.then_some(&*values);
        let list = self.change_list(request.name, None, |stored, pending| {
            pending.replace(stored, capacity, values)
        })?;
        self.record(Call::UpdateList);
        Ok(list)
    }

    pub(super) async fn add_list_value(
        &self,
        name: String,
        value: &str,
    ) -> Result<beta::List, CallError> {
        self.begin_call().await?;
        let add = |stored: &List, pending: &mut PendingList| pending.add(stored, value.into());
        let list = self.change_list(name, Some(value), add)?;
        self.record(Call::AddListValue);
        Ok(list)
    }

    pub(super) async fn remove_list_value(
        &self,
        name: String,
        value: &str,
    ) -> Result<beta::List, CallError> {
        self.begin_call().await?;
        let remove = |stored: &List, pending: &mut PendingList| pending.remove(stored, value);
        let list = self.change_list(name, Some(value), remove)?;
        self.record(Call::RemoveListValue);
        Ok(list)
    }

    fn change_list(
        &self,
        name: String,
        value: Option<&str>,
        change: impl FnOnce(&List, &mut PendingList) -> Result<List, Rejected>,
    ) -> Result<beta::List, CallError> {
        let list = self.change_checking_size(|server, changes| {
            let stored = changes::list(server, &name);
            // Agones uses the message of local mode for UpdateList in both modes.
            let mode = value.map_or(WriteMode::Immediate, |_| self.write_mode);
            let stored = stored.ok_or_else(|| CallError::list_not_found(&name, mode))?;
            let mut pending = changes.lists.get(&name).cloned().unwrap_or_default();
            let list = change(&stored, &mut pending).map_err(|r| {
                CallError::rejected(Subject::List(&name, value.unwrap_or_default()), r)
            })?;
            changes.lists.insert(name.clone(), pending);
            Ok(list)
        })?;
        Ok(list_message(name, &list))
    }
}

/// Player tracking.
impl Core {
    pub(super) async fn players(&self) -> Result<List, CallError> {
        self.begin_call().await?;
        Ok(changes::players(&self.current()?))
    }

    pub(super) async fn player_capacity(&self) -> Result<i64, CallError> {
        self.record(Call::GetPlayerCapacity);
        Ok(self.players().await?.capacity)
    }

    pub(super) async fn player_count(&self) -> Result<i64, CallError> {
        self.record(Call::GetPlayerCount);
        Ok(self.players().await?.len())
    }

    pub(super) async fn connected_players(&self) -> Result<Vec<String>, CallError> {
        self.record(Call::GetConnectedPlayers);
        Ok(self.players().await?.values.iter().map(ToString::to_string).collect())
    }

    pub(super) async fn is_player_connected(&self, id: &str) -> Result<bool, CallError> {
        self.record(Call::IsPlayerConnected { id });
        Ok(self.players().await?.contains(id))
    }

    pub(super) async fn set_player_capacity(&self, capacity: i64) -> Result<(), CallError> {
        self.begin_call().await?;
        self.record(Call::SetPlayerCapacity);
        self.change(|_, changes| changes.players.set_capacity(capacity).map_err(player_error))
    }

    pub(super) async fn player_connect(&self, id: &str) -> Result<bool, CallError> {
        self.begin_call().await?;
        self.change_checking_size(|server, changes| {
            let stored = changes::players(server);
            let is_new = changes.players.connect(&stored, id).map_err(player_error)?;
            self.record(Call::PlayerConnect { now: &changes.players.onto(&stored) });
            Ok(is_new)
        })
    }

    pub(super) async fn player_disconnect(&self, id: &str) -> Result<bool, CallError> {
        self.begin_call().await?;
        self.change(|server: &GameServer, changes: &mut Changes| {
            let stored = changes::players(server);
            let was_connected = changes.players.disconnect(&stored, id);
            self.record(Call::PlayerDisconnect { now: &changes.players.onto(&stored) });
            Ok(was_connected)
        })
    }

    /// Streams the game server and its changes.
    pub(super) async fn watch_game_server(
        &self,
    ) -> Result<impl futures::Stream<Item = Arc<sdk::GameServer>> + Send + use<>, CallError> {
        self.begin_call().await?;
        self.record(Call::Watch);
        self.watch()
    }
}

fn list_message(name: String, list: &List) -> beta::List {
    let values = list.values.iter().map(ToString::to_string).collect();
    beta::List { name, capacity: list.capacity, values }
}

fn unknown_field(path: &str) -> CallError {
    let valid = "Use valid field name(s): name, capacity, values";
    CallError::invalid_argument(format!("Field Mask Path(s): {path} are invalid for List. {valid}"))
}

fn player_error(rejected: Rejected) -> CallError {
    CallError::rejected(Subject::Players, rejected)
}
