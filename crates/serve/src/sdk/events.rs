//! Events about the changes that the process made.

use api::agones::GameServer;
use cluster::EventType;
use process::Supervised;

use super::Settings;
use super::changes::{Changes, RequestedState};
use super::core::Write;

/// The component that reports the events.
const SOURCE: &str = "gameserver-sidecar";

/// The maximum number of characters of an error in an event; event messages hold 1024 bytes.
const MAX_ERROR_CHARS: usize = 700;

pub(super) struct Events {
    events: cluster::EventRecorder,
    sending: Option<Supervised>,
}

/// Detaches the task, which ends when the queued events are sent.
impl Drop for Events {
    fn drop(&mut self) {
        if let Some(sending) = self.sending.take() {
            sending.detach();
        }
    }
}

impl Events {
    /// Starts sending events in the background, until this is dropped and the queue is empty.
    pub(super) fn start(client: kube::Client, settings: &Settings) -> Self {
        let (events, sending) = cluster::EventRecorder::new(client, settings.clock.clone());
        let task = format!("events of game server {}/{}", settings.namespace, settings.name);
        Self { events, sending: Some(settings.supervisor.spawn(task, sending)) }
    }

    /// Records that the API rejected a change, which is dropped.
    pub(super) fn rejected(&self, server: &GameServer, dropped: &Changes, err: &kube::Error) {
        let what = dropped.names().join(", ");
        tracing::error!(
            error = %cluster::explain(err),
            change = what,
            "the API rejected a change; dropping it"
        );
        let note =
            format!("The API rejected the change of {what}; it was dropped: {}", truncated(err));
        self.events.record(server, SOURCE, EventType::Warning, "SDKChangeRefused", note);
    }

    /// Records the changes that a write made.
    pub(super) fn written(&self, write: &Write, after: &GameServer) {
        if let Some(requested) = write.batch.changes.requested_state_for(&write.before) {
            let (kind, note) = match requested {
                RequestedState::Unhealthy => {
                    (EventType::Warning, "no health ping in time".to_owned())
                }
                RequestedState::Reserved(Some(span)) => {
                    (EventType::Normal, format!("SDK state change, for {} s", span.as_secs()))
                }
                RequestedState::Ready { .. }
                | RequestedState::Allocated
                | RequestedState::Reserved(None)
                | RequestedState::Shutdown => (EventType::Normal, "SDK state change".to_owned()),
            };
            self.events.record(after, SOURCE, kind, requested.state().as_str(), note);
        }
        let status = after.status.as_ref();
        let counters = status.and_then(|status| status.counters.as_ref());
        for (name, counter) in counters.into_iter().flatten() {
            if write.batch.changes.counters.contains_key(name) {
                let note = format!("counter {name}: {} of {}", counter.count, counter.capacity);
                self.events.record(after, SOURCE, EventType::Normal, "UpdateCounter", note);
            }
        }
        for (name, list) in status.and_then(|status| status.lists.as_ref()).into_iter().flatten() {
            if write.batch.changes.lists.contains_key(name) {
                let note = format!("list {name}: {} of {}", list.values.len(), list.capacity);
                self.events.record(after, SOURCE, EventType::Normal, "UpdateList", note);
            }
        }
    }
}

/// Returns the error, truncated to fit into an event.
fn truncated(err: &kube::Error) -> String {
    cluster::explain(err).chars().take(MAX_ERROR_CHARS).collect()
}
