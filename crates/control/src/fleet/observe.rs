//! How are a fleet and its sets now?

use std::sync::Arc;

use api::agones::{Fleet, GameServerSet};
use cluster::{Caches, Key};
use decide::fleet::{Rollout, SetCounts, SetView};

/// A fleet with its sets.
pub(super) struct Observed {
    pub(super) fleet: Arc<Fleet>,
    /// The set with the present template: the oldest, should there be several.
    pub(super) active: Option<Arc<GameServerSet>>,
    /// The others, oldest first.
    pub(super) rest: Vec<Arc<GameServerSet>>,
}

impl Observed {
    /// Decides the sizes of the sets.
    pub(super) fn rollout(&self) -> Rollout {
        let none = SetView { name: "".into(), replicas: 0, status: SetCounts::default() };
        let active = self.active.as_ref().map_or(none, |set| set.in_rollout());
        let rest: Vec<SetView> = self.rest.iter().map(|set| set.in_rollout()).collect();
        let ready = self.fleet.status.as_ref().map_or(0, |status| status.ready_replicas);
        let fleet = &self.fleet;
        decide::fleet::rollout(fleet.spec.replicas, ready, fleet.update(), &active, &rest)
    }

    /// Finds one of the other sets.
    pub(super) fn other(&self, name: &str) -> Option<&Arc<GameServerSet>> {
        self.rest.iter().find(|set| set.metadata.name.as_deref() == Some(name))
    }
}

/// Looks at one fleet; `None` when it is gone or going.
pub(super) fn fleet(key: &Key, caches: &Caches) -> Option<Observed> {
    let fleet = caches.fleets.get(key)?;
    if fleet.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let uid = fleet.metadata.uid.as_deref().unwrap_or_default();
    let mut sets = caches.sets.owned(uid, Arc::clone);
    let age = |set: &Arc<GameServerSet>| set.metadata.creation_timestamp.clone().map(|time| time.0);
    sets.sort_by(|a, b| age(a).cmp(&age(b)).then_with(|| a.metadata.name.cmp(&b.metadata.name)));
    let is_active = |set: &Arc<GameServerSet>| {
        set.metadata.deletion_timestamp.is_none() && set.spec.template == fleet.spec.template
    };
    let active = sets.iter().position(is_active).map(|index| sets.remove(index));
    Some(Observed { fleet, active, rest: sets })
}

/// Names the fleet that controls a set.
pub(super) fn fleet_of(set: &GameServerSet) -> Option<Key> {
    let owners = set.metadata.owner_references.iter().flatten();
    let mut owners = owners.filter(|o| o.controller == Some(true) && o.kind == "Fleet");
    let name = owners.next()?.name.as_str();
    Some(Key::new(set.metadata.namespace.as_deref().unwrap_or_default(), name))
}
