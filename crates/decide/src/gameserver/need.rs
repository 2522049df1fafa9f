//! Decides the next step for a game server, given its pod and the pod's node.

use super::{Event, State};

/// A game server and its pod, as last observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GameServerObservation {
    /// `status.state`.
    pub state: State,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// Whether it has our finalizer.
    pub has_finalizer: bool,
    /// Whether it was stored without its defaults, because admission did not run.
    pub lacks_defaults: bool,
    /// Whether it belongs to a set, which would replace it.
    pub is_in_set: bool,
    /// Whether it is marked as leaving, so that it gets no more players.
    pub is_leaving: bool,
    /// Whether it is a development server without a pod.
    pub is_dev: bool,
    /// Whether its address is set.
    pub has_address: bool,
    /// The pod that it owns.
    pub pod: Option<Pod>,
}

/// A game server's pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its health.
    pub health: PodHealth,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// Its placement.
    pub placement: PodPlacement,
}

/// The health of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodHealth {
    /// It runs or is starting.
    Healthy,
    /// All its containers succeeded.
    Succeeded,
    /// It failed, or was evicted.
    Failed,
}

/// The placement of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPlacement {
    /// It was not scheduled yet.
    Pending,
    /// No node fits.
    Unschedulable,
    /// On every fitting node its host ports are taken, and they can be reassigned.
    PortsTaken,
    /// Its node is unknown, has no address, or is being deleted.
    Unknown,
    /// Its node's address is known. If the server has an address, it is the same.
    Scheduled,
    /// Its node or address differs from the server's.
    Moved,
}

/// The next step for a game server. One step at a time: its result is observed before the next decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing, until something changes.
    Nothing,
    /// Apply the defaults that admission would have applied.
    ApplyDefaults,
    /// Create its pod, with its ports.
    CreatePod,
    /// Delete its pod, and reassign its ports for the next one.
    ReassignPorts,
    /// Mark it as leaving, so that it gets no more players.
    MarkLeaving,
    /// Delete its pod.
    DeletePod,
    /// Delete the server itself.
    Delete,
    /// Remove our finalizer.
    RemoveFinalizer,
    /// Set its address without changing its state.
    SetAddress,
    /// Change its state, and set the address and ports where they are known.
    Transition {
        /// The new state.
        to: State,
        /// The event.
        because: Event,
    },
}

/// Decides the next step for a game server.
pub fn next(observed: &GameServerObservation) -> Need {
    if observed.is_terminating {
        return terminating(observed);
    }
    if observed.lacks_defaults {
        return Need::ApplyDefaults;
    }
    if observed.state == State::Shutdown {
        return Need::Delete;
    }
    if observed.is_dev {
        return first(observed.state, &[Event::DevAddressKnown, Event::ReadyConfirmed]);
    }
    let Some(pod) = observed.pod else {
        return if observed.state.is_before_pod() {
            Need::CreatePod
        } else {
            first(observed.state, &[Event::PodLost])
        };
    };
    match pod.health {
        // A set would replace it at once by one that ends at once, so it counts as failed and is replaced with backoff.
        PodHealth::Succeeded if observed.is_in_set && observed.state.is_before_ready() => {
            first(observed.state, &[Event::PodEndedEarly])
        }
        PodHealth::Succeeded => first(observed.state, &[Event::PodSucceeded]),
        PodHealth::Failed => first(observed.state, &[Event::PodFailed]),
        PodHealth::Healthy if pod.is_terminating => pod_terminating(observed),
        PodHealth::Healthy => by_placement(observed, pod.placement),
    }
}

/// Decides for a server that is being deleted: it waits for the end of its pod.
fn terminating(observed: &GameServerObservation) -> Need {
    match observed.pod {
        Some(pod) if pod.is_terminating => Need::Nothing,
        Some(_) => Need::DeletePod,
        None if observed.has_finalizer => Need::RemoveFinalizer,
        None => Need::Nothing,
    }
}

/// Decides for a server whose pod is being deleted. It gets no more players; one in use stays until the pod is gone, and is lost then.
fn pod_terminating(observed: &GameServerObservation) -> Need {
    if observed.state.is_in_use() && !observed.is_leaving {
        return Need::MarkLeaving;
    }
    first(observed.state, &[Event::PodLeaves])
}

