//! Says in events what the process changed: behind the work, a bounded number, never in its way.

use api::agones::GameServer;
use kube::Resource as _;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;

use super::changes::Wish;
use super::core::Write;

/// How many events may wait; more are not sent.
const WAITING: usize = 32;

pub(super) struct Events {
    queue: mpsc::Sender<(GameServer, Event)>,
}

impl Events {
    /// Starts sending. Ends when this is dropped and what waits is sent.
    pub(super) fn start(client: kube::Client) -> Self {
        let (queue, mut waiting) = mpsc::channel::<(GameServer, Event)>(WAITING);
        let reporter = Reporter { controller: "gameserver-sidecar".to_owned(), instance: None };
        tokio::spawn(async move {
            let recorder = Recorder::new(client, reporter);
            while let Some((server, event)) = waiting.recv().await {
                if let Err(err) = recorder.publish(&event, &server.object_ref(&())).await {
                    tracing::debug!(error = %err, "an event was not sent");
                }
            }
        });
        Self { queue }
    }

    /// Says what a write changed.
    pub(super) fn written(&self, write: &Write, after: &GameServer) {
        let wish = write.changes.wish_for(&write.before);
        if let Some(wish) = wish {
            let type_ = match wish {
                Wish::Unhealthy => EventType::Warning,
                Wish::Ready { .. } | Wish::Allocated | Wish::Reserved(_) | Wish::Shutdown => {
                    EventType::Normal
                }
            };
            let note = match wish {
                Wish::Reserved(Some(span)) => format!("SDK state change, for {} s", span.as_secs()),
                Wish::Unhealthy => "no sign of life for too long".to_owned(),
                Wish::Ready { .. } | Wish::Allocated | Wish::Reserved(None) | Wish::Shutdown => {
                    "SDK state change".to_owned()
                }
            };
            self.say(after, type_, wish.state().as_str(), note);
        }
        let status = after.status.as_ref();
        let counters = status.and_then(|status| status.counters.as_ref());
        for (name, counter) in counters.into_iter().flatten() {
            if write.changes.counters.contains_key(name) {
                let note = format!("counter {name}: {} of {}", counter.count, counter.capacity);
                self.say(after, EventType::Normal, "UpdateCounter", note);
            }
        }
        for (name, list) in status.and_then(|status| status.lists.as_ref()).into_iter().flatten() {
            if write.changes.lists.contains_key(name) {
                let note = format!("list {name}: {} of {}", list.values.len(), list.capacity);
                self.say(after, EventType::Normal, "UpdateList", note);
            }
        }
    }

    fn say(&self, about: &GameServer, type_: EventType, reason: &str, note: String) {
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note),
            action: reason.to_owned(),
            secondary: None,
        };
        if self.queue.try_send((about.clone(), event)).is_err() {
            tracing::debug!(reason, "too many events wait; one is not sent");
        }
    }
}
