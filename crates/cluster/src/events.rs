//! Kubernetes Events, sent in the background. A full queue drops events and counts them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use process::Clock;
use tokio::sync::{Mutex, mpsc};

/// The most events that wait to be sent.
const WAITING: usize = 4096;
/// The most events that are sent at the same time.
const IN_FLIGHT: usize = 4;

/// Records events without ever blocking its caller.
#[derive(Clone)]
pub struct EventRecorder {
    sender: mpsc::Sender<Box<Event>>,
    dropped: Arc<AtomicU64>,
    clock: Clock,
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// Information only.
    Normal,
    /// Something that may need attention.
    Warning,
}

impl EventRecorder {
    /// Creates a recorder, and the function that sends its events: each call sends until the queue is closed and empty. Only one call
    /// sends at a time.
    pub fn new(
        client: Client,
        clock: Clock,
    ) -> (Self, impl FnMut() -> BoxFuture<'static, ()> + Send + 'static) {
        let (sender, receiver) = mpsc::channel(WAITING);
        let receiver = Arc::new(Mutex::new(receiver));
        let sending = move || send(client.clone(), Arc::clone(&receiver)).boxed();
        (Self { sender, dropped: Arc::default(), clock }, sending)
    }

    /// Records an event about an object; `source` names the reporting component.
    pub fn record<K>(
        &self,
        about: &K,
        source: &str,
        event_type: EventType,
        reason: &str,
        note: String,
    ) where
        K: Resource<DynamicType = ()>,
    {
        let source = EventSource { component: Some(source.to_owned()), host: None };
        self.record_from(about.object_ref(&()), source, event_type, reason, note);
    }

    /// Records an event about a reference to an object, or to a part of one; `source` names the reporting component and its host.
    pub fn record_from(
        &self,
        about: ObjectReference,
        source: EventSource,
        event_type: EventType,
        reason: &str,
        note: String,
    ) {
        let now = self.clock.now();
        let namespace = about.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let name = about.name.as_deref().unwrap_or_default();
        let event = Event {
            metadata: ObjectMeta {
                generate_name: Some(format!("{name}-")),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference { resource_version: None, ..about },
            type_: Some(match event_type {
                EventType::Normal => "Normal".to_owned(),
                EventType::Warning => "Warning".to_owned(),
            }),
            reason: Some(reason.to_owned()),
            action: Some(reason.to_owned()),
            message: Some(note),
            reporting_component: source.component.clone(),
            reporting_instance: source.host.clone().or_else(|| Some("plimsoll".to_owned())),
            source: Some(source),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            event_time: Some(MicroTime(now)),
            count: Some(1),
            ..Event::default()
        };
        if self.sender.try_send(Box::new(event)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns how many events were dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

async fn send(client: Client, receiver: Arc<Mutex<mpsc::Receiver<Box<Event>>>>) {
    let receiver = receiver.lock_owned().await;
    let events = futures::stream::unfold(receiver, |mut receiver| async move {
        Some((receiver.recv().await?, receiver))
    });
    events
        .for_each_concurrent(IN_FLIGHT, |event| {
            let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
            let api: Api<Event> = Api::namespaced(client.clone(), namespace);
            async move {
                if let Err(error) = api.create(&PostParams::default(), &event).await {
                    tracing::debug!(
                        error = %crate::error::explain(&error),
                        "event not recorded"
                    );
                }
            }
        })
        .await;
}
