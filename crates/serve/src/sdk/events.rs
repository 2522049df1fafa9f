//! Says in events what the process changed.

use api::agones::GameServer;
use control::{Clock, EventKind};

use super::changes::Wish;
use super::core::Write;

/// Who says so.
const SOURCE: &str = "gameserver-sidecar";

pub(super) struct Events(control::Events);

impl Events {
    /// Starts sending, behind the work. It ends when this is dropped and what waits is sent.
    pub(super) fn start(client: kube::Client) -> Self {
        let (events, sending) = control::Events::new(client, Clock::system());
        tokio::spawn(sending);
        Self(events)
    }

    /// Says what a write changed.
    pub(super) fn written(&self, write: &Write, after: &GameServer) {
        if let Some(wish) = write.changes.wish_for(&write.before) {
            let (kind, note) = match wish {
                Wish::Unhealthy => (EventKind::Warning, "no sign of life for too long".to_owned()),
                Wish::Reserved(Some(span)) => {
                    (EventKind::Normal, format!("SDK state change, for {} s", span.as_secs()))
                }
                Wish::Ready { .. } | Wish::Allocated | Wish::Reserved(None) | Wish::Shutdown => {
                    (EventKind::Normal, "SDK state change".to_owned())
                }
            };
            self.0.record(after, SOURCE, kind, wish.state().as_str(), note);
        }
        let status = after.status.as_ref();
        let counters = status.and_then(|status| status.counters.as_ref());
        for (name, counter) in counters.into_iter().flatten() {
            if write.changes.counters.contains_key(name) {
                let note = format!("counter {name}: {} of {}", counter.count, counter.capacity);
                self.0.record(after, SOURCE, EventKind::Normal, "UpdateCounter", note);
            }
        }
        for (name, list) in status.and_then(|status| status.lists.as_ref()).into_iter().flatten() {
            if write.changes.lists.contains_key(name) {
                let note = format!("list {name}: {} of {}", list.values.len(), list.capacity);
                self.0.record(after, SOURCE, EventKind::Normal, "UpdateList", note);
            }
        }
    }
}
