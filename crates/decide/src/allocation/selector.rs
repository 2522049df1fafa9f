//! Matches servers against selectors.

use super::{CounterBounds, ListBounds, Requirement, Selector};
use crate::gameserver::{Counter, GameServer, List, StringMap};

impl Selector {
    /// Returns whether a server meets all of the selector.
    pub fn matches(&self, server: &GameServer) -> bool {
        server.state == self.state
            && self.labels.iter().all(|(key, value)| server.labels.get(key) == Some(value))
            && self.expressions.iter().all(|e| e.holds(&server.labels))
            && self.has_room(server)
    }

    /// Returns whether the server is available to a request in `namespace` with this selector.
    pub fn takes(&self, namespace: &str, server: &GameServer) -> bool {
        self.matches(server)
            && *server.namespace == *namespace
            && !server.is_being_deleted()
            && !server.is_leaving
    }

    /// Returns whether the counters and lists exist and are within their bounds.
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
    fn holds(&self, labels: &StringMap) -> bool {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::gameserver::State;

    fn server() -> GameServer {
        let mut server = GameServer::new("default", "s", State::Ready);
        server.labels.insert("fleet".into(), "f".into());
        server.labels.insert("region".into(), "eu".into());
        server.counters.insert("rooms".into(), Counter { count: 3, capacity: 10 });
        let values = vec!["ann".into(), "bob".into()];
        server.lists.insert("players".into(), List { capacity: 4, values });
        server
    }

    fn words(all: &[&str]) -> Vec<Arc<str>> {
        all.iter().map(|w| Arc::from(*w)).collect()
    }

    #[test]
    fn an_empty_selector_matches_every_ready_server() {
        let mut one = server();
        assert!(Selector::default().takes("default", &one));
        assert!(!Selector::default().takes("other", &one), "only in its namespace");
        for state in State::NAMED {
            one.state = state;
            assert_eq!(Selector::default().matches(&one), state == State::Ready, "{state}");
        }
        one = GameServer { has_deletion_timestamp: true, ..server() };
        assert!(!Selector::default().takes("default", &one), "what goes is not given out");
        one = GameServer { is_leaving: true, ..server() };
        assert!(!Selector::default().takes("default", &one), "nor what is about to");
    }

    #[test]
    fn labels_and_expressions_must_all_hold() {
        let region = || Arc::from("region");
        for (requirement, holds) in [
            (Requirement::In(region(), words(&["us", "eu"])), true),
            (Requirement::In(region(), words(&["us"])), false),
            (Requirement::In("mode".into(), words(&["dm"])), false),
            (Requirement::NotIn(region(), words(&["us"])), true),
            (Requirement::NotIn(region(), words(&["eu"])), false),
            (Requirement::NotIn("mode".into(), words(&["dm"])), true),
            (Requirement::Exists(region()), true),
            (Requirement::Exists("mode".into()), false),
            (Requirement::DoesNotExist(region()), false),
            (Requirement::DoesNotExist("mode".into()), true),
        ] {
            let text = format!("{requirement:?}");
            let mut selector = Selector { expressions: vec![requirement], ..Selector::default() };
            selector.labels.insert("fleet".into(), "f".into());
            assert_eq!(selector.matches(&server()), holds, "{text}");
            selector.labels.insert("fleet".into(), "other".into());
            assert!(!selector.matches(&server()), "{text} and another fleet");
        }
    }

    #[test]
    fn a_counter_must_exist_and_be_within_its_bounds() {
        for (min_count, max_count, min_available, max_available, holds) in [
            (0, None, 0, None, true),
            (3, Some(3), 7, Some(7), true),
            (4, None, 0, None, false),
            (0, Some(2), 0, None, false),
            (0, None, 8, None, false),
            (0, None, 0, Some(6), false),
        ] {
            let bounds = CounterBounds { min_count, max_count, min_available, max_available };
            let counters = [("rooms".into(), bounds)].into();
            let selector = Selector { counters, ..Selector::default() };
            assert_eq!(selector.matches(&server()), holds, "{bounds:?}");
        }
        let counters = [("nokey".into(), CounterBounds::default())].into();
        let unknown = Selector { counters, ..Selector::default() };
        assert!(!unknown.matches(&server()), "an unknown key never matches: c14");
    }

    #[test]
    fn a_list_must_exist_be_within_its_bounds_and_contain_the_value() {
        for (contains, min_available, max_available, holds) in [
            (None, 0, None, true),
            (Some("bob"), 2, Some(2), true),
            (Some("bo"), 0, None, false),
            (None, 3, None, false),
            (None, 0, Some(1), false),
        ] {
            let contains = contains.map(Arc::from);
            let bounds = ListBounds { contains, min_available, max_available };
            let lists = [("players".into(), bounds.clone())].into();
            let selector = Selector { lists, ..Selector::default() };
            assert_eq!(selector.matches(&server()), holds, "{bounds:?}");
        }
        let lists = [("nokey".into(), ListBounds::default())].into();
        assert!(!Selector { lists, ..Selector::default() }.matches(&server()));
    }
}
