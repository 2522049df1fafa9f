//! Writes queued decisions, one after the other, and deletes those that expire.
//!
//! What earlier processes have stored is listed once for all subjects: one list for each would take the API server a search through all
//! decisions each time.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use api::plimsoll::{DecisionSpec, DecisionSubject};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use serde_json::Value;
use tokio::sync::{Mutex, mpsc};

use super::content::{bounded, cut, redact, redact_urls};
use super::journal::SubjectKey;
use super::pace::Pace;
use super::store::{AllStored, StoredName, SubjectStore};
use super::{DecisionRecord, Entry, Shared};
use crate::error::{explain, status_code};

/// How long the kind is not requested again where the API server does not have it.
const ABSENT_FOR: SignedDuration = SignedDuration::from_mins(10);
/// How long one decision may take to be written.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How often expired decisions are deleted, whether new ones are written or not.
const SWEEP_EVERY: Duration = Duration::from_secs(3600);
/// How many names are tried where another process has used the next ones.
const TRIES: usize = 3;

/// Writes decisions.
#[derive(Clone)]
pub(super) struct Writer {
    client: Client,
    shared: Arc<Shared>,
}

/// What one run of the writer keeps.
#[derive(Default)]
struct Run {
    pace: Pace,
    earlier: Earlier,
    /// The subjects with decisions of this run that may not be known here.
    uncertain: HashSet<SubjectKey>,
}

/// The decisions of earlier runs.
#[derive(Default)]
enum Earlier {
    #[default]
    NotListed,
    Listed(AllStored),
    /// They are not listed for all subjects at once.
    Unknown,
}

impl Writer {
    pub(super) fn new(client: Client, shared: Arc<Shared>) -> Self {
        Self { client, shared }
    }

    /// Writes queued decisions for as long as it is polled.
    pub(super) async fn run(self, receiver: Arc<Mutex<mpsc::Receiver<Box<Entry>>>>) {
        let mut receiver = receiver.lock_owned().await;
        self.shared.journal().restarted();
        let mut run = Run::default();
        let mut sweep = tokio::time::interval(SWEEP_EVERY);
        loop {
            tokio::select! {
                entry = receiver.recv() => match entry {
                    Some(entry) => self.process(*entry, &mut run).await,
                    // The recorder was dropped, and this task ends soon.
                    None => std::future::pending().await,
                },
                _ = sweep.tick() => self.sweep(&mut run).await,
            }
        }
    }

