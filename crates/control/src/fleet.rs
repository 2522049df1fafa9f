//! The controller of fleets: one set of game servers for each template, and the rollout from one to the next.

mod act;
pub mod describe;
mod journal;
pub mod observe;

use api::agones::Fleet;
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

/// The generation at which each fleet was reported as unreadable.
type Reported = Mutex<HashMap<Key, Option<i64>>>;

/// Observes one fleet, resizes its sets, and sums up their status. The sets of a fleet that cannot be read stay as they are.
async fn reconcile(
    key: Key,
    reported: Arc<Reported>,
    cx: Arc<Context>,
) -> Result<RequeueAt, Error> {
    let Some(observed) = observe::fleet(&key, &cx.caches) else {
        reported.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        cx.decisions.forget::<Fleet>(&key);
        return Ok(None);
    };
    match observed.plan() {
        Ok(plan) => {
            let pending = journal::FleetSnapshot::before(&observed, &plan, &cx);
            let result = act::carry_out(&observed, &plan, &cx).await;
            if let Some(pending) = pending {
                pending.record(&observed, &result, &cx);
            }
            result?;
        }
        Err(problems) => {
            let generation = observed.fleet.metadata.generation;
            let before = {
                let mut reported = reported.lock().unwrap_or_else(PoisonError::into_inner);
                reported.insert(key, generation)
            };
            if before != Some(generation) {
                act::report_unreadable(&observed, &problems, &cx);
            }
        }
    }
    act::status(&observed, &cx).await?;
    Ok(None)
}
