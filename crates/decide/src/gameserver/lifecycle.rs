//! What moves a game server from state to state.

use super::State;

/// Something that happened to a game server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Its host ports were found and written.
    PortsAllocated,
    /// Its pod is there and waits for a node.
    PodCreated,
    /// Its pod cannot be made: the API says that it is invalid or forbidden.
    PodRefused,
    /// It runs on a developer's machine, without a pod, and its address is written.
    DevAddressKnown,
    /// Its pod has a node, and its address is written.
    PodScheduled,
    /// Its process said `Ready()`, or its reservation is over.
    SdkReady,
    /// What `Ready()` asked for is done: its address is there.
    ReadyConfirmed,
    /// Its process said `Allocate()`.
    SdkAllocate,
    /// A request got it.
    Allocated,
    /// Its process said `Reserve()`.
    SdkReserve,
    /// Its process said `Shutdown()`.
    SdkShutdown,
    /// Its pod ended of its own accord.
    PodSucceeded,
    /// Its pod ended of its own accord before it was ever Ready, and its set would make another just like it.
    PodEndedEarly,
    /// Its pod is being deleted, and not by us.
    PodLeaves,
    /// Its set has no use for it any more.
    SetDeletes,
    /// Its process stopped answering.
    SdkUnhealthy,
    /// Its pod failed or was evicted.
    PodFailed,
    /// Its pod is not there though it should be.
    PodLost,
    /// Its pod is on another node, or its node has another address.
    Moved,
}

impl State {
    /// Gives the state that a new server starts in.
    pub fn first(needs_host_ports: bool) -> Self {
        if needs_host_ports { Self::PortAllocation } else { Self::Creating }
    }

    /// Gives the state after an event, or nothing when the event does not move the server. Being allocated again is a move. A server that is marked for deletion
    /// is not moved by anything, and should not be asked about. States that nobody can act on may be passed over on the way to a node.
    pub fn after(self, event: Event) -> Option<Self> {
        let next = match event {
            Event::PortsAllocated => self.only(Self::PortAllocation, Self::Creating)?,
            Event::PodCreated => self.before_pod(Self::Starting)?,
            Event::PodRefused => self.before_pod(Self::Error)?,
            Event::DevAddressKnown => self.before_pod(Self::Ready)?,
            Event::PodScheduled => self.before_pod(Self::Scheduled)?,
            Event::ReadyConfirmed => self.only(Self::RequestReady, Self::Ready)?,
            Event::SdkReady => self.by_sdk(Self::RequestReady)?,
            Event::SdkAllocate => self.by_sdk(Self::Allocated)?,
            Event::SdkReserve => self.by_sdk(Self::Reserved)?,
            Event::SdkShutdown => self.by_sdk(Self::Shutdown)?,
            Event::SdkUnhealthy => self.by_sdk(Self::Unhealthy)?,
            Event::Allocated if matches!(self, Self::Ready | Self::Allocated) => Self::Allocated,
            Event::SetDeletes => Self::Shutdown,
            Event::PodSucceeded if !self.is_terminal() => Self::Shutdown,
            Event::PodFailed | Event::PodEndedEarly if !self.is_terminal() => Self::Unhealthy,
            Event::PodLeaves if self.misses_pod() && !self.is_in_use() => Self::Unhealthy,
            Event::PodLost if self.misses_pod() => Self::Unhealthy,
            Event::Moved if self.misses_pod() && !self.is_before_ready() => Self::Unhealthy,
            Event::Allocated
            | Event::PodSucceeded
            | Event::PodFailed
            | Event::PodEndedEarly
            | Event::PodLeaves
            | Event::PodLost
            | Event::Moved => return None,
        };
        (next != self || self == Self::Allocated).then_some(next)
    }

    /// Whether the server is lost when its pod is not there.
    pub fn misses_pod(self) -> bool {
        !self.is_before_pod() && !self.is_terminal()
    }

    fn only(self, from: Self, to: Self) -> Option<Self> {
        (self == from).then_some(to)
    }

    fn before_pod(self, to: Self) -> Option<Self> {
        self.is_before_pod().then_some(to)
    }

