//! The states a game server goes through, and what each means to those who count servers.

use std::fmt;

/// `status.state` of a game server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Waiting for host ports.
    PortAllocation,
    /// Its pod is about to be made.
    Creating,
    /// Its pod is made and has no node yet.
    Starting,
    /// Its pod has a node and an address.
    Scheduled,
    /// Its process said that it is ready.
    RequestReady,
    /// Players may be sent to it.
    Ready,
    /// Players are on it.
    Allocated,
    /// Held back by its own process, perhaps for a while.
    Reserved,
    /// Told to go away.
    Shutdown,
    /// Its pod could not be made.
    Error,
    /// It stopped answering, or lost its pod.
    Unhealthy,
    /// A state that this version has no name for; it counts as a server that is up.
    Unknown,
}

impl State {
    /// Every state with a name.
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

    /// Reads the word in `status.state`.
    pub fn parse(word: &str) -> Self {
        Self::NAMED.into_iter().find(|s| s.as_str() == word).unwrap_or(Self::Unknown)
    }

    /// Gives the word in `status.state`.
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

    /// Whether the server has yet to become Ready for the first time.
    pub fn is_before_ready(self) -> bool {
        self.is_before_pod_runs() || self == Self::RequestReady
    }

    /// Whether the server still waits for its pod to be somewhere: what counts as pending.
    pub fn is_before_pod_runs(self) -> bool {
        self.is_before_pod() || self == Self::Scheduled
    }

    /// Whether the server may lack a pod without that being a fault.
    pub fn is_before_pod(self) -> bool {
        matches!(self, Self::PortAllocation | Self::Creating | Self::Starting)
    }

    /// Whether players are or may be on the server.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Ready | Self::Reserved | Self::Allocated)
    }

    /// Whether somebody counts on this very server: players are on it, or it is held for them.
    pub fn is_in_use(self) -> bool {
        matches!(self, Self::Allocated | Self::Reserved)
    }

    /// Whether only a set or a person can move the server on.
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
    fn every_state_is_read_back_from_its_word() {
        for state in State::NAMED {
            assert_eq!(State::parse(state.as_str()), state);
        }
        assert_eq!(State::parse("Paused"), State::Unknown);
        assert_eq!(State::parse("ready"), State::Unknown, "case matters, as on the wire");
    }

    #[test]
    fn states_are_grouped_as_the_sheet_groups_them() {
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