/// Decides by the placement of the pod.
fn by_placement(observed: &GameServerObservation, placement: PodPlacement) -> Need {
    match placement {
        PodPlacement::Pending | PodPlacement::Unknown => Need::Nothing,
        PodPlacement::Unschedulable => first(observed.state, &[Event::PodCreated]),
        PodPlacement::PortsTaken => {
            let need = first(observed.state, &[Event::PodCreated]);
            let is_waiting = need == Need::Nothing && observed.state.is_before_pod();
            if is_waiting { Need::ReassignPorts } else { need }
        }
        PodPlacement::Scheduled | PodPlacement::Moved if !observed.has_address => {
            let moved = first(observed.state, &[Event::PodScheduled, Event::ReadyConfirmed]);
            // The SDK may report it as in use before its address is set.
            if moved == Need::Nothing && !observed.state.is_terminal() {
                Need::SetAddress
            } else {
                moved
            }
        }
        PodPlacement::Scheduled => {
            first(observed.state, &[Event::PodScheduled, Event::ReadyConfirmed])
        }
        PodPlacement::Moved if observed.state == State::Scheduled => Need::SetAddress,
        PodPlacement::Moved => {
            first(observed.state, &[Event::Moved, Event::PodScheduled, Event::ReadyConfirmed])
        }
    }
}

