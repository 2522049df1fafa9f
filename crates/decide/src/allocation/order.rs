//! The order in which servers are tried.

use std::cmp::{Ordering, Reverse};

use super::Request;
use crate::fleet::Scheduling;
use crate::gameserver::{GameServer, NodeLoad, Priority, State};

/// The sort key of a node: more Allocated first, then more Ready, unknown nodes last.
pub(super) type NodeRank = Reverse<Option<(u32, u32)>>;

/// Returns the sort key of a node's load.
pub(super) fn node_rank(load: Option<NodeLoad>) -> NodeRank {
    Reverse(load.map(|load| (load.allocated, load.ready)))
}

/// Compares two servers with the loads of their nodes; the lesser is tried first.
///
/// Servers on a node that is being emptied come last. Packed prefers the busiest node, so that others may become empty; Distributed
/// compares by priorities alone.
pub(super) fn compare(
    request: &Request,
    (a, a_load): (&GameServer, Option<NodeLoad>),
    (b, b_load): (&GameServer, Option<NodeLoad>),
) -> Ordering {
    let by_node = match request.scheduling {
        Scheduling::Packed => {
            let is_fresh = |server: &GameServer| server.state != State::Allocated;
            is_fresh(a).cmp(&is_fresh(b)).then_with(|| node_rank(a_load).cmp(&node_rank(b_load)))
        }
        Scheduling::Distributed => Ordering::Equal,
    };
    let by_priority = || {
        let mut compared = request.priorities.iter().map(|p| p.rank(a).cmp(&p.rank(b)));
        compared.find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    };
    let by_evacuation = a.is_evacuating.cmp(&b.is_evacuating);
    by_evacuation.then(by_node).then_with(by_priority).then_with(|| a.name.cmp(&b.name))
}

/// Returns whether the choice is random: nothing in the request distinguishes servers.
pub(super) fn is_random(scheduling: Scheduling, priorities: &[Priority]) -> bool {
    scheduling == Scheduling::Distributed && priorities.is_empty()
}
