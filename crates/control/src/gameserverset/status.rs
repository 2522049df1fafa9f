//! What does a set's status say?
//!
//! A set with thousands of game servers changes all the time while they start. Its status is written at once when the last write is a
//! while ago, and otherwise as often as leaves most of the time for other things.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::agones::GameServerSetStatus;
use cluster::{Error, Key, RequeueAt};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::context::Context;
use cluster::write::{self, PatchTarget};

/// How much longer than a write itself the time until the next is.
const REST: u32 = 4;

/// When each set may be written again.
#[derive(Clone, Default)]
pub(super) struct Pace(Arc<Mutex<HashMap<Key, Instant>>>);

impl Pace {
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

    fn wrote(&self, key: Key, began_at: Instant) {
        let at = Instant::now() + began_at.elapsed() * REST;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, at);
    }
}

/// Counts the game servers of one set, and writes the sums if they are new.
pub(super) async fn turn(key: Key, cx: Arc<Context>, pace: Pace) -> Result<RequeueAt, Error> {
    let Some(set) = cx.caches.sets.get(&key) else {
        pace.forget(&key);
        return Ok(None);
    };
    if let Some(at) = pace.not_before(&key) {
        return Ok(Some(at));
    }
    let began_at = Instant::now();
    let uid = set.metadata.uid.as_deref().unwrap_or_default();
    let servers = cx.caches.servers.owned(uid, |server| Arc::clone(&server.view));
    let sums = decide::fleet::status(&set.spec.template.spec.start(), &servers);
    let status = GameServerSetStatus::of(&sums);
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
    pace.wrote(key, began_at);
    Ok(None)
}

/// Gives a status as a patch that leaves nothing of the old one.
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
