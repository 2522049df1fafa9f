//! The plain way to choose: look at every server.
//!
//! It is what the index is held to, and what a single request on files uses.

use jiff::Timestamp;

use super::order::{compare, is_random};
use super::{Allocation, Request, apply};
use crate::chance::Chance;
use crate::gameserver::{GameServer, Occupancy};

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
    let is_open = |s: &GameServer| s.namespace == request.namespace && !s.is_being_deleted();
    request.selectors.iter().enumerate().find_map(|(index, selector)| {
        let found = servers.iter().enumerate().filter(|(_, s)| is_open(s) && selector.matches(s));
        let best = if is_random(request) {
            let mut found: Vec<_> = found.collect();
            found.sort_unstable_by(|(_, a), (_, b)| a.name.cmp(&b.name));
            let pick = Chance::new(request.seed).below(found.len())?;
            Some(found[pick])
        } else {
            found.min_by(|(_, a), (_, b)| compare(request, nodes, a, b))
        };
        best.map(|(chosen, _)| (chosen, index))
    })
}
