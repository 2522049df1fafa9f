//! The pods of the cluster: on a node, assumed on a node, or pending.

use std::sync::Arc;
use std::time::Duration;

use api::nodes::{Preferences, Volumes};
use cluster::Key;
use decide::nodes::{Pod, PodSpec, Scheduling};
use k8s_openapi::api::core::v1 as core;
use tokio::time::Instant;

use super::ClusterState;
use crate::preemption;
use crate::storage;
use crate::watched_pod::{ScheduledCondition, WatchedPod};
use crate::watches::Delta;
use crate::write::{PodWrite, WriteOutcome};

/// The delay after the first failed write about a pod; each further one doubles it.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
/// The longest delay after a failed write.
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);

/// A pod that has not finished.
pub(crate) struct CachedPod {
    pub(crate) uid: Box<str>,
    generation: Option<i64>,
    /// What the predicates read; its node may be assumed.
    pub(crate) pod: Pod,
    /// It is this scheduler's, and no node is confirmed.
    pub(crate) pending: Option<Box<PendingPod>>,
    /// The whole pod, if it uses persistent volumes: it is read again when they change.
    pub(super) with_claims: Option<Box<core::Pod>>,
}

/// What is known of a pod until its node is confirmed.
#[derive(Default)]
pub(crate) struct PendingPod {
    pub(crate) preferences: Preferences,
    /// It has no gates and is not being deleted.
    is_schedulable: bool,
    /// The node that it was decided for.
    pub(crate) assumed: Option<Box<str>>,
    /// A write about it has been decided, and its outcome is not known.
    pub(crate) is_write_in_flight: bool,
    /// How many writes about it failed in a row.
    failures: u32,
    version: u64,
    pub(crate) resource_version: Option<String>,
    pub(crate) condition: Option<ScheduledCondition>,
    /// It waits until there is room, whatever its priority is.
    pub(crate) never_preempts: bool,
    /// The node on which room is being made for it.
    pub(crate) nominated: Option<Box<str>>,
}

impl CachedPod {
    /// Returns its node, confirmed or assumed.
    fn node(&self) -> Option<&str> {
        match &self.pod.scheduling {
            Scheduling::On(node) => Some(node),
            Scheduling::Nominated(_)
            | Scheduling::Unschedulable
            | Scheduling::Unprocessed
            | Scheduling::Other => None,
        }
    }

    /// Whether what was read of it still holds, apart from its head.
    fn is_current(&self, watched: &WatchedPod) -> bool {
        let labels = watched.metadata.labels.iter().flatten();
        self.generation == watched.metadata.generation
            && self.pod.spec.labels.iter().eq(labels.map(|(k, v)| (k.as_str(), v.as_str())))
    }

    /// Takes in the fields that may change.
    fn update(&mut self, watched: &WatchedPod, scheduler_name: &str) {
        let is_terminating = watched.metadata.deletion_timestamp.is_some();
        if self.pod.spec.terminating != is_terminating {
            Arc::make_mut(&mut self.pod.spec).terminating = is_terminating;
        }
        if !watched.is_unbound(scheduler_name) {
            self.pending = None;
            self.pod.scheduling = match &*watched.node_name {
                "" => Scheduling::Other,
                node => Scheduling::On(node.into()),
            };
            return;
        }
        let pending = self.pending.get_or_insert_default();
        pending.is_schedulable = watched.is_schedulable();
        let version = cluster::resource_version(&watched.metadata);
        if version >= pending.version {
            pending.version = version;
            pending.resource_version = watched.metadata.resource_version.clone();
            pending.condition = watched.scheduled.clone();
            pending.nominated = watched.nominated.clone();
        }
        self.pod.scheduling = scheduling(pending);
    }
}

fn scheduling(pending: &PendingPod) -> Scheduling {
    pending.assumed.clone().map_or(Scheduling::Other, Scheduling::On)
}

impl ClusterState {
    pub(super) fn apply_pod(&mut self, delta: Delta<WatchedPod>) {
        match delta {
            Delta::Upsert(key, watched) => self.upsert_pod(&key, &watched),
            Delta::Remove(key) => self.remove_pod(&key),
            Delta::Retain(listed) => {
                let is_gone = |key: &&Key| !listed.contains(*key);
                let gone: Vec<Key> = self.pods.keys().filter(is_gone).cloned().collect();
                gone.iter().for_each(|key| self.remove_pod(key));
            }
        }
    }

