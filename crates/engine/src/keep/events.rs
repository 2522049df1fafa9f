//! When is an event old enough to be forgotten?

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{shown_as, split};
use crate::core::Core;
use crate::rest::internal::{self, Propagation};
use crate::store::Object;

/// How long an event is kept after it was last written, in milliseconds, as kube-apiserver keeps it.
const KEEP_FOR: i64 = 60 * 60 * 1000;
/// Events that expire within this time go together, in milliseconds.
const TOGETHER: i64 = 60 * 1000;

/// When each event was last written.
#[derive(Default)]
pub(super) struct Events {
    last: BTreeMap<Arc<str>, u64>,
    /// By version: the oldest first. The time is set when the event is next looked at.
    by_age: BTreeMap<u64, (Arc<str>, Option<i64>)>,
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
        let now = core.clock.now().as_millisecond();
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
            let (namespace, name) = split(&key);
            internal::delete(core, &resource, namespace, name, None, Propagation::Background).await;
        }
    }

    /// Tells when the next event is old; a little later, so that many go together.
    pub(super) fn wake_at(&self, core: &Core) -> Option<Instant> {
        let (_, (_, at)) = self.by_age.first_key_value()?;
        let now = core.clock.now().as_millisecond();
        let wait = at.unwrap_or(now) + KEEP_FOR + TOGETHER - now;
        Some(Instant::now() + Duration::from_millis(u64::try_from(wait).unwrap_or(0)))
    }
}