/// Returns the transition of the first of `events` that causes one.
fn first(state: State, events: &[Event]) -> Need {
    let moves = events.iter().filter_map(|because| Some((state.after(*because)?, *because)));
    let mut moves = moves.map(|(to, because)| Need::Transition { to, because });
    moves.next().unwrap_or(Need::Nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(state: State, pod: Option<Pod>) -> GameServerObservation {
        GameServerObservation {
            state,
            is_terminating: false,
            has_finalizer: true,
            lacks_defaults: false,
            is_in_set: false,
            is_leaving: false,
            is_dev: false,
            has_address: false,
            pod,
        }
    }

    fn pod(placement: PodPlacement) -> Option<Pod> {
        Some(Pod { health: PodHealth::Healthy, is_terminating: false, placement })
    }

    fn moved(to: State, because: Event) -> Need {
        Need::Transition { to, because }
    }

    #[test]
    fn a_server_gets_a_pod_an_address_and_becomes_ready() {
        for state in [State::PortAllocation, State::Creating, State::Starting] {
            assert_eq!(next(&server(state, None)), Need::CreatePod);
            assert_eq!(next(&server(state, pod(PodPlacement::Pending))), Need::Nothing);
            let scheduled = moved(State::Scheduled, Event::PodScheduled);
            assert_eq!(next(&server(state, pod(PodPlacement::Scheduled))), scheduled);
            assert_eq!(next(&server(state, pod(PodPlacement::Unknown))), Need::Nothing);
        }
        let asked = server(State::RequestReady, pod(PodPlacement::Scheduled));
        assert_eq!(next(&asked), moved(State::Ready, Event::ReadyConfirmed));
        let waits = server(State::PortAllocation, pod(PodPlacement::Unschedulable));
        assert_eq!(next(&waits), moved(State::Starting, Event::PodCreated));
    }

    #[test]
    fn a_server_in_use_early_still_gets_its_address() {
        let mut early = server(State::Allocated, pod(PodPlacement::Scheduled));
        assert_eq!(next(&early), Need::SetAddress);
        early.has_address = true;
        assert_eq!(next(&early), Need::Nothing);
    }

    #[test]
    fn a_server_without_its_pod_is_unhealthy() {
        for state in [State::Scheduled, State::RequestReady, State::Ready, State::Allocated] {
            assert_eq!(next(&server(state, None)), moved(State::Unhealthy, Event::PodLost));
            let failed = Pod {
                health: PodHealth::Failed,
                is_terminating: true,
                placement: PodPlacement::Scheduled,
            };
            let failed = server(state, Some(failed));
            assert_eq!(next(&failed), moved(State::Unhealthy, Event::PodFailed));
        }
        for state in [State::Unhealthy, State::Error] {
            assert_eq!(next(&server(state, None)), Need::Nothing);
        }
    }

    #[test]
    fn a_succeeded_pod_shuts_its_server_down() {
        let ended = Pod {
            health: PodHealth::Succeeded,
            is_terminating: false,
            placement: PodPlacement::Scheduled,
        };
        let need = next(&server(State::Ready, Some(ended)));
        assert_eq!(need, moved(State::Shutdown, Event::PodSucceeded));
    }

    #[test]
    fn a_pod_that_ends_before_ready_is_a_failure_in_a_set() {
        let ended = Pod {
            health: PodHealth::Succeeded,
            is_terminating: false,
            placement: PodPlacement::Scheduled,
        };
        for (is_in_set, state, need) in [
            (true, State::Scheduled, moved(State::Unhealthy, Event::PodEndedEarly)),
            (true, State::Ready, moved(State::Shutdown, Event::PodSucceeded)),
            (true, State::Allocated, moved(State::Shutdown, Event::PodSucceeded)),
            (false, State::Scheduled, moved(State::Shutdown, Event::PodSucceeded)),
            (false, State::Unhealthy, Need::Nothing),
            (true, State::Unhealthy, Need::Nothing),
        ] {
            let mut server = server(state, Some(ended));
            server.is_in_set = is_in_set;
            assert_eq!(next(&server), need, "{state} {is_in_set}");
        }
    }

    #[test]
    fn a_server_with_a_terminating_pod_gets_no_more_players() {
        let going = Pod {
            health: PodHealth::Healthy,
            is_terminating: true,
            placement: PodPlacement::Scheduled,
        };
        for state in [State::Scheduled, State::RequestReady, State::Ready] {
            let need = next(&server(state, Some(going)));
            assert_eq!(need, moved(State::Unhealthy, Event::PodLeaves), "{state}");
        }
        for state in [State::Allocated, State::Reserved] {
            let mut server = server(state, Some(going));
            assert_eq!(next(&server), Need::MarkLeaving, "{state}: it keeps its players");
            server.is_leaving = true;
            assert_eq!(next(&server), Need::Nothing, "{state}");
        }
        for state in [State::PortAllocation, State::Starting, State::Unhealthy] {
            assert_eq!(next(&server(state, Some(going))), Need::Nothing, "{state}");
        }
    }

    #[test]
    fn a_server_whose_ports_are_taken_everywhere_gets_others() {
        let mut waits = server(State::PortAllocation, pod(PodPlacement::PortsTaken));
        assert_eq!(next(&waits), moved(State::Starting, Event::PodCreated));
        waits.state = State::Starting;
        assert_eq!(next(&waits), Need::ReassignPorts);
    }

    #[test]
    fn a_server_without_defaults_gets_them_first() {
        let mut bare = server(State::PortAllocation, None);
        bare.lacks_defaults = true;
        assert_eq!(next(&bare), Need::ApplyDefaults);
        bare.is_terminating = true;
        assert_eq!(next(&bare), Need::RemoveFinalizer, "one that goes needs none");
    }

    #[test]
    fn a_moved_pod_changes_the_address_until_the_server_is_ready() {
        let at = |state| {
            let mut server = server(state, pod(PodPlacement::Moved));
            server.has_address = true;
            next(&server)
        };
        assert_eq!(at(State::Scheduled), Need::SetAddress);
        assert_eq!(at(State::RequestReady), moved(State::Ready, Event::ReadyConfirmed));
        for state in [State::Ready, State::Allocated, State::Reserved] {
            assert_eq!(at(state), moved(State::Unhealthy, Event::Moved));
        }
    }

    #[test]
    fn a_server_is_deleted_after_its_pod() {
        assert_eq!(next(&server(State::Shutdown, pod(PodPlacement::Scheduled))), Need::Delete);
        let mut going = server(State::Shutdown, pod(PodPlacement::Scheduled));
        going.is_terminating = true;
        assert_eq!(next(&going), Need::DeletePod);
        going.pod.as_mut().unwrap().is_terminating = true;
        assert_eq!(next(&going), Need::Nothing);
        going.pod = None;
        assert_eq!(next(&going), Need::RemoveFinalizer);
        going.has_finalizer = false;
        assert_eq!(next(&going), Need::Nothing);
    }

    #[test]
    fn a_development_server_is_ready_without_a_pod() {
        let mut dev = server(State::Creating, None);
        dev.is_dev = true;
        assert_eq!(next(&dev), moved(State::Ready, Event::DevAddressKnown));
        dev.state = State::Ready;
        assert_eq!(next(&dev), Need::Nothing);
    }
}
