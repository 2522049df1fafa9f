//! Events about allocations.
//!
//! Events are sent in the background, one at a time, from a bounded queue that drops events when it is full: an allocation never
//! waits for its event, and a burst of allocations does not double the load on the API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cluster::CachedGameServer;
use decide::Reason as _;
use decide::allocation::Warning;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::{Api, Client};
use process::{Clock, Random};
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

use super::Settings;

const COMPONENT: &str = "GameServerAllocation-Allocator";

/// The capacity of the queue.
const QUEUE_CAPACITY: usize = 1024;

/// The minimum and maximum pause after each event. The pause is a multiple of the time that sending took, so that allocations
/// have priority when the API server is slow.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(5));
const PAUSE_FACTOR: u32 = 10;

/// The queue of events to send.
pub(super) struct Events {
    queue: Option<mpsc::Sender<Event>>,
    dropped: AtomicU64,
    clock: Clock,
    random: Random,
}

impl Events {
    /// Returns the queue and the task that sends from it; no event is sent unless the settings ask for events.
    pub(super) fn new(
        client: Client,
        settings: &Settings,
    ) -> (Self, impl FnMut() -> BoxFuture<'static, ()> + Send + 'static) {
        let (queue, waiting) = mpsc::channel(QUEUE_CAPACITY);
        let events = Self {
            queue: settings.events.then_some(queue),
            dropped: AtomicU64::new(0),
            clock: settings.clock.clone(),
            random: settings.random.clone(),
        };
        let waiting = Arc::new(Mutex::new(waiting));
        (events, move || send(client.clone(), Arc::clone(&waiting)).boxed())
    }

    /// Records that a server was allocated, and the actions of the request that did not apply to it.
    pub(super) fn record(&self, server: &CachedGameServer, warnings: &[Warning]) {
        let Some(queue) = &self.queue else { return };
        let now = self.clock.now();
        let allocated = [("Normal", "Allocated", "Allocated".to_owned())];
        let warnings = warnings.iter().map(|w| ("Warning", w.code(), w.to_string()));
        for (type_, reason, message) in allocated.into_iter().chain(warnings) {
            if queue.capacity() == 0
                || queue.try_send(self.event(server, type_, reason, message, now)).is_err()
            {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn event(
        &self,
        server: &CachedGameServer,
        type_: &str,
        reason: &str,
        message: String,
        now: Timestamp,
    ) -> Event {
        let metadata = &server.object.metadata;
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{:016x}", server.view.name, self.random.u64())),
                namespace: Some(server.view.namespace.to_string()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some("agones.dev/v1".to_owned()),
                kind: Some("GameServer".to_owned()),
                name: metadata.name.clone(),
                namespace: metadata.namespace.clone(),
                uid: metadata.uid.clone(),
                resource_version: metadata.resource_version.clone(),
                field_path: None,
            },
            type_: Some(type_.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message),
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
            reporting_component: Some(COMPONENT.to_owned()),
            ..Event::default()
        }
    }
}

async fn send(client: Client, waiting: Arc<Mutex<mpsc::Receiver<Event>>>) {
    let mut waiting = waiting.lock().await;
    while let Some(event) = waiting.recv().await {
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
        let sent_at = Instant::now();
        if let Err(err) = api.create(&Default::default(), &event).await {
            tracing::debug!(error = %cluster::explain(&err), "could not send an event; dropping it");
        }
        tokio::time::sleep((sent_at.elapsed() * PAUSE_FACTOR).clamp(PAUSE.0, PAUSE.1)).await;
    }
    // No sender is left.
    std::future::pending().await
}
