//! Triggers evaluations of the cluster: a moment after the first change, so that a burst causes one evaluation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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
}

impl Trigger {
    /// Triggers an evaluation of the cluster.
    pub(super) fn fire(&self) {
        self.has_changed.store(true, Ordering::SeqCst);
        self.notify.notify_one();
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
