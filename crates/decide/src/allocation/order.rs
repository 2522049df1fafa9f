//! Which servers are tried first.

use std::cmp::{Ordering, Reverse};

use super::Request;
use crate::fleet::Scheduling;
use crate::gameserver::{GameServer, NodeLoad, Priority, State};

/// What a node is compared by: more Allocated first, then more Ready, and a node that nobody knows last.
pub(super) type Busy = Reverse<Option<(u32, u32)>>;

/// Turns the load of a node into what it is compared by.
pub(super) fn busy(load: Option<NodeLoad>) -> Busy {
    Reverse(load.map(|load| (load.allocated, load.ready)))
}

/// Compares two servers with the loads of their nodes, the one to be tried first being the lesser.
///
/// Packed goes to servers that have players already, then to the busiest node, so that others may empty; Distributed goes by
/// the priorities alone.
pub(super) fn compare(
    request: &Request,
    (a, a_load): (&GameServer, Option<NodeLoad>),
    (b, b_load): (&GameServer, Option<NodeLoad>),
) -> Ordering {
    let by_node = match request.scheduling {
        Scheduling::Packed => {
            let is_fresh = |server: &GameServer| server.state != State::Allocated;
            is_fresh(a).cmp(&is_fresh(b)).then_with(|| busy(a_load).cmp(&busy(b_load)))
        }
        Scheduling::Distributed => Ordering::Equal,
    };
    let by_priority = || {
        let mut compared = request.priorities.iter().map(|p| p.rank(a).cmp(&p.rank(b)));
        compared.find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    };
    by_node.then_with(by_priority).then_with(|| a.name.cmp(&b.name))
}

/// Whether chance alone decides: nothing is asked for that would tell servers apart.
pub(super) fn is_random(scheduling: Scheduling, priorities: &[Priority]) -> bool {
    scheduling == Scheduling::Distributed && priorities.is_empty()
}
