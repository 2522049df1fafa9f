//! The changes that lead to an evaluation of an autoscaler.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use api::agones::{FLEET_LABEL, Fleet};
use api::autoscaling::FleetAutoscaler;
use cluster::{CachedGameServer, Key, Subscription};
use decide::gameserver::{GameServer, State};

use super::{Autoscalers, observe};

/// The autoscalers of each fleet.
#[derive(Default)]
pub(super) struct FleetWatchers {
    by_fleet: Mutex<HashMap<Key, BTreeSet<Key>>>,
}

impl FleetWatchers {
    /// Returns the autoscalers that name a fleet.
    pub(super) fn autoscalers_of(&self, fleet: &Key) -> Vec<Key> {
        let by_fleet = self.by_fleet.lock().unwrap_or_else(PoisonError::into_inner);
        by_fleet.get(fleet).into_iter().flatten().cloned().collect()
    }

    fn add(&self, fleet: Key, autoscaler: Key) {
        let mut by_fleet = self.by_fleet.lock().unwrap_or_else(PoisonError::into_inner);
        by_fleet.entry(fleet).or_default().insert(autoscaler);
    }

    fn remove(&self, fleet: &Key, autoscaler: &Key) {
        let mut by_fleet = self.by_fleet.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(autoscalers) = by_fleet.get_mut(fleet) {
            autoscalers.remove(autoscaler);
            if autoscalers.is_empty() {
                by_fleet.remove(fleet);
            }
        }
    }
}

/// Enqueues autoscalers when they, their fleet or its game servers change. Autoscalers subscribe last, so that the fleets and game
/// servers that exist already are no changes for them.
pub(super) fn changes(all: &Arc<Autoscalers>) -> [Subscription; 3] {
    // A subscriber may run while this controller ends, and must not keep it alive.
    let weak = Arc::downgrade(all);
    let servers = all.cx.caches.servers.subscribe(move |old, new| {
        if let Some(all) = weak.upgrade()
            && server_matters(old.map(|s| &*s.view), new.map(|s| &*s.view))
            && let Some(fleet) = new.or(old).and_then(|server| fleet_of(server))
        {
            all.fleet_changed(&fleet, old.is_some() && new.is_some());
        }
    });
    let weak = Arc::downgrade(all);
    let fleets = all.cx.caches.fleets.subscribe(move |old, new| {
        if let Some(all) = weak.upgrade()
            && let Some(fleet) = new.or(old)
            && fleet_matters(old.map(Arc::as_ref), new.map(Arc::as_ref))
        {
            all.fleet_changed(&Key::from_meta(&fleet.metadata), false);
        }
    });
    let weak = Arc::downgrade(all);
    let autoscalers = all.cx.caches.autoscalers.subscribe(move |old, new| {
        if let Some(all) = weak.upgrade() {
            all.autoscaler_changed(old.map(Arc::as_ref), new.map(Arc::as_ref));
        }
    });
    [servers, fleets, autoscalers]
}

impl Autoscalers {
    fn autoscaler_changed(&self, old: Option<&FleetAutoscaler>, new: Option<&FleetAutoscaler>) {
        let Some(key) = new.or(old).map(|autoscaler| Key::from_meta(&autoscaler.metadata)) else {
            return;
        };
        let (was, is) = (old.map(observe::target), new.map(observe::target));
        if was != is {
            // Another autoscaler that names the old fleet may be its owner now.
            was.inspect(|fleet| {
                self.watchers.remove(fleet, &key);
                self.fleet_changed(fleet, false);
            });
            is.inspect(|fleet| self.watchers.add(Key::clone(fleet), key.clone()));
        }
        if new.is_none() {
            self.states.forget(&key);
            self.cx.decisions.forget::<FleetAutoscaler>(&key);
            let uid = old.and_then(|old| old.metadata.uid.as_deref()).unwrap_or_default();
            self.ask.forget(uid);
        } else if spec_changed(old, new) {
            self.queue.add(key);
        }
    }

    fn fleet_changed(&self, fleet: &Key, is_of_players: bool) {
        for key in self.watchers.autoscalers_of(fleet) {
            let at = self.states.changed(&key, is_of_players);
            self.queue.add_at(key, at);
        }
    }
}

/// Returns whether more than the status, which this controller writes, changed.
fn spec_changed(old: Option<&FleetAutoscaler>, new: Option<&FleetAutoscaler>) -> bool {
    let parts = |a: &FleetAutoscaler| {
        let meta = &a.metadata;
        (meta.uid.clone(), meta.generation, meta.annotations.clone())
    };
    old.map(parts) != new.map(parts)
}

/// Returns whether more than the status, which is not read, changed.
fn fleet_matters(old: Option<&Fleet>, new: Option<&Fleet>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    let (was, is) = (&old.metadata, &new.metadata);
    (&was.uid, was.generation, &was.annotations, &was.labels)
        != (&is.uid, is.generation, &is.annotations, &is.labels)
        || was.deletion_timestamp != is.deletion_timestamp
}

/// Returns whether anything changed that a size depends on: how many servers there are, how many are in use, and their counts. A
/// server on its way to Ready changes nothing.
fn server_matters(old: Option<&GameServer>, new: Option<&GameServer>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    let use_of = |server: &GameServer| {
        let is_in_use = matches!(server.state, State::Allocated | State::Reserved);
        (is_in_use, server.state == State::Allocated, server.is_being_deleted())
    };
    use_of(old) != use_of(new) || old.counters != new.counters || old.lists != new.lists
}

fn fleet_of(server: &CachedGameServer) -> Option<Key> {
    let name = server.view.labels.get(FLEET_LABEL).filter(|name| !name.is_empty())?;
    Some(Key::new(Arc::clone(&server.view.namespace), Arc::clone(name)))
}
