//! Did a client make the calls that its conformance test is to make?

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use api::agones::GameServer;
use decide::gameserver::List;
use decide::gameserver::sdk::CounterUpdate;

/// The player that conformance tests let in.
const PLAYER: &str = "1234";

/// A call, with what tells whether it was the right one.
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
    /// Gives the names that conformance tests know the call by; none when it was not the right one.
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
        if self.is_right() { vec![name] } else { Vec::new() }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only some calls have anything to check")]
    fn is_right(&self) -> bool {
        match self {
            Self::SetLabel { server, value } => {
                let made = server.metadata.creation_timestamp.as_ref();
                made.is_some_and(|made| made.0.as_second().to_string() == *value)
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
    parts.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name).collect()
}

/// Keeps the names of the calls that came, and knows which should.
pub(super) struct Recorder {
    expected: BTreeSet<String>,
    seen: Mutex<BTreeSet<&'static str>>,
}

impl Recorder {
    /// Expects calls by name.
    pub(super) fn new(expected: impl IntoIterator<Item = String>) -> Self {
        Self { expected: expected.into_iter().collect(), seen: Mutex::default() }
    }

    pub(super) fn record(&self, call: &Call<'_>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend(call.names());
    }

    /// Compares what came with what should: as sets, so that order and repeats do not count.
    pub(super) fn verdict(&self) -> Result<(), String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let list =
            |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(",") };
        let missing = self.expected.iter().map(String::as_str).filter(|name| !seen.contains(name));
        let missing: Vec<_> = missing.collect();
        let extra: Vec<_> = seen.iter().copied().filter(|n| !self.expected.contains(*n)).collect();
        if missing.is_empty() && extra.is_empty() {
            return Ok(());
        }
        Err(format!(
            "calls that did not come: {}; calls not expected: {}",
            list(missing),
            list(extra)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_repeats_do_not_count_but_missing_and_extra_calls_do() {
        let recorder = Recorder::new(["ready".to_owned(), "updatecounter".to_owned()]);
        let diff = CounterUpdate { diff: 1, ..CounterUpdate::default() };
        recorder.record(&Call::UpdateCounter(diff));
        recorder.record(&Call::UpdateCounter(diff));
        let missing = recorder.verdict().unwrap_err();
        assert_eq!(missing, "calls that did not come: ready; calls not expected: none");
        recorder.record(&Call::Ready);
        assert_eq!(recorder.verdict(), Ok(()));
        recorder.record(&Call::Watch);
        assert!(recorder.verdict().is_err());
    }

    #[test]
    fn a_call_with_the_wrong_value_does_not_count() {
        let mut server = GameServer::default();
        server.metadata.uid = Some("42".to_owned());
        let server = &server;
        assert!(Call::SetAnnotation { server, value: "41" }.names().is_empty());
        assert_eq!(Call::SetAnnotation { server, value: "42" }.names(), ["setannotation"]);
        assert!(Call::SetLabel { server, value: "0" }.names().is_empty(), "it has no time");
    }
}
