//! What a game server needs next, given its pod and the pod's node.

use super::{Event, State};

/// A game server and its pod, as last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `status.state`.
    pub state: State,
    /// Whether it is marked for deletion.
    pub is_marked: bool,
    /// Whether it has our finalizer.
    pub is_held: bool,
    /// Whether it was stored without its defaults: nothing admitted it.
    pub is_bare: bool,
    /// Whether a set made it, and would make another.
    pub is_in_set: bool,
    /// Whether it is marked as one that gets no more players.
    pub is_leaving: bool,
    /// Whether it runs on a developer's machine, without a pod.
    pub is_dev: bool,
    /// Whether its address is written.
    pub is_placed: bool,
    /// The pod that it owns.
    pub pod: Option<Pod>,
}

/// A game server's pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pod {
    /// How it is.
    pub health: PodHealth,
    /// Whether it is marked for deletion.
    pub is_marked: bool,
    /// Where it is.
    pub place: Place,
}

/// How a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodHealth {
    /// It runs, or will.
    Well,
    /// All its containers ended well.
    Succeeded,
    /// It failed, or was evicted.
    Failed,
}

/// Where a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nobody has looked for a node yet.
    Nowhere,
    /// There is no node for it now.
    Unschedulable,
    /// There is no node where its host ports are free, and other ports can be picked for it.
    PortsTaken,
    /// On a node that is not known, or has no address, or is going.
    Unknown,
    /// On a node whose address is known. If the server has an address, this is it.
    Here,
    /// On another node than the server says, or at another address.
    Elsewhere,
}

/// What to do for a game server. One thing at a time: what was done is seen, and then asked about again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing, until something changes.
    Nothing,
    /// Write the defaults that admission would have written.
    Begin,
    /// Make its pod, with its ports.
    CreatePod,
    /// Delete its pod, and pick other ports for the next.
    OtherPorts,
    /// Mark it as one that gets no more players.
    Leave,
    /// Delete its pod.
    DeletePod,
    /// Delete the server itself.
    Delete,
    /// Take our finalizer away.
    LetGo,
    /// Write its address, and leave its state.
    Address,
    /// Write a state, with the address and ports where they are known.
    Move {
        /// The new state.
        to: State,
        /// What happened.
        because: Event,
    },
}

/// Decides what a game server needs next.
pub fn next(seen: &Seen) -> Need {
    if seen.is_marked {
        return leave(seen);
    }
    if seen.is_bare {
        return Need::Begin;
    }
    if seen.state == State::Shutdown {
        return Need::Delete;
    }
    if seen.is_dev {
        return first(seen.state, &[Event::DevAddressKnown, Event::ReadyConfirmed]);
    }
    let Some(pod) = seen.pod else {
        return if seen.state.is_before_pod() {
            Need::CreatePod
        } else {
            first(seen.state, &[Event::PodLost])
        };
    };
    match pod.health {
        // A set would replace it at once, by one that ends at once: it is kept and replaced as what failed is.
        PodHealth::Succeeded if seen.is_in_set && seen.state.is_before_ready() => {
            first(seen.state, &[Event::PodEndedEarly])
        }
        PodHealth::Succeeded => first(seen.state, &[Event::PodSucceeded]),
        PodHealth::Failed => first(seen.state, &[Event::PodFailed]),
        PodHealth::Well if pod.is_marked => part(seen),
        PodHealth::Well => settle(seen, pod.place),
    }
}

/// A server that is marked for deletion waits for the end of its pod.
fn leave(seen: &Seen) -> Need {
    match seen.pod {
        Some(pod) if pod.is_marked => Need::Nothing,
        Some(_) => Need::DeletePod,
        None if seen.is_held => Need::LetGo,
        None => Need::Nothing,
    }
}

/// The pod is being deleted. Nobody is sent to its server any more; one with players is left to them until the pod is gone, and is missing it then.
fn part(seen: &Seen) -> Need {
    if seen.state.is_in_use() && !seen.is_leaving {
        return Need::Leave;
    }
    first(seen.state, &[Event::PodLeaves])
}

/// What follows from where the pod is.
fn settle(seen: &Seen, place: Place) -> Need {
    match place {
        Place::Nowhere | Place::Unknown => Need::Nothing,
        Place::Unschedulable => first(seen.state, &[Event::PodCreated]),
        Place::PortsTaken => {
            let need = first(seen.state, &[Event::PodCreated]);
            let is_waiting = need == Need::Nothing && seen.state.is_before_pod();
            if is_waiting { Need::OtherPorts } else { need }
        }
        Place::Here | Place::Elsewhere if !seen.is_placed => {
            let moved = first(seen.state, &[Event::PodScheduled, Event::ReadyConfirmed]);
            // A process may say that it is in use before its address was written.
            if moved == Need::Nothing && !seen.state.is_terminal() { Need::Address } else { moved }
        }
        Place::Here => first(seen.state, &[Event::PodScheduled, Event::ReadyConfirmed]),
        Place::Elsewhere if seen.state == State::Scheduled => Need::Address,
        Place::Elsewhere => {
            first(seen.state, &[Event::Moved, Event::PodScheduled, Event::ReadyConfirmed])
        }
    }
}

