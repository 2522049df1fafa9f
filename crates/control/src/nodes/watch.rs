//! Triggers evaluations of the cluster: a moment after the first change, so that a burst causes one evaluation.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use decide::gameserver::GameServer;
use decide::nodes::DEFAULT_SCHEDULER;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a burst lasts at most, and how long nothing may follow before it is over.
const BURST: Duration = Duration::from_millis(100);
const QUIET: Duration = Duration::from_millis(5);

/// Says that something changed.
#[derive(Default)]
pub(super) struct Trigger {
    notify: Notify,
    has_changed: AtomicBool,
    /// The schedulers whose pods count before they have been looked at.
    bypassed: Mutex<BTreeSet<String>>,
}

impl Trigger {
    /// Triggers an evaluation of the cluster.
    pub(super) fn fire(&self) {
        self.has_changed.store(true, Ordering::SeqCst);
        self.notify.notify_one();
    }

    /// Sets the schedulers whose pods count before they have been looked at.
    pub(super) fn bypass(&self, schedulers: &[String]) {
        let names = schedulers.iter().map(|name| scheduler(Some(name)).to_owned());
        *self.bypassed.lock().unwrap_or_else(PoisonError::into_inner) = names.collect();
    }

    /// Triggers an evaluation if a new pod counts although its scheduler has not looked at it.
    pub(super) fn pod_appeared(&self, pod: &Pod) {
        let name = pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref());
        let bypassed = self.bypassed.lock().unwrap_or_else(PoisonError::into_inner);
        if bypassed.contains(scheduler(name)) {
            self.fire();
        }
    }

    /// Returns whether something has changed since the last call.
    pub(super) fn take(&self) -> bool {
        self.has_changed.swap(false, Ordering::SeqCst)
    }

    /// Waits for a change, or until a time; and then for the end of the burst.
    pub(super) async fn wait(&self, until: Instant) {
        tokio::select! {
            () = self.notify.notified() => {}
            () = tokio::time::sleep_until(until) => return,
        }
        let end = Instant::now() + BURST;
        loop {
            let quiet = (Instant::now() + QUIET).min(end);
            tokio::select! {
                () = self.notify.notified() => {}
                () = tokio::time::sleep_until(quiet) => return,
            }
        }
    }
}

/// Returns the name of a scheduler.
fn scheduler(name: Option<&str>) -> &str {
    name.filter(|name| !name.is_empty()).unwrap_or(DEFAULT_SCHEDULER)
}

/// Whether an object came, went, or has another spec. Its status does not count; kinds without generations change rarely.
pub(super) fn spec_changed<K: Resource<DynamicType = ()>>(
    old: Option<&K>,
    new: Option<&K>,
) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    let (was, is) = (old.meta(), new.meta());
    (&was.uid, was.generation, &was.annotations) != (&is.uid, is.generation, &is.annotations)
        || (is.generation.is_none() && was.resource_version != is.resource_version)
        || was.deletion_timestamp != is.deletion_timestamp
}

/// Whether a namespace came, went, or has other labels.
pub(super) fn labels_changed(old: Option<&Namespace>, new: Option<&Namespace>) -> bool {
    old.map(|n| &n.metadata.labels) != new.map(|n| &n.metadata.labels)
}

/// Whether a budget came, went, or allows another number of disruptions.
pub(super) fn budget_changed(
    old: Option<&PodDisruptionBudget>,
    new: Option<&PodDisruptionBudget>,
) -> bool {
    let allowed = |budget: &PodDisruptionBudget| {
        budget.status.as_ref().map(|status| status.disruptions_allowed)
    };
    old.map(allowed) != new.map(allowed) || spec_changed(old, new)
}