    fn upsert_pod(&mut self, key: &Key, watched: &WatchedPod) {
        let uid = watched.metadata.uid.as_deref().unwrap_or_default();
        if watched.is_finished || self.pods.get(key).is_some_and(|cached| &*cached.uid != uid) {
            self.remove_pod(key);
        }
        if watched.is_finished {
            return;
        }
        let is_current = self.pods.get(key).is_some_and(|cached| cached.is_current(watched));
        if !is_current {
            let Some(mut read) = self.read(watched) else { return };
            // What changed may let it in.
            self.queue.remove(key);
            let old = self.pods.get_mut(key).and_then(|cached| cached.pending.take());
            if let (Some(old), Some(new)) = (old, &mut read.pending) {
                let preferences = std::mem::take(&mut new.preferences);
                let never_preempts = new.never_preempts;
                **new = PendingPod { preferences, never_preempts, ..*old };
            }
            read.update(watched, &self.scheduler_name);
            return self.replace_pod(key, read);
        }
        let scheduler_name = self.scheduler_name.clone();
        self.update_pod(key, |cached| cached.update(watched, &scheduler_name));
    }

    /// Decodes a pod. One that cannot be decoded is logged.
    fn read(&self, watched: &WatchedPod) -> Option<CachedPod> {
        let mut object = match watched.decode() {
            Ok(object) => object,
            Err(error) => {
                let metadata = &watched.metadata;
                tracing::error!(
                    namespace = metadata.namespace, name = metadata.name, %error,
                    "pod cannot be decoded and is not scheduled; correct or delete it"
                );
                return None;
            }
        };
        let has_claims = storage::has_claims(&object);
        let volumes = if has_claims { self.storage.lookup() } else { Volumes::default() };
        let pod = storage::read_pod(&object, &volumes);
        let pending = watched.is_unbound(&self.scheduler_name).then(|| {
            let preferences = api::nodes::preferences(&object);
            let policy = object.spec.as_ref().and_then(|spec| spec.preemption_policy.as_deref());
            let never_preempts = policy == Some("Never");
            Box::new(PendingPod { preferences, never_preempts, ..PendingPod::default() })
        });
        object.metadata.managed_fields = None;
        Some(CachedPod {
            uid: watched.metadata.uid.as_deref().unwrap_or_default().into(),
            generation: watched.metadata.generation,
            pod,
            pending,
            with_claims: has_claims.then(|| Box::new(object)),
        })
    }

    /// Removes a pod that no longer exists, or has finished: what it took is free.
    fn remove_pod(&mut self, key: &Key) {
        self.queue.remove(key);
        if self.detach(key).is_some_and(|cached| cached.node().is_some()) {
            self.queue.activate_unschedulable();
        }
    }

    /// Changes a pod, if it is known.
    pub(super) fn update_pod(&mut self, key: &Key, change: impl FnOnce(&mut CachedPod)) {
        let Some(mut cached) = self.detach(key) else { return };
        let (node, spec) = (cached.node().map(Box::<str>::from), Arc::clone(&cached.pod.spec));
        change(&mut cached);
        let has_changed = node.as_deref() != cached.node() || !Arc::ptr_eq(&spec, &cached.pod.spec);
        let has_left = node.is_some() && node.as_deref() != cached.node();
        self.attach(key, cached);
        // It may have made room, or be the pod that another wants to be near to.
        if has_left || (has_changed && self.constrained_pods > 0) {
            self.queue.activate_unschedulable();
        }
    }

    fn replace_pod(&mut self, key: &Key, read: CachedPod) {
        if self.pods.contains_key(key) {
            self.update_pod(key, |cached| *cached = read);
        } else {
            let has_node = read.node().is_some();
            self.attach(key, read);
            if has_node && self.constrained_pods > 0 {
                self.queue.activate_unschedulable();
            }
        }
    }

    /// Takes a pod out of the cache and all sums.
    fn detach(&mut self, key: &Key) -> Option<CachedPod> {
        let cached = self.pods.remove(key)?;
        self.constrained_pods -= usize::from(is_constrained(&cached.pod.spec));
        self.nominated.remove(key);
        if let Some(node) = cached.node() {
            let priority = preemption::priority(&cached.pod);
            if let Some(count) = self.priorities.get_mut(&priority) {
                *count -= 1;
                if *count == 0 {
                    self.priorities.remove(&priority);
                }
            }
            self.affinity.remove(&cached.pod, node, &self.namespaces);
            if let Some(usage) = self.usage.get_mut(node) {
                usage.remove(&cached.pod.spec);
                if usage.pods == 0 {
                    self.usage.remove(node);
                }
            }
        }
        Some(cached)
    }

