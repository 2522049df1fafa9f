//! The plain way to choose: look at every server.
//!
//! It is what the index is held to, and what a single request on files uses.

use jiff::Timestamp;

use super::order::{compare, is_random};
use super::{Allocation, Request, Selector, apply};
use crate::chance::Chance;
use crate::gameserver::{GameServer, NodeLoad, Occupancy};

/// Gives a request its server, with the request's changes made to it; nothing when no server will do.
pub fn allocate(
    request: &Request,
    servers: &[GameServer],
    nodes: &Occupancy,
    now: Timestamp,
) -> Option<Allocation> {
    let (chosen, selector) = choose(request, servers, nodes)?;
    let mut server = servers[chosen].clone();
    let warnings = apply(request, &mut server, now);
    Some(Allocation { server, selector, warnings })
}

/// Finds the server that a request gets, and the selector that it met: the first selector that any server meets decides, and
/// among its servers the one to be tried first.
pub fn choose(
    request: &Request,
    servers: &[GameServer],
    nodes: &Occupancy,
) -> Option<(usize, usize)> {
    request.selectors.iter().enumerate().find_map(|(index, selector)| {
        let seen = servers.iter().enumerate().map(|(i, s)| (i, s, nodes.load(&s.node)));
        Some((best(request, selector, seen)?, index))
    })
}

/// Finds the server to be tried first among those that meet one selector.
pub(super) fn best<'a>(
    request: &Request,
    selector: &Selector,
    servers: impl Iterator<Item = (usize, &'a GameServer, Option<NodeLoad>)>,
) -> Option<usize> {
    let found = servers.filter(|(_, s, _)| selector.takes(&request.namespace, s));
    if is_random(request.scheduling, &request.priorities) {
        let mut found: Vec<_> = found.collect();
        found.sort_unstable_by(|(_, a, _), (_, b, _)| a.name.cmp(&b.name));
        return Some(found[Chance::new(request.seed).below(found.len())?].0);
    }
    let first = found
        .min_by(|(_, a, a_load), (_, b, b_load)| compare(request, (*a, *a_load), (*b, *b_load)));
    first.map(|(index, ..)| index)
}