/// The first of `events` that moves the state.
fn first(state: State, events: &[Event]) -> Need {
    let moves = events.iter().filter_map(|because| Some((state.after(*because)?, *because)));
    let mut moves = moves.map(|(to, because)| Need::Move { to, because });
    moves.next().unwrap_or(Need::Nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(state: State, pod: Option<Pod>) -> Seen {
        Seen {
            state,
            is_marked: false,
            is_held: true,
            is_bare: false,
            is_in_set: false,
            is_leaving: false,
            is_dev: false,
            is_placed: false,
            pod,
        }
    }

    fn pod(place: Place) -> Option<Pod> {
        Some(Pod { health: PodHealth::Well, is_marked: false, place })
    }

    fn moved(to: State, because: Event) -> Need {
        Need::Move { to, because }
    }

    #[test]
    fn a_server_gets_a_pod_an_address_and_becomes_ready() {
        for state in [State::PortAllocation, State::Creating, State::Starting] {
            assert_eq!(next(&server(state, None)), Need::CreatePod);
            assert_eq!(next(&server(state, pod(Place::Nowhere))), Need::Nothing);
            let scheduled = moved(State::Scheduled, Event::PodScheduled);
            assert_eq!(next(&server(state, pod(Place::Here))), scheduled);
            assert_eq!(next(&server(state, pod(Place::Unknown))), Need::Nothing);
        }
        let asked = server(State::RequestReady, pod(Place::Here));
        assert_eq!(next(&asked), moved(State::Ready, Event::ReadyConfirmed));
        let waits = server(State::PortAllocation, pod(Place::Unschedulable));
        assert_eq!(next(&waits), moved(State::Starting, Event::PodCreated));
    }

    #[test]
    fn a_process_that_is_in_use_early_still_gets_its_address() {
        let mut early = server(State::Allocated, pod(Place::Here));
        assert_eq!(next(&early), Need::Address);
        early.is_placed = true;
        assert_eq!(next(&early), Need::Nothing);
    }

    #[test]
    fn a_server_that_lost_its_pod_is_unhealthy() {
        for state in [State::Scheduled, State::RequestReady, State::Ready, State::Allocated] {
            assert_eq!(next(&server(state, None)), moved(State::Unhealthy, Event::PodLost));
            let failed = Pod { health: PodHealth::Failed, is_marked: true, place: Place::Here };
            let failed = server(state, Some(failed));
            assert_eq!(next(&failed), moved(State::Unhealthy, Event::PodFailed));
        }
        for state in [State::Unhealthy, State::Error] {
            assert_eq!(next(&server(state, None)), Need::Nothing);
        }
    }

    #[test]
    fn a_pod_that_ended_well_takes_its_server_along() {
        let ended = Pod { health: PodHealth::Succeeded, is_marked: false, place: Place::Here };
        let need = next(&server(State::Ready, Some(ended)));
        assert_eq!(need, moved(State::Shutdown, Event::PodSucceeded));
    }

    #[test]
    fn a_pod_that_ended_before_its_server_was_ready_is_a_failure_in_a_set() {
        let ended = Pod { health: PodHealth::Succeeded, is_marked: false, place: Place::Here };
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
    fn nobody_is_sent_to_a_server_whose_pod_is_being_deleted() {
        let going = Pod { health: PodHealth::Well, is_marked: true, place: Place::Here };
        for state in [State::Scheduled, State::RequestReady, State::Ready] {
            let need = next(&server(state, Some(going)));
            assert_eq!(need, moved(State::Unhealthy, Event::PodLeaves), "{state}");
        }
        for state in [State::Allocated, State::Reserved] {
            let mut server = server(state, Some(going));
            assert_eq!(next(&server), Need::Leave, "{state}: it keeps its players");
            server.is_leaving = true;
            assert_eq!(next(&server), Need::Nothing, "{state}");
        }
        for state in [State::PortAllocation, State::Starting, State::Unhealthy] {
            assert_eq!(next(&server(state, Some(going))), Need::Nothing, "{state}");
        }
    }

    #[test]
    fn a_server_whose_ports_are_taken_everywhere_says_that_it_waits_and_gets_others() {
        let mut waits = server(State::PortAllocation, pod(Place::PortsTaken));
        assert_eq!(next(&waits), moved(State::Starting, Event::PodCreated));
        waits.state = State::Starting;
        assert_eq!(next(&waits), Need::OtherPorts);
    }

    #[test]
    fn a_server_that_nothing_admitted_gets_its_defaults_first() {
        let mut bare = server(State::PortAllocation, None);
        bare.is_bare = true;
        assert_eq!(next(&bare), Need::Begin);
        bare.is_marked = true;
        assert_eq!(next(&bare), Need::LetGo, "one that goes needs none");
    }

    #[test]
    fn a_pod_that_moved_changes_the_address_until_players_may_know_it() {
        let at = |state| {
            let mut server = server(state, pod(Place::Elsewhere));
            server.is_placed = true;
            next(&server)
        };
        assert_eq!(at(State::Scheduled), Need::Address);
        assert_eq!(at(State::RequestReady), moved(State::Ready, Event::ReadyConfirmed));
        for state in [State::Ready, State::Allocated, State::Reserved] {
            assert_eq!(at(state), moved(State::Unhealthy, Event::Moved));
        }
    }

    #[test]
    fn a_server_goes_after_its_pod() {
        assert_eq!(next(&server(State::Shutdown, pod(Place::Here))), Need::Delete);
        let mut going = server(State::Shutdown, pod(Place::Here));
        going.is_marked = true;
        assert_eq!(next(&going), Need::DeletePod);
        going.pod.as_mut().unwrap().is_marked = true;
        assert_eq!(next(&going), Need::Nothing);
        going.pod = None;
        assert_eq!(next(&going), Need::LetGo);
        going.is_held = false;
        assert_eq!(next(&going), Need::Nothing);
    }

    #[test]
    fn a_server_in_development_is_ready_without_a_pod() {
        let mut dev = server(State::Creating, None);
        dev.is_dev = true;
        assert_eq!(next(&dev), moved(State::Ready, Event::DevAddressKnown));
        dev.state = State::Ready;
        assert_eq!(next(&dev), Need::Nothing);
    }
}
