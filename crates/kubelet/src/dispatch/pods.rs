//! Starts a task for each pod of the kubelet's nodes, and passes deletions on to it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cluster::{Key, Undecoded};
use k8s_openapi::api::core::v1::Pod;
use kube::Resource as _;
use kube::runtime::watcher::Event;
use tokio::sync::watch;

use super::{Dispatcher, RunningPod};
use crate::pod_task::{DesiredState, PodTask, run_or_fail, set_desired};
use crate::{deadline, pod_worker, simulate};

impl Dispatcher {
    pub(super) fn pod_event(&mut self, event: Event<Undecoded<Pod>>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(pod) => self.listed.push(pod),
            Event::InitDone => self.pods_listed(),
            Event::Apply(pod) => {
                if let Some(pod) = pod.decode() {
                    self.pod(Arc::new(pod));
                }
            }
            Event::Delete(pod) => {
                let meta = pod.meta();
                let key = Key::from_meta(meta);
                self.pod_gone(&key, meta.uid.as_deref().unwrap_or_default());
            }
        }
    }

    /// Handles a complete list of pods: those that are not in it no longer exist.
    fn pods_listed(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        let uids: BTreeSet<String> =
            listed.iter().filter_map(|pod| pod.meta().uid.clone()).collect();
        let gone = self.running.iter().filter(|(uid, _)| !uids.contains(&***uid));
        let gone: Vec<_> = gone.map(|(uid, running)| (running.key.clone(), uid.clone())).collect();
        gone.iter().for_each(|(key, uid)| self.pod_gone(key, uid));
        self.machine.pods.retain(|uid| uids.contains(uid));
        self.elsewhere.retain(|_, pod| pod.metadata.uid.as_ref().is_some_and(|u| uids.contains(u)));
        let pods = listed.into_iter().filter_map(|pod| pod.decode()).map(Arc::new);
        match self.ready.take() {
            Some(ready) => self.take_over(pods.collect(), ready),
            None => pods.for_each(|pod| self.pod(pod)),
        }
    }

    /// Handles a new version of a pod: starts its task, or passes its deletion on.
    pub(super) fn pod(&mut self, pod: Arc<Pod>) {
        let key = Key::from_meta(&pod.metadata);
        let node = node_name(&pod).to_owned();
        if node.is_empty() || !self.is_own_node(&node) {
            if self.watches_all() && !node.is_empty() {
                self.elsewhere.insert(key, pod);
            }
            return;
        }
        let entry = self.machine.pods.insert(Arc::clone(&pod));
        let deleted = deletion(&pod);
        if let Some(running) = self.running.get(&entry.uid) {
            if let Some(grace) = deleted {
                set_desired(&running.desired, DesiredState::Deleted(grace));
            }
            return;
        }
        if has_ended(&pod) {
            // A pod that ended before this kubelet started has no task that would remove it.
            if deleted.is_some_and(|grace| !grace.is_zero()) {
                let object = self.machine.pod_client.pod(&entry);
                let supervisor = self.machine.context.supervisor.clone();
                self.tasks.spawn(async move {
                    let name = format!("removal of pod {}", object.entry.key);
                    supervisor.complete(name, || object.remove()).await;
                });
            }
            return;
        }
        let desired = deleted.map_or(DesiredState::Running, DesiredState::Deleted);
        let (desired, receiver) = watch::channel(desired);
        let object = self.machine.pod_client.pod(&entry);
        let task = PodTask { object, pod, desired: receiver };
        let machine = Arc::clone(&self.machine);
        if self.simulated.contains(&node) {
            self.tasks.spawn(run_or_fail(machine, task, simulate::run));
        } else {
            self.tasks.spawn(run_or_fail(machine, task, pod_worker::run));
        }
        self.running.insert(Arc::clone(&entry.uid), RunningPod { key, node, desired });
    }

    fn pod_gone(&mut self, key: &Key, uid: &str) {
        self.machine.pods.remove(key, uid);
        self.elsewhere.remove(key);
        if let Some(running) = self.running.remove(uid) {
            tracing::trace!(%key, "a pod was deleted");
            set_desired(&running.desired, DesiredState::Gone);
        }
    }
}

/// Returns the node that a pod is bound to; empty: none.
pub(super) fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// Returns the grace period of a deleted pod; `None`: it is not deleted.
pub(super) fn deletion(pod: &Pod) -> Option<Duration> {
    pod.metadata.deletion_timestamp.as_ref()?;
    let seconds = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
    Some(deadline::seconds(seconds))
}

pub(super) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}
