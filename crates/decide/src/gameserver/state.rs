//! The states of a game server.

use std::fmt;

/// `status.state` of a game server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Waiting for host ports.
    PortAllocation,
    /// Its pod is about to be created.
    Creating,
    /// Its pod is created and not scheduled.
    Starting,
    /// Its pod has a node and an address.
    Scheduled,
    /// The SDK's `Ready()` was called.
    RequestReady,
    /// It can be allocated.
    Ready,
    /// It is in use by players.
    Allocated,
    /// Reserved by its own process, perhaps for a while.
    Reserved,
    /// It is to be deleted.
    Shutdown,
    /// Its pod could not be created.
    Error,
    /// Its health check failed, or it lost its pod.
    Unhealthy,
    /// A state unknown to this version; it counts as a running server.
    Unknown,
}

impl State {
    /// All known states.
    pub const NAMED: [Self; 11] = [
        Self::PortAllocation,
        Self::Creating,
        Self::Starting,
        Self::Scheduled,
        Self::RequestReady,
        Self::Ready,
        Self::Allocated,
        Self::Reserved,
        Self::Shutdown,
        Self::Error,
        Self::Unhealthy,
    ];

    /// Parses `status.state`.
    pub fn parse(word: &str) -> Self {
        Self::NAMED.into_iter().find(|s| s.as_str() == word).unwrap_or(Self::Unknown)
    }

    /// Returns the value of `status.state`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PortAllocation => "PortAllocation",
            Self::Creating => "Creating",
            Self::Starting => "Starting",
            Self::Scheduled => "Scheduled",
            Self::RequestReady => "RequestReady",
            Self::Ready => "Ready",
            Self::Allocated => "Allocated",
            Self::Reserved => "Reserved",
            Self::Shutdown => "Shutdown",
            Self::Error => "Error",
            Self::Unhealthy => "Unhealthy",
            Self::Unknown => "Unknown",
        }
    }

    /// Returns whether the server was never Ready.
    pub fn is_before_ready(self) -> bool {
        self.is_before_pod_runs() || self == Self::RequestReady
    }

    /// Returns whether the server's pod does not run yet: such servers count as pending.
    pub fn is_before_pod_runs(self) -> bool {
        self.is_before_pod() || self == Self::Scheduled
    }

    /// Returns whether the server may have no pod yet.
    pub fn is_before_pod(self) -> bool {
        matches!(self, Self::PortAllocation | Self::Creating | Self::Starting)
    }

    /// Returns whether players are or may be connected.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Ready | Self::Reserved | Self::Allocated)
    }

    /// Returns whether the server is Allocated or Reserved.
    pub fn is_in_use(self) -> bool {
        matches!(self, Self::Allocated | Self::Reserved)
    }

    /// Returns whether only its set or a person can end this state.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Shutdown | Self::Error | Self::Unhealthy)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_round_trips() {
        for state in State::NAMED {
            assert_eq!(State::parse(state.as_str()), state);
        }
        assert_eq!(State::parse("Paused"), State::Unknown);
        assert_eq!(State::parse("ready"), State::Unknown, "case matters, as on the wire");
    }

    #[test]
    fn states_are_grouped_as_documented() {
        use State::{Allocated, Creating, Error, PortAllocation, Ready, RequestReady, Reserved};
        use State::{Scheduled, Shutdown, Starting, Unhealthy};
        let of = |is: fn(State) -> bool| -> Vec<State> {
            State::NAMED.into_iter().filter(|s| is(*s)).collect()
        };
        let before_ready = vec![PortAllocation, Creating, Starting, Scheduled, RequestReady];
        assert_eq!(of(State::is_before_ready), before_ready);
        assert_eq!(of(State::is_before_pod), vec![PortAllocation, Creating, Starting]);
        assert_eq!(of(State::is_active), vec![Ready, Allocated, Reserved]);
        assert_eq!(of(State::is_terminal), vec![Shutdown, Error, Unhealthy]);
    }
}
