//! The controllers that the API server runs itself.
//!
//! They do the part of kube-controller-manager that clients rely on: garbage collection, namespace deletion, the status of
//! PodDisruptionBudgets and event expiry. One task receives every change in order and passes it to each controller.

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

/// The metadata that the controllers read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    pub(crate) uid: String,
    pub(crate) deletion_timestamp: Option<String>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) owner_references: Vec<OwnerReference>,
}

/// An entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct OwnerReference {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) controller: bool,
    pub(crate) block_owner_deletion: bool,
}

impl Meta {
    /// Reads only the metadata of an object.
    pub(crate) fn from_object(object: &Object) -> Self {
        object.metadata().unwrap_or_default()
    }
}

/// Starts the controllers. They run until the server stops.
pub(crate) fn start(core: &Arc<Core>) {
    let task_core = Arc::clone(core);
    core.own_task(core.supervisor.spawn("garbage collection", move || {
        // Subscribe before the initial list, so that no change between the two is missed.
        let feed = task_core.store.feed();
        run(Arc::clone(&task_core), feed)
    }));
}

struct Controllers {
    garbage: Garbage,
    namespaces: Namespaces,
    budgets: Budgets,
    events: Events,
}

async fn run(core: Arc<Core>, mut feed: UnboundedReceiver<Arc<Change>>) {
    let mut stopping = core.stopping();
    let mut controllers = Controllers {
        garbage: Garbage::default(),
        namespaces: Namespaces::default(),
        budgets: Budgets::default(),
        events: Events::default(),
    };
    core.store.each(|collection, key, object| {
        controllers.observe(collection, key, object, false);
    });
    loop {
        controllers.reconcile(&core).await;
        let wake_at = controllers.next_wake();
        let change = tokio::select! {
            change = feed.recv() => change,
            _ = stopping.changed() => return,
            () = sleep(wake_at) => continue,
        };
        let Some(change) = change else { return };
        controllers.apply_change(&change);
        // Handle all changes that are already queued in one pass.
        while let Ok(change) = feed.try_recv() {
            controllers.apply_change(&change);
        }
    }
}

async fn sleep(until: Option<Instant>) {
    match until {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl Controllers {
    fn apply_change(&mut self, change: &Change) {
        let Change { collection, key, .. } = change;
        if change.keeps_ties && &**collection != "namespaces" {
            self.namespaces.observe(collection, key, &Meta::default(), false);
            self.budgets.observe(collection, key);
            return;
        }
        self.observe(collection, key, &change.object, change.deleted);
    }

    fn observe(&mut self, collection: &Arc<str>, key: &Arc<str>, object: &Object, deleted: bool) {
        if &**collection == "events" {
            // Events are numerous and own nothing, so garbage collection skips them.
            self.events.observe(key, object, deleted);
            self.namespaces.observe(collection, key, &Meta::default(), deleted);
            return;
        }
        let meta = Meta::from_object(object);
        self.namespaces.observe(collection, key, &meta, deleted);
        self.budgets.observe(collection, key);
        self.garbage.observe(collection, key, meta, deleted);
    }

    async fn reconcile(&mut self, core: &Arc<Core>) {
        self.garbage.reconcile(core).await;
        self.namespaces.reconcile(core).await;
        self.budgets.reconcile(core).await;
        self.events.reconcile(core).await;
    }

    fn next_wake(&self) -> Option<Instant> {
        self.events.next_wake().into_iter().chain(self.budgets.next_wake()).min()
    }
}

/// Returns a resource that is stored in a collection.
pub(crate) fn stored_resource(core: &Core, collection: &str) -> Option<Arc<Resource>> {
    let served = core.registry.served();
    let mut all = served.iter().flat_map(|(_, resources)| resources);
    all.find(|r| *r.storage == *collection && r.is_stored()).map(Arc::clone)
}