/// Whether a node came, went, or changed in something other than its heartbeats.
pub(super) fn node_changed(old: Option<&Node>, new: Option<&Node>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    let readiness = |node: &Node| -> Vec<(String, String)> {
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.map(|c| (c.type_.clone(), c.status.clone())).collect()
    };
    let room = |node: &Node| node.status.as_ref().and_then(|status| status.allocatable.clone());
    old.metadata.uid != new.metadata.uid
        || old.spec != new.spec
        || old.metadata.labels != new.metadata.labels
        || old.metadata.annotations != new.metadata.annotations
        || readiness(old) != readiness(new)
        || room(old) != room(new)
}

/// Whether a game server came, went, or is used in another way.
pub(super) fn server_changed(old: Option<&GameServer>, new: Option<&GameServer>) -> bool {
    let matters = |server: &GameServer| {
        let state = server.state;
        (server.is_being_deleted(), state.is_in_use(), state.is_terminal(), server.is_evacuating)
    };
    old.map(matters) != new.map(matters)
}

/// Whether a pod cannot be scheduled any more, or takes or frees room on a node.
pub(super) fn pod_changed(old: Option<&Pod>, new: Option<&Pod>) -> bool {
    let matters = |pod: &Pod| {
        let on = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
        let has_ended = matches!(phase.as_deref(), Some("Succeeded" | "Failed"));
        let is_going = pod.metadata.deletion_timestamp.is_some();
        (pod.metadata.uid.clone(), is_unschedulable(pod), on, has_ended, is_going)
    };
    match (old, new) {
        (Some(old), Some(new)) => {
            matters(old) != matters(new) || old.metadata.annotations != new.metadata.annotations
        }
        // The scheduler has not tried to place a new pod yet.
        (None, Some(new)) => is_unschedulable(new) || matters(new).2.is_some(),
        (Some(_), None) => true,
        (None, None) => false,
    }
}

/// Whether the scheduler found no node for a pod.
fn is_unschedulable(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: Value, node: Option<&str>) -> Pod {
        let pod = json!({
            "metadata": {"name": "p", "uid": "1"},
            "spec": {"containers": [], "nodeName": node}, "status": status,
        });
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn a_pod_counts_when_it_is_unschedulable_or_takes_or_frees_room() {
        let unschedulable = json!({"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
        ]});
        let new = || pod(json!({"phase": "Pending"}), None);
        let running = || pod(json!({"phase": "Running"}), Some("n"));
        for (what, old, now, counts) in [
            ("new", None, Some(new()), false),
            ("unschedulable", Some(new()), Some(pod(unschedulable, None)), true),
            ("bound", Some(new()), Some(running()), true),
            ("heartbeat", Some(running()), Some(running()), false),
            ("ended", Some(running()), Some(pod(json!({"phase": "Failed"}), Some("n"))), true),
            ("gone", Some(running()), None, true),
        ] {
            assert_eq!(pod_changed(old.as_ref(), now.as_ref()), counts, "{what}");
        }
    }

    #[test]
    fn a_new_pod_counts_at_once_if_its_scheduler_is_bypassed() {
        for (bypassed, counts) in [("default-scheduler", true), ("", true), ("own", false)] {
            let trigger = Trigger::default();
            trigger.pod_appeared(&pod(json!({}), None));
            assert!(!trigger.take(), "none is bypassed");
            trigger.bypass(&[bypassed.to_owned()]);
            trigger.pod_appeared(&pod(json!({}), None));
            assert_eq!(trigger.take(), counts, "{bypassed}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_one_evaluation_of_at_most_a_tenth_of_a_second() {
        let trigger = std::sync::Arc::new(Trigger::default());
        let firing = std::sync::Arc::clone(&trigger);
        let task = tokio::spawn(async move {
            loop {
                firing.fire();
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        let start = Instant::now();
        trigger.wait(start + Duration::from_secs(60)).await;
        assert!(start.elapsed() >= BURST && start.elapsed() < BURST * 2);
        task.abort();
        drop(task.await);
        trigger.wait(Instant::now() + QUIET).await;
        let start = Instant::now();
        trigger.wait(start + Duration::from_secs(60)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(60));
    }
}
