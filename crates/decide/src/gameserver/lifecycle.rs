//! The state machine of a game server.

use super::State;

/// An event in the life of a game server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Its host ports were assigned.
    PortsAllocated,
    /// Its pod exists and is not scheduled.
    PodCreated,
    /// Its pod was rejected by the API as invalid or forbidden.
    PodRefused,
    /// It is a development server without a pod, and its address is set.
    DevAddressKnown,
    /// Its pod is scheduled, and its address is set.
    PodScheduled,
    /// The SDK's `Ready()` was called, or its reservation ended.
    SdkReady,
    /// After `Ready()`, its address is set.
    ReadyConfirmed,
    /// The SDK's `Allocate()` was called.
    SdkAllocate,
    /// It was allocated.
    Allocated,
    /// The SDK's `Reserve()` was called.
    SdkReserve,
    /// The SDK's `Shutdown()` was called.
    SdkShutdown,
    /// Its pod succeeded.
    PodSucceeded,
    /// Its pod succeeded before it was ever Ready, and its set would create another just like it.
    PodEndedEarly,
    /// Its pod is being deleted, and not by us.
    PodLeaves,
    /// Its set scales it down.
    SetDeletes,
    /// Its health check failed.
    SdkUnhealthy,
    /// Its pod failed or was evicted.
    PodFailed,
    /// Its pod does not exist though it should.
    PodLost,
    /// Its pod is on another node, or its node has another address.
    Moved,
}

impl State {
    /// Returns the initial state of a server.
    pub fn first(needs_host_ports: bool) -> Self {
        if needs_host_ports { Self::PortAllocation } else { Self::Creating }
    }

    /// Returns the state after an event; `None` when the event causes no transition. Repeated allocation is a transition. Do not call
    /// it for a server that is being deleted. States that need no action may be skipped on the way to a node.
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
            Event::PodLeaves if self.requires_pod() && !self.is_in_use() => Self::Unhealthy,
            Event::PodLost if self.requires_pod() => Self::Unhealthy,
            Event::Moved if self.requires_pod() && !self.is_before_ready() => Self::Unhealthy,
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

    /// Returns whether the server is lost when its pod does not exist.
    pub fn requires_pod(self) -> bool {
        !self.is_before_pod() && !self.is_terminal()
    }

    fn only(self, from: Self, to: Self) -> Option<Self> {
        (self == from).then_some(to)
    }

    fn before_pod(self, to: Self) -> Option<Self> {
        self.is_before_pod().then_some(to)
    }

    /// Returns the state after an SDK call, which is ignored once the server is terminating or failed.
    fn by_sdk(self, to: Self) -> Option<Self> {
        (!matches!(self, Self::Shutdown | Self::Unhealthy)).then_some(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use State::{Allocated, Creating, Error, PortAllocation, Ready, RequestReady, Reserved};
    use State::{Scheduled, Shutdown, Starting, Unhealthy};

    /// Returns the states in which `event` causes a transition, and their next states.
    fn moves(event: Event) -> Vec<(State, State)> {
        State::NAMED.into_iter().filter_map(|s| Some((s, s.after(event)?))).collect()
    }

    #[test]
    fn the_controller_moves_a_server_one_state_at_a_time() {
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
    fn sdk_calls_are_ignored_once_a_server_is_terminating_or_failed() {
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
    fn only_ready_and_allocated_servers_can_be_allocated() {
        assert_eq!(moves(Event::Allocated), [(Ready, Allocated), (Allocated, Allocated)]);
    }

    #[test]
    fn a_started_server_is_lost_with_its_pod() {
        let lost: Vec<State> = moves(Event::PodLost).into_iter().map(|(from, _)| from).collect();
        assert_eq!(lost, [Scheduled, RequestReady, Ready, Allocated, Reserved]);
        let moved: Vec<State> = moves(Event::Moved).into_iter().map(|(from, _)| from).collect();
        assert_eq!(moved, [Ready, Allocated, Reserved], "before that only the address changes");
    }

    #[test]
    fn a_failed_pod_makes_any_server_unhealthy_that_has_not_failed() {
        let lost = moves(Event::PodFailed);
        assert_eq!(lost.len(), State::NAMED.len() - 3);
        assert!(lost.iter().all(|(from, to)| !from.is_terminal() && *to == Unhealthy));
    }

    #[test]
    fn a_failed_server_stays_failed_when_its_pod_succeeds() {
        let ended = moves(Event::PodSucceeded);
        assert_eq!(ended.len(), State::NAMED.len() - 3);
        assert!(ended.iter().all(|(from, to)| !from.is_terminal() && *to == Shutdown));
    }

    #[test]
    fn a_terminating_pod_shuts_down_servers_that_are_not_in_use() {
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
