//! Which Allocated servers are told that their set has become too small for them.

use std::sync::Arc;

use super::{ServerSet, deletion_order};
use crate::gameserver::{GameServer, Occupancy, State, Texts};

/// Names the servers that get the labels and annotations of `allocationOverflow`, in the order in which they would go.
/// Servers that carry them already count; nothing is ever taken back.
pub fn overflow(
    set: &ServerSet,
    labels: &Texts,
    annotations: &Texts,
    servers: &[GameServer],
    nodes: &Occupancy,
) -> Vec<Arc<str>> {
    if labels.is_empty() && annotations.is_empty() {
        return Vec::new();
    }
    let allocated = servers.iter().filter(|s| s.state == State::Allocated && !s.is_being_deleted());
    let is_marked =
        |s: &&GameServer| has_all(&s.labels, labels) && has_all(&s.annotations, annotations);
    let (marked, others): (Vec<_>, Vec<_>) = allocated.partition(is_marked);
    let target = usize::try_from(set.replicas).unwrap_or(0);
    let over = (marked.len() + others.len()).saturating_sub(target);
    deletion_order(others, set.scheduling, &set.priorities, nodes)
        .take(over.saturating_sub(marked.len()))
        .map(|server| Arc::clone(&server.name))
        .collect()
}

fn has_all(has: &Texts, wanted: &Texts) -> bool {
    wanted.iter().all(|(key, value)| has.get(key) == Some(value))
}
