//! Fleets: one set of game servers for each template, and how one takes the place of another.

mod act;
mod observe;

use cluster::{Error, Key, RequeueAt, Subscription, enqueue_into};
use std::sync::Arc;

use crate::context::Context;

/// Has a fleet looked at when it or one of its sets changes.
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

/// Works on fleets for as long as it is polled.
pub(crate) async fn run(cx: Arc<Context>) {
    let limit = cx.settings.concurrency;
    cx.queues.fleets.run(limit, |key| turn(key, Arc::clone(&cx))).await;
}

/// Looks at one fleet, gives each of its sets its size, and adds up what they have.
async fn turn(key: Key, cx: Arc<Context>) -> Result<RequeueAt, Error> {
    let Some(seen) = observe::fleet(&key, &cx.caches) else { return Ok(None) };
    let rollout = seen.rollout();
    act::delete(&seen, &rollout.delete, &cx).await?;
    act::resize(&seen, &rollout.resize, &cx).await?;
    act::keep_active(&seen, rollout.active, &cx).await?;
    act::status(&seen, &cx).await?;
    Ok(None)
}
