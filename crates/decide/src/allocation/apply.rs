//! Applies an allocation request to the selected server.

use std::sync::{Arc, LazyLock};

use jiff::Timestamp;

use super::{CounterAction, CounterVerb, ListAction, Request, Warning};
use crate::gameserver::{GameServer, State};

/// The annotation with the time of a server's last allocation.
pub const LAST_ALLOCATED: &str = "agones.dev/last-allocated";

/// The annotation's name, shared by every server that has it.
static KEY: LazyLock<Arc<str>> = LazyLock::new(|| LAST_ALLOCATED.into());

/// Applies the request's changes to `server`, and returns warnings for those that did not apply: they never fail an allocation.
pub fn apply(request: &Request, server: &mut GameServer, now: Timestamp) -> Vec<Warning> {
    let copy = |(key, value): (&Arc<str>, &Arc<str>)| (Arc::clone(key), Arc::clone(value));
    server.labels.extend(request.labels.iter().map(copy));
    server.annotations.extend(request.annotations.iter().map(copy));
    server.annotations.insert(Arc::clone(&KEY), now.to_string().into());
    server.state = State::Allocated;
    let mut warnings = Vec::new();
    for (key, action) in &request.counters {
        counter(key, action, server, &mut warnings);
    }
    for (key, action) in &request.lists {
        list(key, action, server, &mut warnings);
    }
    warnings
}

fn counter(
    key: &Arc<str>,
    action: &CounterAction,
    server: &mut GameServer,
    warnings: &mut Vec<Warning>,
) {
    let Some(counter) = server.counters.get_mut(key) else {
        if *action != CounterAction::default() {
            warnings.push(Warning::NoCounter(Arc::clone(key)));
        }
        return;
    };
    let capacity = action.capacity.map(|capacity| counter.set_capacity(capacity));
    let change = action.change.as_ref().map(|(verb, amount)| match verb {
        CounterVerb::Increment => counter.increment(*amount),
        CounterVerb::Decrement => counter.decrement(*amount),
        CounterVerb::Unknown(word) => {
            warnings.push(Warning::UnknownAction(Arc::clone(key), Arc::clone(word)));
            Ok(())
        }
    });
    let negative = [capacity, change].into_iter().flatten().filter_map(Result::err);
    warnings.extend(negative.map(|n| Warning::NegativeCounter(Arc::clone(key), n.0)));
}