    /// What a process says counts for nothing once its server is on its way out or was given up.
    fn by_sdk(self, to: Self) -> Option<Self> {
        (!matches!(self, Self::Shutdown | Self::Unhealthy)).then_some(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use State::{Allocated, Creating, Error, PortAllocation, Ready, RequestReady, Reserved};
    use State::{Scheduled, Shutdown, Starting, Unhealthy};

    /// The states that `event` moves on, and where to.
    fn moves(event: Event) -> Vec<(State, State)> {
        State::NAMED.into_iter().filter_map(|s| Some((s, s.after(event)?))).collect()
    }

    #[test]
    fn the_controller_moves_a_server_one_step_at_a_time() {
        for (event, from, to) in [
            (Event::PortsAllocated, PortAllocation, Creating),
            (Event::ReadyConfirmed, RequestReady, Ready),
        ] {
            assert_eq!(moves(event), [(from, to)], "{event:?}");
        }
        for (event, to) in [
            (Event::PodRefused, Error),
            (Event::DevAddressKnown, Ready),
            (Event::PodScheduled, Scheduled),
        ] {
            let from = [PortAllocation, Creating, Starting];
            assert_eq!(moves(event), from.map(|from| (from, to)), "{event:?}");
        }
        assert_eq!(moves(Event::PodCreated), [PortAllocation, Creating].map(|s| (s, Starting)));
        assert_eq!(State::first(true), PortAllocation);
        assert_eq!(State::first(false), Creating);
    }

    #[test]
    fn the_sdk_is_ignored_once_a_server_is_going_or_given_up() {
        for (event, to) in [
            (Event::SdkReady, RequestReady),
            (Event::SdkAllocate, Allocated),
            (Event::SdkReserve, Reserved),
            (Event::SdkShutdown, Shutdown),
            (Event::SdkUnhealthy, Unhealthy),
        ] {
            for state in State::NAMED {
                let ignored = matches!(state, Shutdown | Unhealthy);
                let stays = state == to && to != Allocated;
                let expected = (!ignored && !stays).then_some(to);
                assert_eq!(state.after(event), expected, "{state} {event:?}");
            }
        }
    }

    #[test]
    fn requests_get_ready_and_allocated_servers_only() {
        assert_eq!(moves(Event::Allocated), [(Ready, Allocated), (Allocated, Allocated)]);
    }

    #[test]
    fn a_server_past_starting_is_lost_with_its_pod() {
        let lost: Vec<State> = moves(Event::PodLost).into_iter().map(|(from, _)| from).collect();
        assert_eq!(lost, [Scheduled, RequestReady, Ready, Allocated, Reserved]);
        let moved: Vec<State> = moves(Event::Moved).into_iter().map(|(from, _)| from).collect();
        assert_eq!(moved, [Ready, Allocated, Reserved], "before that only the address changes");
    }

    #[test]
    fn a_failed_pod_takes_any_server_with_it_that_is_not_given_up() {
        let lost = moves(Event::PodFailed);
        assert_eq!(lost.len(), State::NAMED.len() - 3);
        assert!(lost.iter().all(|(from, to)| !from.is_terminal() && *to == Unhealthy));
    }

    #[test]
    fn a_server_that_was_given_up_stays_so_when_its_pod_then_ends_well() {
        let ended = moves(Event::PodSucceeded);
        assert_eq!(ended.len(), State::NAMED.len() - 3);
        assert!(ended.iter().all(|(from, to)| !from.is_terminal() && *to == Shutdown));
    }

    #[test]
    fn a_pod_that_is_being_deleted_takes_servers_with_it_that_nobody_is_on() {
        let lost: Vec<State> = moves(Event::PodLeaves).into_iter().map(|(from, _)| from).collect();
        assert_eq!(lost, [Scheduled, RequestReady, Ready]);
    }

    #[test]
    fn a_set_may_shut_down_any_server() {
        assert!(
            State::NAMED
                .iter()
                .all(|s| *s == Shutdown || s.after(Event::SetDeletes) == Some(Shutdown))
        );
    }
}
