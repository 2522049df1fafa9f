//! Which servers are tried first.

use std::cmp::Ordering;

use super::Request;
use crate::fleet::Scheduling;
use crate::gameserver::{GameServer, NodeLoad, Occupancy, Priority, State};

/// Compares two servers, the one to be tried first being the lesser.
///
/// Packed goes to servers that have players already, then to the busiest node, so that others may empty; Distributed goes by
/// the priorities alone.
pub(super) fn compare(
    request: &Request,
    nodes: &Occupancy,
    a: &GameServer,
    b: &GameServer,
) -> Ordering {
    let by_node = match request.scheduling {
        Scheduling::Packed => packed(nodes, a, b),
        Scheduling::Distributed => Ordering::Equal,
    };
    by_node
        .then_with(|| Priority::compare(&request.priorities, a, b))
        .then_with(|| a.name.cmp(&b.name))
}

fn packed(nodes: &Occupancy, a: &GameServer, b: &GameServer) -> Ordering {
    let is_fresh = |server: &GameServer| server.state != State::Allocated;
    is_fresh(a).cmp(&is_fresh(b)).then_with(|| {
        if a.node == b.node {
            Ordering::Equal
        } else {
            busier(nodes.load(&a.node), nodes.load(&b.node))
        }
    })
}

/// Compares the load of two nodes, the busier being the lesser and a node that nobody knows the greatest.
pub(super) fn busier(a: Option<NodeLoad>, b: Option<NodeLoad>) -> Ordering {
    let key = |load: Option<NodeLoad>| load.map(|load| (load.allocated, load.ready));
    key(b).cmp(&key(a))
}

/// Whether chance alone decides: nothing is asked for that would tell servers apart.
pub(super) fn is_random(request: &Request) -> bool {
    request.scheduling == Scheduling::Distributed && request.priorities.is_empty()
}