/// Applies a list action: capacity first, then additions, then deletions, so that deleting does not make room for adding.
fn list(key: &Arc<str>, action: &ListAction, server: &mut GameServer, warnings: &mut Vec<Warning>) {
    let Some(list) = server.lists.get_mut(key) else {
        if *action != ListAction::default() {
            warnings.push(Warning::NoList(Arc::clone(key)));
        }
        return;
    };
    if let Some(Err(refused)) = action.capacity.map(|capacity| list.set_capacity(capacity)) {
        warnings.push(Warning::ListCapacity(Arc::clone(key), refused.0));
    }
    if !action.add.is_empty() {
        list.append(&action.add);
    }
    if !action.delete.is_empty() {
        list.delete(&action.delete);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gameserver::{Counter, List};

    fn server() -> GameServer {
        let mut server = GameServer::new("default", "s", State::Ready);
        server.labels.insert("mode".into(), "dm".into());
        server.counters.insert("rooms".into(), Counter { count: 3, capacity: 10 });
        let values = vec!["ann".into(), "bob".into()];
        server.lists.insert("players".into(), List { capacity: 3, values });
        server
    }

    fn counted(action: CounterAction) -> (Counter, Vec<Warning>) {
        let mut server = server();
        let counters = [("rooms".into(), action)].into();
        let request = Request { counters, ..Request::default() };
        let warnings = apply(&request, &mut server, Timestamp::UNIX_EPOCH);
        (server.counters["rooms"], warnings)
    }

    fn listed(capacity: Option<i64>, add: &str, delete: &str) -> (i64, String, Vec<Warning>) {
        let words = |text: &str| text.split_whitespace().map(Arc::from).collect();
        let action = ListAction { capacity, add: words(add), delete: words(delete) };
        let mut server = server();
        let lists = [("players".into(), action)].into();
        let request = Request { lists, ..Request::default() };
        let warnings = apply(&request, &mut server, Timestamp::UNIX_EPOCH);
        let list = &server.lists["players"];
        (list.capacity, list.values.join(" "), warnings)
    }

    #[test]
    fn the_server_is_allocated_with_the_requests_metadata() {
        let mut server = server();
        let request = Request {
            labels: [("mode".into(), "ctf".into())].into(),
            annotations: [("map".into(), "sea".into())].into(),
            ..Request::default()
        };
        let now = "2026-03-01T12:00:00.5Z".parse().unwrap();
        assert_eq!(apply(&request, &mut server, now), []);
        assert_eq!(server.state, State::Allocated);
        assert_eq!(&*server.labels["mode"], "ctf");
        assert_eq!(&*server.annotations["map"], "sea");
        assert_eq!(&*server.annotations[LAST_ALLOCATED], "2026-03-01T12:00:00.5Z");
    }

    #[test]
    fn a_counters_capacity_is_set_before_its_count() {
        let up = |amount| Some((CounterVerb::Increment, amount));
        for (capacity, change, count) in [
            (None, up(4), 7),
            (None, up(40), 10),
            (Some(50), up(40), 43),
            (Some(2), up(1), 2),
            (Some(5), None, 3),
            (None, Some((CounterVerb::Decrement, 9)), 0),
        ] {
            let (counter, warnings) = counted(CounterAction { capacity, change });
            assert_eq!((counter.count, warnings), (count, vec![]), "{capacity:?}");
        }
    }

    #[test]
    fn additions_beyond_the_capacity_are_dropped_without_a_warning_c2() {
        assert_eq!(
            counted(CounterAction {
                capacity: None,
                change: Some((CounterVerb::Increment, i64::MAX)),
            })
            .0
            .count,
            0,
            "a sum that wraps around lands on 0, as upstream's does"
        );
        assert_eq!(listed(None, "c d e", ""), (3, "ann bob c".into(), vec![]));
    }

    #[test]
    fn deleting_does_not_make_room_for_adding_c1() {
        assert_eq!(listed(None, "c d", "ann"), (3, "bob c".into(), vec![]));
        assert_eq!(listed(Some(4), "c d", "ann"), (4, "bob c d".into(), vec![]));
        assert_eq!(listed(None, "c", "c"), (3, "ann bob".into(), vec![]));
    }

    #[test]
    fn an_action_that_does_not_apply_only_warns_c3() {
        let shout = Some((CounterVerb::Unknown("INCREMENT".into()), 1));
        let (counter, warnings) = counted(CounterAction { capacity: Some(5), change: shout });
        assert_eq!(counter, Counter { count: 3, capacity: 5 });
        assert_eq!(warnings, [Warning::UnknownAction("rooms".into(), "INCREMENT".into())]);
        let (capacity, values, warnings) = listed(Some(1001), "c", "");
        assert_eq!((capacity, values.as_str()), (3, "ann bob c"));
        assert_eq!(warnings, [Warning::ListCapacity("players".into(), 1001)]);
    }

    #[test]
    fn missing_keys_cause_warnings() {
        let mut server = server();
        let change = Some((CounterVerb::Increment, 1));
        let request = Request {
            counters: [("nokey".into(), CounterAction { capacity: None, change })].into(),
            lists: [("nolist".into(), ListAction { capacity: Some(1), ..ListAction::default() })]
                .into(),
            ..Request::default()
        };
        let warnings = apply(&request, &mut server, Timestamp::UNIX_EPOCH);
        assert_eq!(
            warnings,
            [Warning::NoCounter("nokey".into()), Warning::NoList("nolist".into())]
        );
        assert_eq!(server.state, State::Allocated, "the allocation stands");
    }
}
