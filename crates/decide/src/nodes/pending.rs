//! Finds pending pods, and places those that fit on existing nodes.

use std::cmp::Reverse;

use jiff::{SignedDuration, Timestamp};

use super::snapshot::ClassId;
use super::{Cluster, NodeId, Pod, PodId, Scheduling, Settings, Snapshot};

/// The scheduler of pods that name none.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// Returns whether a pod is expendable: it is ignored.
pub(super) fn is_expendable(pod: &Pod, settings: &Settings) -> bool {
    pod.priority.is_some_and(|priority| priority < settings.scale_up.expendable_priority_cutoff)
}

/// Returns whether a pod waits for a node: its scheduler found none, or is not waited for.
pub fn is_pending(pod: &Pod, settings: &Settings) -> bool {
    let settings = &settings.scale_up;
    let is_of = |names: &[Box<str>]| names.iter().any(|name| is_same(name, &pod.spec.scheduler));
    let waits = match pod.scheduling {
        Scheduling::Unschedulable => true,
        Scheduling::Unprocessed => is_of(&settings.bypassed_schedulers),
        Scheduling::On(_) | Scheduling::Nominated(_) | Scheduling::Other => false,
    };
    waits && (settings.schedulers.is_empty() || is_of(&settings.schedulers))
}

/// Returns whether two names are those of one scheduler.
fn is_same(a: &str, b: &str) -> bool {
    let [a, b] = [a, b].map(|name| if name.is_empty() { DEFAULT_SCHEDULER } else { name });
    a == b
}

/// Returns the pods that wait for a node.
pub(super) fn waiting(cluster: &Cluster, settings: &Settings) -> Vec<PodId> {
    let waits = |pod: &Pod| {
        is_pending(pod, settings)
            && !pod.drain.is_finished
            && !pod.spec.terminating
            && !is_expendable(pod, settings)
    };
    (0..cluster.pods.len()).filter(|id| waits(&cluster.pods[*id])).collect()
}

/// Returns whether a pending pod may cause a scale-up: a daemon comes with its node, and a new pod may still be
/// scheduled.
pub(super) fn may_ask(pod: &Pod, settings: &Settings, now: Timestamp) -> bool {
    let delay = settings.scale_up.new_pod_delay.max(pod.scale_up_delay.unwrap_or_default());
    let is_old = |at: Timestamp| now.duration_since(at) > delay;
    let is_young = delay > SignedDuration::ZERO && !pod.created_at.is_none_or(is_old);
    !pod.is_daemon() && !is_young
}

/// Pending pods after those that fit were placed.
pub(super) struct Tried {
    /// In the order in which they were placed.
    pub(super) placed: Vec<PodId>,
    pub(super) left: Vec<PodId>,
}

/// Places the pods that fit, by descending priority.
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
    // Names are compared only for pods that may fit: there may be many that do not.
    let pods = &snapshot.cluster.pods;
    let rank = |pod: &PodId| {
        let pod = &pods[*pod];
        (Reverse(pod.priority.unwrap_or(0)), &pod.spec.namespace, &pod.name)
    };
    tried.sort_by(|a, b| rank(a).cmp(&rank(b)));
    loop {
        let before = tried.len();
        tried = try_each(snapshot, tried, &mut placed);
        // A placed pod can make others fit, through affinity or spread.
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

/// Tries the pods in order; a class that did not fit is not tried again, nor are nodes that were too full for it.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::PodSpec;
    use super::*;

    #[test]
    fn a_pod_waits_for_its_scheduler_unless_that_is_bypassed() {
        use Scheduling::{Other, Unprocessed, Unschedulable};
        let default: &[&str] = &["default-scheduler"];
        let own: &[&str] = &["own"];
        for (scheduling, scheduler, bypassed, allowed, waits) in [
            (Unschedulable, "", &[][..], &[][..], true),
            (Unprocessed, "", &[], &[], false),
            (Unprocessed, "", default, &[], true),
            (Unprocessed, "default-scheduler", &[""], &[], true),
            (Unprocessed, "own", default, &[], false),
            (Unprocessed, "own", own, own, true),
            (Other, "", default, &[], false),
            (Unschedulable, "own", &[], default, false),
            (Unschedulable, "", &[], default, true),
        ] {
            let mut settings = Settings::default();
            let names = |all: &[&str]| all.iter().map(|name| (*name).into()).collect();
            settings.scale_up.bypassed_schedulers = names(bypassed);
            settings.scale_up.schedulers = names(allowed);
            let spec = PodSpec { scheduler: scheduler.into(), ..PodSpec::default() };
            let pod = Pod { scheduling, spec: Arc::new(spec), ..Pod::default() };
            assert_eq!(is_pending(&pod, &settings), waits, "{pod:?} {bypassed:?} {allowed:?}");
        }
    }
}
