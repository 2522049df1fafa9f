//! Counts the writes to the API.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{Method, Request};

/// Counts writes on their way to the API.
#[derive(Clone, Default)]
pub(super) struct Counter {
    objects: Arc<AtomicU64>,
    events: Arc<AtomicU64>,
    all: Arc<AtomicU64>,
}

/// How many writes there were.
#[derive(Clone, Copy, Default)]
pub(super) struct Writes {
    /// To GameServers and Pods.
    pub(super) objects: u64,
    /// To Events.
    pub(super) events: u64,
}

impl Counter {
    /// Lets a request pass, and counts it if it writes.
    pub(super) fn count<B>(&self, request: Request<B>) -> Request<B> {
        let path = request.uri().path();
        let has = |plural: &str| path.split('/').any(|part| part == plural);
        if request.method() == Method::GET {
            return request;
        }
        self.all.fetch_add(1, Ordering::Relaxed);
        if has("gameservers") || has("pods") {
            self.objects.fetch_add(1, Ordering::Relaxed);
        } else if has("events") {
            self.events.fetch_add(1, Ordering::Relaxed);
        }
        request
    }

    /// Returns how many writes of any kind there were.
    pub(super) fn all(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    pub(super) fn writes(&self) -> Writes {
        Writes {
            objects: self.objects.load(Ordering::Relaxed),
            events: self.events.load(Ordering::Relaxed),
        }
    }
}

impl Writes {
    pub(super) fn since(self, earlier: Self) -> Self {
        Self { objects: self.objects - earlier.objects, events: self.events - earlier.events }
    }
}
