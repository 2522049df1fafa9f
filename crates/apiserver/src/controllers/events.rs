//! When is an event old enough to be forgotten?

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::shown_as;
use crate::core::Core;
use crate::rest::internal::{self, Propagation};
use crate::store::Object;
use apimachinery::resource::split_key;

/// How long an event is kept after it was last written, as kube-apiserver keeps it.
const KEEP_FOR: Duration = Duration::from_secs(60 * 60);
/// Events that expire within this time go together.
const TOGETHER: Duration = Duration::from_secs(60);

/// When each event was last written.
#[derive(Default)]
pub(super) struct Events {
    last: BTreeMap<Arc<str>, u64>,
    /// By version: the oldest first. The time is set when the event is next looked at.
    by_age: BTreeMap<u64, (Arc<str>, Option<Instant>)>,
}

impl Events {
    /// Takes notice of an event.
    pub(super) fn note(&mut self, key: &Arc<str>, object: &Object, deleted: bool) {
        if let Some(before) = self.last.remove(key) {
            self.by_age.remove(&before);
        }
        if !deleted {
            self.last.insert(Arc::clone(key), object.version());
            self.by_age.insert(object.version(), (Arc::clone(key), None));
        }
    }

    /// Forgets what is old.
    pub(super) async fn work(&mut self, core: &Arc<Core>) {
        let now = Instant::now();
        for (_, at) in self.by_age.values_mut().rev() {
            if at.is_some() {
                break;
            }
            *at = Some(now);
        }
        let old =
            self.by_age.values().take_while(|(_, at)| at.is_some_and(|at| at + KEEP_FOR <= now));
        let old: Vec<Arc<str>> = old.map(|(key, _)| Arc::clone(key)).collect();
        if old.is_empty() {
            return;
        }
        let Some(resource) = shown_as(core, "events") else { return };
        for key in old {
            let (namespace, name) = split_key(&key);
            internal::delete(core, &resource, namespace, name, None, Propagation::Background).await;
        }
    }

    /// Tells when the next event is old; a little later, so that many go together.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let (_, (_, at)) = self.by_age.first_key_value()?;
        Some(at.unwrap_or_else(Instant::now) + KEEP_FOR + TOGETHER)
    }
}
