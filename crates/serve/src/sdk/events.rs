//! Says in events what the process changed.

use api::agones::GameServer;
use cluster::EventType;
use process::Supervised;

use super::Settings;
use super::changes::{Changes, RequestedState};
use super::core::Write;

/// Who says so.
const SOURCE: &str = "gameserver-sidecar";

/// How many characters of a refusal are reported; messages of events hold 1024 bytes.
const LONGEST: usize = 700;

pub(super) struct Events {
    events: cluster::EventRecorder,
    sending: Option<Supervised>,
}

/// What waits is sent, and then the task ends by itself.
impl Drop for Events {
    fn drop(&mut self) {
        if let Some(sending) = self.sending.take() {
            sending.detach();
        }
    }
}

impl Events {
    /// Starts sending, behind the work. It ends when this is dropped and what waits is sent.
    pub(super) fn start(client: kube::Client, settings: &Settings) -> Self {
        let (events, sending) = cluster::EventRecorder::new(client, settings.clock.clone());
        let task = format!("events of game server {}/{}", settings.namespace, settings.name);
        Self { events, sending: Some(settings.supervisor.spawn(task, sending)) }
    }

    /// Reports a change that the API refused, and that is dropped.
    pub(super) fn refused(&self, server: &GameServer, dropped: &Changes, err: &kube::Error) {
        let what = dropped.names().join(", ");
        tracing::error!(
            error = %cluster::explain(err),
            change = what,
            "a change was refused; dropped it"
        );
        let note = format!("The change of {what} was refused and is dropped: {}", why(err));
        self.events.record(server, SOURCE, EventType::Warning, "SDKChangeRefused", note);
    }

    /// Says what a write changed.
    pub(super) fn written(&self, write: &Write, after: &GameServer) {
        if let Some(requested) = write.batch.changes.requested_state_for(&write.before) {
            let (kind, note) = match requested {
                RequestedState::Unhealthy => {
                    (EventType::Warning, "no sign of life for too long".to_owned())
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

/// Returns what the API said, as much of it as fits into an event.
fn why(err: &kube::Error) -> String {
    cluster::explain(err).chars().take(LONGEST).collect()
}
