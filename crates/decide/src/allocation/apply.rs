//! What an allocation does to the server it got.

use std::sync::{Arc, LazyLock};

use jiff::Timestamp;

use super::{CounterAction, CounterVerb, ListAction, Request, Warning};
use crate::gameserver::{GameServer, State};

/// The annotation that says when a server was last allocated.
pub const LAST_ALLOCATED: &str = "agones.dev/last-allocated";

/// The annotation's name, shared by every server that has it.
static KEY: LazyLock<Arc<str>> = LazyLock::new(|| LAST_ALLOCATED.into());

/// Makes the request's changes to `server`, and gives those that did not apply: they never stop an allocation.
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

/// The capacity first, then what is added and cut off, and what is deleted last: deleting does not make room for adding.
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
