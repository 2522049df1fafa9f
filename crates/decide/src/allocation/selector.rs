//! Whether a server is what a selector asks for.

use super::{CounterBounds, ListBounds, Requirement, Selector};
use crate::gameserver::{Counter, GameServer, List, Texts};

impl Selector {
    /// Whether all of the selector holds.
    pub fn matches(&self, server: &GameServer) -> bool {
        server.state == self.state
            && self.labels.iter().all(|(key, value)| server.labels.get(key) == Some(value))
            && self.expressions.iter().all(|e| e.holds(&server.labels))
            && self.has_room(server)
    }

    /// Whether a request in `namespace` may have the server by this selector.
    pub(super) fn takes(&self, namespace: &str, server: &GameServer) -> bool {
        self.matches(server) && *server.namespace == *namespace && !server.is_being_deleted()
    }

    /// Whether the counters and lists are there and within their bounds.
    fn has_room(&self, server: &GameServer) -> bool {
        let counter = |(key, bounds): (_, &CounterBounds)| {
            server.counters.get(key).is_some_and(|counter| bounds.hold(*counter))
        };
        let list = |(key, bounds): (_, &ListBounds)| {
            server.lists.get(key).is_some_and(|list| bounds.hold(list))
        };
        self.counters.iter().all(counter) && self.lists.iter().all(list)
    }
}

impl Requirement {
    fn holds(&self, labels: &Texts) -> bool {
        match self {
            Self::In(key, values) => labels.get(key).is_some_and(|v| values.contains(v)),
            Self::NotIn(key, values) => labels.get(key).is_none_or(|v| !values.contains(v)),
            Self::Exists(key) => labels.contains_key(key),
            Self::DoesNotExist(key) => !labels.contains_key(key),
        }
    }
}

impl CounterBounds {
    fn hold(self, counter: Counter) -> bool {
        within(counter.count, self.min_count, self.max_count)
            && within(counter.available(), self.min_available, self.max_available)
    }
}

impl ListBounds {
    fn hold(&self, list: &List) -> bool {
        within(list.available(), self.min_available, self.max_available)
            && self.contains.as_ref().is_none_or(|value| list.contains(value))
    }
}

fn within(number: i64, min: i64, max: Option<i64>) -> bool {
    number >= min && max.is_none_or(|max| number <= max)
}
