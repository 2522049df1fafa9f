//! The journal: Decision objects about the objects that controllers scale, written in the background.
//!
//! Recording never blocks: what is unchanged is only counted, and a full queue drops decisions and counts them. No controller watches
//! Decisions. Without the CRD nothing is recorded.

mod content;
mod journal;
mod pace;
mod store;
mod writer;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::plimsoll::{DecisionOutcome, DecisionSubject};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Client, Resource};
use process::Clock;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::Key;
pub use content::{cut, redact, redact_urls};
pub use journal::Signature;
use journal::{Journal, Step, SubjectKey};
use writer::Writer;

/// The most decisions that wait to be written.
const WAITING: usize = 256;

/// What the journal keeps, and how fast it is written.
#[derive(Clone, Debug)]
pub struct DecisionSettings {
    /// The most decisions that are kept for each subject.
    pub keep: usize,
    /// How long a decision is kept; the newest one of a subject stays.
    pub keep_for: SignedDuration,
    /// The most writes in a second.
    pub writes_per_second: usize,
    /// The namespace of decisions about cluster-wide subjects.
    pub namespace: String,
    /// The counters of this process.
    pub counts: DecisionCounts,
}

impl Default for DecisionSettings {
    fn default() -> Self {
        Self {
            keep: 20,
            keep_for: SignedDuration::from_hours(24),
            writes_per_second: 20,
            namespace: "plimsoll-system".to_owned(),
            counts: DecisionCounts::default(),
        }
    }
}

/// The number of decisions that were written and dropped. Clones share the same counters.
#[derive(Clone, Debug, Default)]
pub struct DecisionCounts(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    recorded: AtomicU64,
    dropped: AtomicU64,
}

impl DecisionCounts {
    /// Returns how many decisions were written.
    pub fn recorded(&self) -> u64 {
        self.0.recorded.load(Ordering::Relaxed)
    }

    /// Returns how many decisions were dropped, because too many came at once or the API server refused them.
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }
}

/// Records decisions without ever blocking its caller.
#[derive(Clone)]
pub struct DecisionRecorder {
    sender: mpsc::Sender<Box<Entry>>,
    shared: Arc<Shared>,
}

struct Shared {
    journal: Mutex<Journal>,
    settings: DecisionSettings,
    clock: Clock,
    /// Until when nothing is recorded, because the API server does not have the kind.
    absent_until: Mutex<Option<Timestamp>>,
}

/// A decision to be written, or the repetition of one.
struct Entry {
    key: SubjectKey,
    subject: DecisionSubject,
    owner: Option<OwnerReference>,
    signature: Signature,
    at: Timestamp,
    /// Absent for a repetition.
    record: Option<DecisionRecord>,
}

/// A decision, its outcome and its inputs.
pub struct DecisionRecord {
    /// The decision, as `plimsoll evaluate -o json` prints it.
    pub decision: Map<String, Value>,
    /// Returns the objects that were read. It is called in the background, and only if the decision is written.
    pub inputs: Box<dyn FnOnce() -> Vec<Value> + Send>,
    /// The result of carrying it out.
    pub outcome: DecisionOutcome,
    /// The answer of the API server or provider, where that failed.
    pub message: String,
}

impl DecisionRecorder {
    /// Creates a recorder, and the function that writes its decisions: each call writes until the queue is closed and empty. Only one call
    /// writes at a time.
    pub fn new(
        client: Client,
        clock: Clock,
        settings: DecisionSettings,
    ) -> (Self, impl FnMut() -> BoxFuture<'static, ()> + Send + 'static) {
        let (sender, receiver) = mpsc::channel(WAITING);
        let shared = Arc::new(Shared {
            journal: Mutex::default(),
            settings,
            clock,
            absent_until: Mutex::default(),
        });
        let writer = Writer::new(client, Arc::clone(&shared));
        let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
        let writing = move || writer.clone().run(Arc::clone(&receiver)).boxed();
        (Self { sender, shared }, writing)
    }

    /// Records a decision about an object at the time `at`. `record` is called only if the decision differs from the last one.
    pub fn record<K>(
        &self,
        about: &K,
        signature: Signature,
        at: Timestamp,
        record: impl FnOnce() -> DecisionRecord,
    ) where
        K: SubjectKind,
    {
        if self.shared.is_absent(at) {
            return;
        }
        let meta = about.meta();
        let key = (K::KIND, Key::from_meta(meta));
        let uid = meta.uid.as_deref().unwrap_or_default();
        let step = self.shared.journal().evaluated(&key, uid, signature, at);
        let record = match step {
            Step::Count => return,
            Step::Update => None,
            Step::Write => Some(record()),
        };
        let subject = DecisionSubject {
            kind: K::KIND.to_owned(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone(),
        };
        let is_new = record.is_some();
        let owner = about.owner_ref(&());
        let entry = Entry { key: key.clone(), subject, owner, signature, at, record };
        if self.sender.try_send(Box::new(entry)).is_err() && is_new {
            self.shared.drop_entry(&key);
        }
    }

    /// Whether a decision about an object would not be written: it repeats the last one, or the API server does not have the kind.
    pub fn is_repeated<K: SubjectKind>(&self, about: &K, signature: Signature) -> bool {
        let meta = about.meta();
        let key = (K::KIND, Key::from_meta(meta));
        let uid = meta.uid.as_deref().unwrap_or_default();
        self.shared.is_absent(self.shared.clock.now())
            || self.shared.journal().is_current(&key, uid, signature)
    }

    /// Removes an object that was deleted. The garbage collector deletes its decisions.
    pub fn forget<K: SubjectKind>(&self, key: &Key) {
        self.shared.journal().remove(&(K::KIND, key.clone()));
    }
}

/// A kind that decisions are about.
pub trait SubjectKind: Resource<DynamicType = ()> {
    /// The name of the kind.
    const KIND: &'static str;
}

impl SubjectKind for api::autoscaling::FleetAutoscaler {
    const KIND: &'static str = "FleetAutoscaler";
}

impl SubjectKind for api::plimsoll::ScalingPolicy {
    const KIND: &'static str = "ScalingPolicy";
}

impl SubjectKind for api::plimsoll::AutoScalePolicy {
    const KIND: &'static str = "AutoScalePolicy";
}

impl SubjectKind for api::plimsoll::NodeAutoscaler {
    const KIND: &'static str = "NodeAutoscaler";
}

impl SubjectKind for api::agones::Fleet {
    const KIND: &'static str = "Fleet";
}

impl Shared {
    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_absent(&self, now: Timestamp) -> bool {
        let absent_until = self.absent_until.lock().unwrap_or_else(PoisonError::into_inner);
        absent_until.is_some_and(|until| now < until)
    }

    /// Records that the kind is missing until a time, and returns whether that is new.
    fn set_absent(&self, until: Timestamp) -> bool {
        let mut absent_until = self.absent_until.lock().unwrap_or_else(PoisonError::into_inner);
        absent_until.replace(until).is_none()
    }

    fn set_present(&self) {
        *self.absent_until.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Counts a decision that is not written.
    fn drop_entry(&self, key: &SubjectKey) {
        self.settings.counts.0.dropped.fetch_add(1, Ordering::Relaxed);
        self.journal().not_written(key);
    }
}
