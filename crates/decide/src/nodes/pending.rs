//! Which pods wait for a node, and which of them fit the nodes that are there after all.

use std::cmp::Reverse;

use jiff::{SignedDuration, Timestamp};

use super::snapshot::ClassId;
use super::{Cluster, NodeId, Pod, PodId, Scheduling, Settings, Snapshot};

/// Tells whether a pod is so unimportant that it neither counts nor takes room.
pub(super) fn is_expendable(pod: &Pod, settings: &Settings) -> bool {
    pod.priority.is_some_and(|priority| priority < settings.scale_up.expendable_priority_cutoff)
}

/// Lists the pods that no node was found for.
pub(super) fn waiting(cluster: &Cluster, settings: &Settings) -> Vec<PodId> {
    let waits = |pod: &Pod| {
        pod.scheduling == Scheduling::Unschedulable
            && !pod.drain.is_finished
            && !pod.spec.terminating
            && !is_expendable(pod, settings)
    };
    (0..cluster.pods.len()).filter(|id| waits(&cluster.pods[*id])).collect()
}

/// Tells whether a pod without a place may ask for a new node: a daemon comes with one, and a young pod may yet be
/// served.
pub(super) fn may_ask(pod: &Pod, settings: &Settings, now: Timestamp) -> bool {
    let delay = settings.scale_up.new_pod_delay.max(pod.scale_up_delay.unwrap_or_default());
    let is_old = |at: Timestamp| now.duration_since(at) > delay;
    let is_young = delay > SignedDuration::ZERO && !pod.created_at.is_none_or(is_old);
    !pod.is_daemon() && !is_young
}

/// Waiting pods after those that fit were placed.
pub(super) struct Tried {
    /// In the order in which they were let in.
    pub(super) placed: Vec<PodId>,
    pub(super) left: Vec<PodId>,
}

/// Places the pods that fit after all, the most important first.
pub(super) fn place_what_fits(snapshot: &mut Snapshot<'_>, waiting: Vec<PodId>) -> Tried {
    let mut placed = Vec::new();
    let mut hopeless = vec![None; snapshot.classes.len()];
    let mut is_hopeless = |snapshot: &Snapshot<'_>, class: ClassId| {
        *hopeless[class].get_or_insert_with(|| {
            !snapshot.classes[class].depends_on_others()
                && snapshot.first_fit_of(class, 0, |_| true).is_none()
        })
    };
    let (mut left, mut tried): (Vec<PodId>, Vec<PodId>) =
        waiting.into_iter().partition(|pod| is_hopeless(snapshot, snapshot.classes.of_pod(*pod)));
    // Names are compared only for pods that have a chance: there may be many without.
    let pods = &snapshot.cluster.pods;
    let rank = |pod: &PodId| {
        let pod = &pods[*pod];
        (Reverse(pod.priority.unwrap_or(0)), &pod.spec.namespace, &pod.name)
    };
    tried.sort_by(|a, b| rank(a).cmp(&rank(b)));
    loop {
        let before = tried.len();
        tried = try_each(snapshot, tried, &mut placed);
        // A pod that was placed can let in others that want to be near it, or that spread.
        let (again, done): (Vec<PodId>, Vec<PodId>) =
            tried.iter().partition(|pod| snapshot.may_change(**pod));
        left.extend(done);
        tried = again;
        if tried.is_empty() || tried.len() == before {
            break;
        }
    }
    left.extend(tried);
    Tried { placed, left }
}

/// Tries the pods in their order; a kind that found no place is not tried again, nor are nodes it found too full.
fn try_each(snapshot: &mut Snapshot<'_>, pods: Vec<PodId>, placed: &mut Vec<PodId>) -> Vec<PodId> {
    let mut from: Vec<Option<NodeId>> = vec![Some(0); snapshot.classes.len()];
    let mut left = Vec::new();
    for pod in pods {
        let class = snapshot.classes.of_pod(pod);
        let depends = snapshot.classes[class].depends_on_others();
        let found = from[class].and_then(|from| snapshot.first_fit_of(class, from, |_| true));
        match found {
            Some(node) => {
                snapshot.place(pod, node);
                placed.push(pod);
                from[class] = Some(if depends { 0 } else { node });
            }
            None => {
                from[class] = None;
                left.push(pod);
            }
        }
    }
    left
}
