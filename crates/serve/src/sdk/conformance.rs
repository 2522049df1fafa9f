//! Checks that a client made the calls of its conformance test.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use api::agones::GameServer;
use decide::gameserver::List;
use decide::gameserver::sdk::CounterUpdate;

/// The player id that conformance tests use.
const PLAYER: &str = "1234";

/// A call, with the values that conformance tests check.
pub(super) enum Call<'a> {
    Ready,
    Allocate,
    Shutdown,
    Reserve,
    Health,
    GameServer,
    Watch,
    SetLabel { server: &'a GameServer, value: &'a str },
    SetAnnotation { server: &'a GameServer, value: &'a str },
    GetCounter,
    UpdateCounter(CounterUpdate),
    GetList,
    UpdateList,
    AddListValue,
    RemoveListValue,
    GetPlayerCapacity,
    SetPlayerCapacity,
    GetPlayerCount,
    GetConnectedPlayers,
    IsPlayerConnected { id: &'a str },
    PlayerConnect { now: &'a List },
    PlayerDisconnect { now: &'a List },
}

impl Call<'_> {
    /// Returns the names of the call in conformance tests; none if its values are not the expected ones.
    fn names(&self) -> Vec<&'static str> {
        let name = match self {
            Self::Ready => "ready",
            Self::Allocate => "allocate",
            Self::Shutdown => "shutdown",
            Self::Reserve => "reserve",
            Self::Health => "health",
            Self::GameServer => "gameserver",
            Self::Watch => "watch",
            Self::SetLabel { .. } => "setlabel",
            Self::SetAnnotation { .. } => "setannotation",
            Self::GetCounter => "getcounter",
            Self::UpdateCounter(update) => return counter_names(*update),
            Self::GetList => "getlist",
            Self::UpdateList => "updatelist",
            Self::AddListValue => "addlistvalue",
            Self::RemoveListValue => "removelistvalue",
            Self::GetPlayerCapacity => "getplayercapacity",
            Self::SetPlayerCapacity => "setplayercapacity",
            Self::GetPlayerCount => "getplayercount",
            Self::GetConnectedPlayers => "getconnectedplayers",
            Self::IsPlayerConnected { .. } => "isplayerconnected",
            Self::PlayerConnect { .. } => "playerconnect",
            Self::PlayerDisconnect { .. } => "playerdisconnect",
        };
        if self.has_expected_values() { vec![name] } else { Vec::new() }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only some calls have anything to check")]
    fn has_expected_values(&self) -> bool {
        match self {
            Self::SetLabel { server, value } => {
                let created = server.metadata.creation_timestamp.as_ref();
                created.is_some_and(|created| created.0.as_second().to_string() == *value)
            }
            Self::SetAnnotation { server, value } => server.metadata.uid.as_deref() == Some(*value),
            Self::IsPlayerConnected { id } => *id == PLAYER,
            Self::PlayerConnect { now } => now.len() == 1 && now.contains(PLAYER),
            Self::PlayerDisconnect { now } => now.is_empty(),
            _ => true,
        }
    }
}

fn counter_names(update: CounterUpdate) -> Vec<&'static str> {
    let parts = [
        (update.diff != 0, "updatecounter"),
        (update.count.is_some(), "setcountcounter"),
        (update.capacity.is_some(), "setcapacitycounter"),
    ];
    parts.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name).collect()
}

/// Records the names of received calls, and compares them with the expected ones.
pub(super) struct Recorder {
    expected: BTreeSet<String>,
    received: Mutex<BTreeSet<&'static str>>,
}

impl Recorder {
    /// Returns a recorder that expects these calls.
    pub(super) fn new(expected: impl IntoIterator<Item = String>) -> Self {
        Self { expected: expected.into_iter().collect(), received: Mutex::default() }
    }

    pub(super) fn record(&self, call: &Call<'_>) {
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        received.extend(call.names());
    }

    /// Compares received and expected calls as sets; order and repetition do not matter.
    pub(super) fn result(&self) -> Result<(), String> {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let list =
            |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(",") };
        let missing =
            self.expected.iter().map(String::as_str).filter(|name| !received.contains(name));
        let missing: Vec<_> = missing.collect();
        let unexpected: Vec<_> =
            received.iter().copied().filter(|n| !self.expected.contains(*n)).collect();
        if missing.is_empty() && unexpected.is_empty() {
            return Ok(());
        }
        Err(format!("missing calls: {}; unexpected calls: {}", list(missing), list(unexpected)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_unexpected_calls_fail_whatever_the_order_and_repetition() {
        let recorder = Recorder::new(["ready".to_owned(), "updatecounter".to_owned()]);
        let diff = CounterUpdate { diff: 1, ..CounterUpdate::default() };
        recorder.record(&Call::UpdateCounter(diff));
        recorder.record(&Call::UpdateCounter(diff));
        let missing = recorder.result().unwrap_err();
        assert_eq!(missing, "missing calls: ready; unexpected calls: none");
        recorder.record(&Call::Ready);
        assert_eq!(recorder.result(), Ok(()));
        recorder.record(&Call::Watch);
        assert!(recorder.result().is_err());
    }

    #[test]
    fn a_call_with_the_wrong_value_does_not_count() {
        let mut server = GameServer::default();
        server.metadata.uid = Some("42".to_owned());
        let server = &server;
        assert!(Call::SetAnnotation { server, value: "41" }.names().is_empty());
        assert_eq!(Call::SetAnnotation { server, value: "42" }.names(), ["setannotation"]);
        assert!(
            Call::SetLabel { server, value: "0" }.names().is_empty(),
            "it has no creation time"
        );
    }
}
