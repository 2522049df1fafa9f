//! What happens by itself, after a write is answered?
//!
//! What the controller manager of a cluster does for every cluster: garbage goes, namespaces empty out, budgets are kept
//! up to date, old events are forgotten. One task sees every change, in order, and hands it to each.

mod budgets;
mod events;
mod garbage;
mod namespaces;

use std::sync::Arc;

use serde::Deserialize;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until};

use crate::core::Core;
use crate::store::{Change, Object};
use apimachinery::resource::Resource;
use budgets::Budgets;
use events::Events;
use garbage::Garbage;
use namespaces::Namespaces;

/// Where an object is: its collection and its key.
pub(crate) type Place = (Arc<str>, Arc<str>);

/// The metadata that housekeeping looks at.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    pub(crate) uid: String,
    pub(crate) deletion_timestamp: Option<String>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) owner_references: Vec<Owner>,
}

/// An owner, as its dependents name it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Owner {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) controller: bool,
    pub(crate) block_owner_deletion: bool,
}

impl Meta {
    /// Reads only the metadata of an object.
    pub(crate) fn of(object: &Object) -> Self {
        object.metadata().unwrap_or_default()
    }
}

/// Starts housekeeping. It ends when the engine stops.
pub(crate) fn start(core: &Arc<Core>) {
    let of_task = Arc::clone(core);
    core.keep(core.supervisor.spawn("garbage collection", move || {
        // The feed is opened before the present is looked at, so that nothing falls between the two.
        let feed = of_task.store.feed();
        run(Arc::clone(&of_task), feed)
    }));
}

struct Keepers {
    garbage: Garbage,
    namespaces: Namespaces,
    budgets: Budgets,
    events: Events,
}

async fn run(core: Arc<Core>, mut feed: UnboundedReceiver<Arc<Change>>) {
    let mut stopping = core.stopping();
    let mut keepers = Keepers {
        garbage: Garbage::default(),
        namespaces: Namespaces::default(),
        budgets: Budgets::default(),
        events: Events::default(),
    };
    core.store.each(|collection, key, object| {
        keepers.note(collection, key, object, false);
    });
    loop {
        keepers.work(&core).await;
        let wake_at = keepers.wake_at();
        let change = tokio::select! {
            change = feed.recv() => change,
            _ = stopping.changed() => return,
            () = sleep(wake_at) => continue,
        };
        let Some(change) = change else { return };
        keepers.see(&change);
        // Whatever else has happened meanwhile is looked at together.
        while let Ok(change) = feed.try_recv() {
            keepers.see(&change);
        }
    }
}

async fn sleep(until: Option<Instant>) {
    match until {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl Keepers {
    fn see(&mut self, change: &Change) {
        let Change { collection, key, .. } = change;
        if change.keeps_ties && &**collection != "namespaces" {
            self.namespaces.note(collection, key, &Meta::default(), false);
            self.budgets.note(collection, key);
            return;
        }
        self.note(collection, key, &change.object, change.deleted);
    }

    fn note(&mut self, collection: &Arc<str>, key: &Arc<str>, object: &Object, deleted: bool) {
        if &**collection == "events" {
            // Nothing depends on an event, and there are many.
            self.events.note(key, object, deleted);
            self.namespaces.note(collection, key, &Meta::default(), deleted);
            return;
        }
        let meta = Meta::of(object);
        self.namespaces.note(collection, key, &meta, deleted);
        self.budgets.note(collection, key);
        self.garbage.note(collection, key, meta, deleted);
    }

    async fn work(&mut self, core: &Arc<Core>) {
        self.garbage.work(core).await;
        self.namespaces.work(core).await;
        self.budgets.work(core).await;
        self.events.work(core).await;
    }

    fn wake_at(&self) -> Option<Instant> {
        self.events.wake_at().into_iter().chain(self.budgets.wake_at()).min()
    }
}

/// Finds a resource that shows a collection.
pub(crate) fn shown_as(core: &Core, collection: &str) -> Option<Arc<Resource>> {
    let served = core.registry.served();
    let mut all = served.iter().flat_map(|(_, resources)| resources);
    all.find(|r| *r.storage == *collection && r.is_stored()).map(Arc::clone)
}