    async fn process(&self, entry: Entry, run: &mut Run) {
        let (key, is_new) = (entry.key.clone(), entry.record.is_some());
        if self.shared.is_absent(self.shared.clock.now()) {
            self.shared.journal().not_written(&key);
            return;
        }
        match tokio::time::timeout(TIMEOUT, self.write(entry, run)).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => {
                let error = explain(&error);
                tracing::debug!(kind = key.0, subject = %key.1, error, "decision not recorded");
            }
            Err(_) => {
                tracing::debug!(kind = key.0, subject = %key.1, "decision not recorded in time");
            }
        }
        self.lost(&key, run);
        if is_new {
            self.shared.drop_entry(&key);
        }
    }

    /// Records that it is not known which decisions about a subject are stored.
    fn lost(&self, key: &SubjectKey, run: &mut Run) {
        self.shared.journal().lost(key);
        run.uncertain.insert(key.clone());
    }

    async fn write(&self, entry: Entry, run: &mut Run) -> Result<(), kube::Error> {
        let settings = &self.shared.settings;
        let store = SubjectStore::new(&self.client, &entry.subject, &settings.namespace);
        let key = entry.key.clone();
        let is_unlisted = self.shared.journal().is_unlisted(&key);
        if is_unlisted && !self.list(&key, &store, run).await? {
            return Ok(());
        }
        if entry.record.is_some() {
            self.create(entry, &store, &mut run.pace).await?;
        } else {
            let repetition = self.shared.journal().repetition(&key);
            if let Some(repetition) = repetition {
                run.pace.next(settings.writes_per_second).await;
                store.repeat(repetition).await?;
            }
        }
        self.delete_expired(&key, &store, &mut run.pace).await
    }

    /// Lists what is stored about a subject; `false`: the API server does not have the kind.
    async fn list(
        &self,
        key: &SubjectKey,
        store: &SubjectStore,
        run: &mut Run,
    ) -> Result<bool, kube::Error> {
        let stored = match self.earlier(key, store, run).await {
            Some(kept) => store.read(kept).await,
            None => match store.list().await {
                Ok(kept) => store.read(kept).await,
                Err(error) => Err(error),
            },
        };
        match stored {
            Ok(stored) => {
                run.uncertain.remove(key);
                self.shared.journal().listed(key, stored);
                self.shared.set_present();
                Ok(true)
            }
            Err(error) if matches!(status_code(&error), Some(403 | 404)) => {
                let until = self.shared.clock.now().saturating_add(ABSENT_FOR);
                let until = until.unwrap_or(jiff::Timestamp::MAX);
                if self.shared.set_absent(until) {
                    let reason = explain(&error);
                    tracing::info!(
                        reason,
                        "decisions are not recorded: no access to kind Decision"
                    );
                }
                self.shared.journal().restarted();
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the stored decisions about a subject; `None` if they have to be listed.
    async fn earlier(
        &self,
        key: &SubjectKey,
        store: &SubjectStore,
        run: &mut Run,
    ) -> Option<Vec<StoredName>> {
        if self.shared.journal().has_evicted() || run.uncertain.contains(key) {
            return None;
        }
        if let Earlier::NotListed = run.earlier {
            // It stays unknown if the list fails, is not allowed, or takes too long.
            run.earlier = Earlier::Unknown;
            run.earlier = match AllStored::list(&self.client).await {
                Ok(all) => Earlier::Listed(all),
                Err(_) => Earlier::Unknown,
            };
        }
        match &mut run.earlier {
            Earlier::Listed(all) => Some(all.take(store)),
            Earlier::NotListed | Earlier::Unknown => None,
        }
    }

    async fn create(
        &self,
        entry: Entry,
        store: &SubjectStore,
        pace: &mut Pace,
    ) -> Result<(), kube::Error> {
        let Entry { key, subject, owner, signature, at, record } = entry;
        let mut record = record;
        let mut spec = None;
        for attempt in 1..=TRIES {
            let sequence = self.shared.journal().next_sequence(&key, signature);
            let Some(sequence) = sequence else { return Ok(()) };
            if let Some(record) = record.take() {
                spec = Some(decision_spec(record, &subject, Time(at)));
            }
            let Some(spec) = &spec else { return Ok(()) };
            pace.next(self.shared.settings.writes_per_second).await;
            match store.create(sequence, owner.clone(), spec.clone()).await {
                Ok(()) => {
                    self.shared.journal().written(&key, sequence, signature, at);
                    self.shared.settings.counts.0.recorded.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
                Err(error) if attempt < TRIES && status_code(&error) == Some(409) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn delete_expired(
        &self,
        key: &SubjectKey,
        store: &SubjectStore,
        pace: &mut Pace,
    ) -> Result<(), kube::Error> {
        let settings = &self.shared.settings;
        let now = self.shared.clock.now();
        let expired =
            self.shared.journal().expired(key, settings.keep.max(1), settings.keep_for, now);
        for sequence in expired {
            pace.next(settings.writes_per_second).await;
            store.delete(sequence).await?;
        }
        Ok(())
    }

    async fn sweep(&self, run: &mut Run) {
        let subjects = self.shared.journal().listed_subjects();
        for (key, uid) in subjects {
            let subject = DecisionSubject {
                kind: key.0.to_owned(),
                namespace: Some(key.1.namespace.to_string()).filter(|n| !n.is_empty()),
                name: key.1.name.to_string(),
                uid: Some(uid.to_string()).filter(|uid| !uid.is_empty()),
            };
            let namespace = &self.shared.settings.namespace;
            let store = SubjectStore::new(&self.client, &subject, namespace);
            if let Err(error) = self.delete_expired(&key, &store, &mut run.pace).await {
                let error = explain(&error);
                tracing::debug!(kind = key.0, subject = %key.1, error, "expired decision stays");
                self.lost(&key, run);
            }
        }
    }
}

/// Returns the fields of a new decision, without credentials.
fn decision_spec(record: DecisionRecord, subject: &DecisionSubject, at: Time) -> DecisionSpec {
    let mut decision = Value::Object(cut(&record.decision));
    redact(&mut decision);
    let inputs = bounded((record.inputs)());
    DecisionSpec {
        at: at.clone(),
        subject: subject.clone(),
        decision: decision.as_object().cloned().unwrap_or_default(),
        truncated: inputs.is_none(),
        inputs: inputs.unwrap_or_default(),
        outcome: record.outcome,
        message: redact_urls(&record.message),
        observed: Vec::new(),
        repeated: 0,
        last_at: Some(at),
    }
}
