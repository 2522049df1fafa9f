//! Deletes events an hour after they were last written, as kube-apiserver does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::stored_resource;
use crate::core::Core;
use crate::rest::internal::{self, Propagation};
use crate::store::Object;
use apimachinery::resource::split_key;

/// The time to live of an event after its last write, the default of kube-apiserver.
const TIME_TO_LIVE: Duration = Duration::from_secs(60 * 60);
/// Events that expire within this time are deleted together.
const BATCH_WINDOW: Duration = Duration::from_secs(60);

/// When each event was last written.
#[derive(Default)]
pub(super) struct Events {
    last: BTreeMap<Arc<str>, u64>,
    /// By version, the oldest first. The time is set by the next reconciliation.
    by_age: BTreeMap<u64, (Arc<str>, Option<Instant>)>,
}

impl Events {
    /// Records a write or a deletion of an event.
    pub(super) fn observe(&mut self, key: &Arc<str>, object: &Object, deleted: bool) {
        if let Some(before) = self.last.remove(key) {
            self.by_age.remove(&before);
        }
        if !deleted {
            self.last.insert(Arc::clone(key), object.version());
            self.by_age.insert(object.version(), (Arc::clone(key), None));
        }
    }

    /// Deletes expired events.
    pub(super) async fn reconcile(&mut self, core: &Arc<Core>) {
        let now = Instant::now();
        for (_, at) in self.by_age.values_mut().rev() {
            if at.is_some() {
                break;
            }
            *at = Some(now);
        }
        let old = self
            .by_age
            .values()
            .take_while(|(_, at)| at.is_some_and(|at| at + TIME_TO_LIVE <= now));
        let old: Vec<Arc<str>> = old.map(|(key, _)| Arc::clone(key)).collect();
        if old.is_empty() {
            return;
        }
        let Some(resource) = stored_resource(core, "events") else { return };
        for key in old {
            let (namespace, name) = split_key(&key);
            internal::delete(core, &resource, namespace, name, None, Propagation::Background).await;
        }
    }

    /// Returns when to reconcile next: a little after the next expiry, so that many events are deleted together.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        let (_, (_, at)) = self.by_age.first_key_value()?;
        Some(at.unwrap_or_else(Instant::now) + TIME_TO_LIVE + BATCH_WINDOW)
    }
}