    /// Adds a pod to the cache and all sums, and queues it if it is pending.
    fn attach(&mut self, key: &Key, cached: CachedPod) {
        self.constrained_pods += usize::from(is_constrained(&cached.pod.spec));
        if let Some(node) = cached.node() {
            *self.priorities.entry(preemption::priority(&cached.pod)).or_default() += 1;
            self.affinity.add(&cached.pod, node, &self.namespaces);
            self.usage.entry(node.into()).or_default().add(&cached.pod.spec);
        }
        match &cached.pending {
            Some(pending) if pending.is_schedulable && pending.assumed.is_none() => {
                self.queue.add(key);
                if pending.nominated.is_some() {
                    self.nominated.insert(key.clone());
                }
            }
            Some(_) | None => self.queue.remove(key),
        }
        self.pods.insert(key.clone(), cached);
    }

    /// Counts a pending pod as on a node, or no longer so.
    pub(crate) fn assume(&mut self, key: &Key, node: Option<Box<str>>) {
        self.update_pod(key, |cached| {
            if let Some(pending) = &mut cached.pending {
                pending.assumed = node;
                cached.pod.scheduling = scheduling(pending);
            }
        });
    }

    /// Whether a write that was decided earlier is still to be sent. If not, its pod is decided again.
    pub(crate) fn is_still_wanted(&mut self, write: &PodWrite) -> bool {
        let Some(pending) = self.pending_mut(write) else { return false };
        let is_schedulable = pending.is_schedulable;
        let is_wanted = match write {
            PodWrite::Bind { node, .. } => is_schedulable && self.nodes.contains_key(&**node),
            PodWrite::MarkUnschedulable { .. } => true,
        };
        if !is_wanted {
            self.end_write(write);
            self.assume(&write.pod().key, None);
        }
        is_wanted
    }

    /// Takes in the outcome of a write. A failed one is decided again after a delay.
    pub(crate) fn complete(&mut self, write: &PodWrite, outcome: WriteOutcome) {
        let random = self.random.clone();
        let Some(pending) = self.end_write(write) else { return };
        let key = &write.pod().key;
        match outcome {
            WriteOutcome::Bound => pending.failures = 0,
            WriteOutcome::Marked(answer) => {
                pending.failures = 0;
                let version = cluster::resource_version(&answer.metadata);
                if version > pending.version {
                    pending.version = version;
                    pending.resource_version = answer.metadata.resource_version;
                    pending.condition = answer.scheduled;
                    pending.nominated = answer.nominated;
                }
            }
            WriteOutcome::Failed => {
                let full = FIRST_BACKOFF
                    .saturating_mul(1 << pending.failures.min(16))
                    .min(LONGEST_BACKOFF);
                pending.failures = pending.failures.saturating_add(1);
                let is_schedulable = pending.is_schedulable;
                self.assume(key, None);
                if is_schedulable {
                    // Between half of the delay and all of it.
                    let delay = full.mul_f64(0.5 + random.fraction() / 2.0);
                    self.queue.add_backoff(key, Instant::now() + delay);
                }
            }
        }
    }

    fn end_write(&mut self, write: &PodWrite) -> Option<&mut PendingPod> {
        let pending = self.pending_mut(write)?;
        pending.is_write_in_flight = false;
        Some(pending)
    }

    /// Returns the pod that a write is about, if its node is not confirmed yet.
    fn pending_mut(&mut self, write: &PodWrite) -> Option<&mut PendingPod> {
        let pod = write.pod();
        let cached = self.pods.get_mut(&pod.key).filter(|cached| cached.uid == pod.uid)?;
        cached.pending.as_deref_mut()
    }
}

/// Whether it matters to a pod where each single other pod is.
fn is_constrained(spec: &PodSpec) -> bool {
    !(spec.affinity.is_empty()
        && spec.anti_affinity.is_empty()
        && spec.spread.is_empty()
        && spec.volumes.is_empty())
}
