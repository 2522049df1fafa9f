//! Aggregates servers into the status of a set and a fleet.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Aggregate, FleetStatus, SetCounts, SetStatus, Template};
use crate::gameserver::{GameServer, State};

type Sums = BTreeMap<Arc<str>, Aggregate>;

/// Aggregates the servers of a set. Every key of the template is included from the start, so that an autoscaler can scale up from
/// zero; keys that only a server has are added.
pub fn status(template: &Template, servers: &[impl Borrow<GameServer>]) -> SetStatus {
    let mut counts = SetCounts::default();
    let mut counters = zeros(template.counters.keys());
    let mut lists = zeros(template.lists.keys());
    for server in servers.iter().map(Borrow::borrow) {
        if server.is_being_deleted() {
            counts.shutdown += 1;
            continue;
        }
        counts.replicas += 1;
        counts.ready += i32::from(server.state == State::Ready);
        counts.reserved += i32::from(server.state == State::Reserved);
        counts.allocated += i32::from(server.state == State::Allocated);
        let is_allocated = server.state == State::Allocated;
        for (key, counter) in &server.counters {
            sum(&mut counters, key).add(counter.count, counter.capacity, is_allocated);
        }
        for (key, list) in &server.lists {
            sum(&mut lists, key).add(list.len(), list.capacity, is_allocated);
        }
    }
    SetStatus { counts, counters, lists }
}

/// Merges the status of a fleet's sets into that of the fleet.
pub fn merge<'a>(sets: impl IntoIterator<Item = &'a SetStatus>) -> FleetStatus {
    let mut fleet = FleetStatus::default();
    for set in sets {
        fleet.replicas += set.counts.replicas;
        fleet.ready += set.counts.ready;
        fleet.reserved += set.counts.reserved;
        fleet.allocated += set.counts.allocated;
        set.counters.iter().for_each(|(key, part)| sum(&mut fleet.counters, key).merge(*part));
        set.lists.iter().for_each(|(key, part)| sum(&mut fleet.lists, key).merge(*part));
    }
    fleet
}

fn zeros<'a>(keys: impl Iterator<Item = &'a Arc<str>>) -> Sums {
    keys.map(|key| (Arc::clone(key), Aggregate::default())).collect()
}

fn sum<'a>(sums: &'a mut Sums, key: &Arc<str>) -> &'a mut Aggregate {
    if !sums.contains_key(key) {
        sums.insert(Arc::clone(key), Aggregate::default());
    }
    sums.get_mut(key).expect("the key was just found or inserted")
}

impl Aggregate {
    fn add(&mut self, count: i64, capacity: i64, is_allocated: bool) {
        let (allocated_count, allocated_capacity) =
            if is_allocated { (count, capacity) } else { (0, 0) };
        self.merge(Self { allocated_count, allocated_capacity, count, capacity });
    }

    /// Merges sums, saturating: an unlimited capacity is the largest number.
    fn merge(&mut self, other: Self) {
        self.allocated_count = self.allocated_count.saturating_add(other.allocated_count);
        self.allocated_capacity = self.allocated_capacity.saturating_add(other.allocated_capacity);
        self.count = self.count.saturating_add(other.count);
        self.capacity = self.capacity.saturating_add(other.capacity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::testing::{rooms, server};
    use crate::gameserver::{Counter, List};

    fn template() -> Template {
        let counters = [("rooms".into(), Counter { count: 0, capacity: 10 })].into();
        Template { counters, lists: [("players".into(), List::default())].into() }
    }

    #[test]
    fn servers_are_counted_by_state_and_terminating_ones_separately() {
        let mut marked = server("m", State::Ready);
        marked.has_deletion_timestamp = true;
        let servers = [
            server("a", State::Ready),
            server("b", State::Allocated),
            server("c", State::Reserved),
            server("d", State::Error),
            server("e", State::Starting),
            server("f", State::Shutdown),
            marked,
        ];
        let counts = status(&Template::default(), &servers).counts;
        let expected = SetCounts { replicas: 5, ready: 1, reserved: 1, allocated: 1, shutdown: 2 };
        assert_eq!(counts, expected);
    }

    #[test]
    fn sums_include_the_templates_keys_and_every_state() {
        let empty = status(&template(), &[] as &[GameServer]);
        assert_eq!(empty.counters.get("rooms"), Some(&Aggregate::default()));
        assert_eq!(empty.lists.get("players"), Some(&Aggregate::default()));
        let servers = [
            rooms("a", State::Ready, 1, 10),
            rooms("b", State::Allocated, 3, 10),
            rooms("c", State::Unhealthy, 5, 10),
            rooms("d", State::Shutdown, 7, 10),
        ];
        let sum = status(&template(), &servers).counters["rooms"];
        let expected =
            Aggregate { allocated_count: 3, allocated_capacity: 10, count: 9, capacity: 30 };
        assert_eq!(sum, expected);
        let other = status(&Template::default(), &servers);
        assert_eq!(other.counters["rooms"], expected, "keys only servers have are added");
    }

    #[test]
    fn sums_saturate_b10() {
        let servers =
            [rooms("a", State::Ready, 1, i64::MAX), rooms("b", State::Ready, 1, i64::MAX)];
        let set = status(&template(), &servers);
        assert_eq!(set.counters["rooms"].capacity, i64::MAX);
        let fleet = merge([&set, &set]);
        assert_eq!((fleet.replicas, fleet.counters["rooms"].count), (4, 4));
        assert_eq!(fleet.counters["rooms"].capacity, i64::MAX);
    }
}
