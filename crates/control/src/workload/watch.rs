//! Queues the workloads that a change affects.

use std::sync::Arc;

use cluster::{Cache, CacheEntry, CachedNode, Key, Subscription, WorkQueue};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::claim::controller;
use super::{Workloads, job};

/// Queues workloads when they or their objects change, until the subscriptions are dropped.
pub(super) fn subscribe(workloads: &Arc<Workloads>) -> Vec<Subscription> {
    let queues = &workloads.queues;
    vec![
        on_change(&workloads.deployments, &queues.deployments),
        jobs(workloads),
        on_change(&workloads.daemon_sets, &queues.daemon_sets),
        sets(workloads),
        pods(workloads),
        nodes(workloads),
    ]
}

/// Queues each object that changes.
fn on_change<E: CacheEntry>(cache: &Cache<E>, queue: &Arc<WorkQueue>) -> Subscription {
    let queue = Arc::clone(queue);
    cache.subscribe(move |old, new| {
        queue.add_all(new.or(old).map(|entry| Key::from_meta(entry.meta())));
    })
}

fn jobs(workloads: &Arc<Workloads>) -> Subscription {
    let this = Arc::downgrade(workloads);
    workloads.jobs.subscribe(move |old, new| {
        let Some(this) = this.upgrade() else { return };
        let (old, new) = (old.map(|job| &job.metadata), new.map(|job| &job.metadata));
        this.queues.jobs.add_all(new.or(old).map(Key::from_meta));
        let deleted = old.and_then(|old| old.uid.as_deref());
        if let Some(uid) =
            deleted.filter(|uid| new.and_then(|new| new.uid.as_deref()) != Some(*uid))
        {
            this.queues
                .abandoned_pods
                .add_all(this.pods.owned(uid, |pod| Key::from_meta(&pod.metadata)));
        }
    })
}

fn sets(workloads: &Arc<Workloads>) -> Subscription {
    let this = Arc::downgrade(workloads);
    workloads.sets.subscribe(move |old, new| {
        let Some(this) = this.upgrade() else { return };
        let (old, new) = (old.map(|set| &set.metadata), new.map(|set| &set.metadata));
        // Its status is written by its own controller, and changes nothing for it.
        let shape = |meta: &ObjectMeta| {
            (meta.generation, meta.labels.clone(), meta.deletion_timestamp.clone())
        };
        if old.map(shape) != new.map(shape) {
            this.queues.sets.add_all(new.or(old).map(Key::from_meta));
        }
        for meta in [old, new].into_iter().flatten() {
            if let Some((name, "Deployment")) = owner(meta) {
                this.queues.deployments.add(name);
            }
        }
        this.orphan_sets.update(old, new);
        if let Some(namespace) = new_orphan(old, new) {
            this.queues.deployments.add_all(in_namespace(&this.deployments, namespace));
        }
    })
}

fn pods(workloads: &Arc<Workloads>) -> Subscription {
    let this = Arc::downgrade(workloads);
    workloads.pods.subscribe(move |old, new| {
        let Some(this) = this.upgrade() else { return };
        let (old, new) = (old.map(|pod| &pod.metadata), new.map(|pod| &pod.metadata));
        for meta in [old, new].into_iter().flatten() {
            match owner(meta) {
                Some((name, "ReplicaSet")) => this.queues.sets.add(name),
                Some((name, "Job")) => this.queues.jobs.add(name),
                Some((name, "DaemonSet")) => this.queues.daemon_sets.add(name),
                _ => {}
            }
        }
        if let Some(new) = new.filter(|new| job::is_abandoned(new, &this.jobs)) {
            this.queues.abandoned_pods.add(Key::from_meta(new));
        }
        this.orphan_pods.update(old, new);
        if let Some(namespace) = new_orphan(old, new) {
            this.queues.sets.add_all(in_namespace(&this.sets, namespace));
            this.queues.jobs.add_all(in_namespace(&this.jobs, namespace));
            this.queues.daemon_sets.add_all(in_namespace(&this.daemon_sets, namespace));
        }
    })
}

/// Queues every DaemonSet when its eligible nodes may have changed.
fn nodes(workloads: &Arc<Workloads>) -> Subscription {
    let this = Arc::downgrade(workloads);
    workloads.cx.caches.nodes.subscribe(move |old, new| {
        let Some(this) = this.upgrade() else { return };
        let shape =
            |node: &Arc<CachedNode>| (node.metadata.labels.clone(), node.spec.taints.clone());
        if old.map(shape) != new.map(shape) {
            let all = this.daemon_sets.all();
            this.queues.daemon_sets.add_all(all.iter().map(|set| Key::from_meta(&set.metadata)));
        }
    })
}

fn owner(meta: &ObjectMeta) -> Option<(Key, &str)> {
    let (kind, name, _) = controller(meta)?;
    Some((Key::new(meta.namespace.as_deref().unwrap_or_default(), name), kind))
}

/// Returns the namespace of an object without a controller, if the object or its labels are new: a controller may adopt it.
fn new_orphan<'a>(old: Option<&ObjectMeta>, new: Option<&'a ObjectMeta>) -> Option<&'a str> {
    let new = new.filter(|new| controller(new).is_none())?;
    let is_known = old.is_some_and(|old| controller(old).is_none() && old.labels == new.labels);
    (!is_known).then(|| new.namespace.as_deref().unwrap_or_default())
}

fn in_namespace<E: CacheEntry>(cache: &Cache<E>, namespace: &str) -> Vec<Key> {
    let all = cache.all();
    let here = all.iter().filter(|entry| entry.meta().namespace.as_deref() == Some(namespace));
    here.map(|entry| Key::from_meta(entry.meta())).collect()
}

/// Queues many keys.
trait AddAll {
    fn add_all(&self, keys: impl IntoIterator<Item = Key>);
}

impl AddAll for WorkQueue {
    fn add_all(&self, keys: impl IntoIterator<Item = Key>) {
        keys.into_iter().for_each(|key| self.add(key));
    }
}
