//! Fleets: one set of game servers for each template, and how one takes the place of another.

mod act;
pub mod observe;

use cluster::{Error, Key, RequeueAt, Subscription, enqueue_into};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::context::Context;

/// Enqueues a fleet when it or one of its sets changes.
pub(crate) fn watch(cx: &Arc<Context>) -> Vec<Subscription> {
    let add = enqueue_into(&cx.queues.fleets);
    let fleets = cx.caches.fleets.subscribe(move |_, new| {
        if let Some(fleet) = new {
            add(Key::from_meta(&fleet.metadata));
        }
    });
    let add = enqueue_into(&cx.queues.fleets);
    let sets = cx.caches.sets.subscribe(move |old, new| {
        if let Some(fleet) = new.or(old).and_then(|set| observe::fleet_of(set)) {
            add(fleet);
        }
    });
    vec![fleets, sets]
}

/// Reconciles fleets for as long as it is polled.
pub(crate) async fn run(cx: Arc<Context>) {
    let limit = cx.settings.concurrency;
    let reported = Arc::<Reported>::default();
    let reconcile = |key| reconcile(key, Arc::clone(&reported), Arc::clone(&cx));
    cx.queues.fleets.run(limit, reconcile).await;
}

/// The generation of each fleet that was reported as unreadable.
type Reported = Mutex<HashMap<Key, Option<i64>>>;

/// Observes one fleet, gives each of its sets its size, and sums up their status. A fleet that cannot be read keeps its sets as
/// they are.
async fn reconcile(
    key: Key,
    reported: Arc<Reported>,
    cx: Arc<Context>,
) -> Result<RequeueAt, Error> {
    let Some(seen) = observe::fleet(&key, &cx.caches) else {
        reported.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        return Ok(None);
    };
    match seen.plan() {
        Ok(plan) => {
            act::delete(&seen, &plan, &cx).await?;
            act::resize(&seen, &plan, &cx).await?;
            act::keep_active(&seen, &plan, &cx).await?;
        }
        Err(problems) => {
            let generation = seen.fleet.metadata.generation;
            let before = {
                let mut reported = reported.lock().unwrap_or_else(PoisonError::into_inner);
                reported.insert(key, generation)
            };
            if before != Some(generation) {
                act::report_unreadable(&seen, &problems, &cx);
            }
        }
    }
    act::status(&seen, &cx).await?;
    Ok(None)
}
