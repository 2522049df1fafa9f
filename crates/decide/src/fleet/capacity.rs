//! The Counter and List policies: free capacity in a counter or a list, over all servers.

mod agones;
mod repaired;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;

use super::buffer::total_for;
use super::size::{FleetObservation, PolicySize};
use super::{Aggregate, Amount, Capacity, Mode, Refusal, deletion_order};
use crate::gameserver::{Counter, GameServer, Source};

/// The input of both implementations.
struct Room<'a> {
    source: Source,
    policy: &'a Capacity,
    observed: FleetObservation<'a>,
    /// The initial values of a new server.
    template: Counter,
    /// The sums over the fleet, from its status.
    sum: Aggregate,
    now: Timestamp,
}

/// Sizes a fleet by a Counter or a List policy.
pub(super) fn size(
    source: Source,
    policy: &Capacity,
    observed: FleetObservation<'_>,
    now: Timestamp,
) -> Result<PolicySize, Refusal> {
    let fleet = observed.fleet;
    let key = || Arc::clone(&policy.key);
    let (template, sums, name) = match source {
        Source::Counter => {
            let template = fleet.template.counters.get(&policy.key).copied();
            (template, &fleet.status.counters, "Counter")
        }
        Source::List => {
            let as_counter =
                |l: &crate::gameserver::List| Counter { count: l.len(), capacity: l.capacity };
            (fleet.template.lists.get(&policy.key).map(as_counter), &fleet.status.lists, "List")
        }
    };
    let template = template.ok_or_else(|| Refusal::NotInTemplate { policy: name, key: key() })?;
    let sum = sums.get(&policy.key).copied();
    let sum = sum.ok_or_else(|| Refusal::NotInStatus { policy: name, key: key() })?;
    let room = Room { source, policy, observed, template, sum, now };
    match fleet.mode {
        Mode::Agones => room.upstream(),
        Mode::Repaired => room.repaired(),
    }
}

impl<'a> Room<'a> {
    /// Returns the capacity that should be free.
    fn wanted(&self) -> i64 {
        match self.policy.size {
            Amount::Count(size) => size,
            Amount::Percent(percent) => {
                let used = self.sum.allocated_count;
                total_for(used, percent).saturating_sub(used)
            }
        }
    }

    /// Returns the free capacity that one new server adds.
    fn gain(&self) -> i64 {
        self.template.capacity.saturating_sub(self.template.count)
    }

    /// Returns the counter, or the list's length and capacity, of one server.
    fn value_on(&self, server: &GameServer) -> Option<Counter> {
        match self.source {
            Source::Counter => server.counters.get(&self.policy.key).copied(),
            Source::List => {
                let list = server.lists.get(&self.policy.key)?;
                Some(Counter { count: list.len(), capacity: list.capacity })
            }
        }
    }

    /// Iterates over servers in deletion order.
    fn in_order(
        &self,
        servers: impl Iterator<Item = &'a GameServer>,
    ) -> impl Iterator<Item = &'a GameServer> {
        let fleet = self.observed.fleet;
        let ranking = fleet.mode.ranking(self.observed.nodes);
        deletion_order(servers, fleet.scheduling, &fleet.priorities, &ranking)
    }

    fn no_room(&self) -> Refusal {
        let policy = match self.source {
            Source::Counter => "Counter",
            Source::List => "List",
        };
        Refusal::NoRoomPerServer { policy, key: Arc::clone(&self.policy.key) }
    }
}

/// Divides and rounds up; both arguments are positive.
fn ceil_div(a: i64, b: i64) -> i64 {
    let (a, b) = (i128::from(a), i128::from(b));
    i64::try_from((a + b - 1).div_euclid(b)).unwrap_or(i64::MAX)
}

/// Adds servers to a size, saturating.
fn plus(replicas: i32, servers: i64) -> i32 {
    let sum = i64::from(replicas).saturating_add(servers);
    i32::try_from(sum).unwrap_or(if sum < 0 { i32::MIN } else { i32::MAX })
}
