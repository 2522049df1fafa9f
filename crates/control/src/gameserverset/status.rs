//! Writes the status of a set.
//!
//! A set with thousands of game servers changes all the time while they start. Its status is written at once if the last write is some
//! time ago, and otherwise at a rate that keeps the share of time spent on it small.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::agones::GameServerSetStatus;
use cluster::{Error, Key, RequeueAt};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::context::Context;
use cluster::write::{self, PatchTarget};

/// The pause after a write, as a multiple of its duration.
const PAUSE_FACTOR: u32 = 4;

/// When the status of each set may be written again.
#[derive(Clone, Default)]
pub(super) struct WriteLimiter(Arc<Mutex<HashMap<Key, Instant>>>);

impl WriteLimiter {
    fn not_before(&self, key: &Key) -> Option<Instant> {
        let mut next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = *next.get(key)?;
        if at > Instant::now() {
            return Some(at);
        }
        next.remove(key);
        None
    }

    fn forget(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    fn record_write(&self, key: Key, began_at: Instant) {
        let at = Instant::now() + began_at.elapsed() * PAUSE_FACTOR;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, at);
    }
}

/// Counts the game servers of one set, and writes the status if it has changed.
pub(super) async fn reconcile(
    key: Key,
    cx: Arc<Context>,
    limiter: WriteLimiter,
) -> Result<RequeueAt, Error> {
    let Some(set) = cx.caches.sets.get(&key) else {
        limiter.forget(&key);
        return Ok(None);
    };
    if let Some(at) = limiter.not_before(&key) {
        return Ok(Some(at));
    }
    let began_at = Instant::now();
    let uid = set.metadata.uid.as_deref().unwrap_or_default();
    let servers = cx.caches.servers.owned(uid, |server| Arc::clone(&server.view));
    let sums = decide::fleet::status(&set.spec.template.spec.start(), &servers);
    let status = GameServerSetStatus::from_sums(&sums);
    if set.status.as_ref() == Some(&status) {
        return Ok(None);
    }
    let change = json!({"status": replace(&status, set.status.as_ref())});
    write::patch(
        &cx.client,
        &cx.caches.sets,
        &*set,
        PatchTarget::Status,
        change,
        "write the status",
    )
    .await?;
    limiter.record_write(key, began_at);
    Ok(None)
}

/// Returns a status as a merge patch that removes the keys of the old one.
pub(crate) fn replace<S: serde::Serialize>(new: &S, old: Option<&S>) -> Value {
    let json = |status: &S| serde_json::to_value(status).unwrap_or_default();
    let (mut new, old) = (json(new), old.map(json).unwrap_or_default());
    for sums in ["counters", "lists"] {
        let kept: Vec<&String> = old[sums].as_object().into_iter().flat_map(|m| m.keys()).collect();
        for key in kept {
            if new[sums][key].is_null() {
                new[sums][key] = Value::Null;
            }
        }
    }
    new
}
