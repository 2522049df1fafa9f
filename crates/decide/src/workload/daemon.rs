//! The pods of a DaemonSet: the nodes that need one, and the pods to replace or delete.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{PodPhase, PodView};
use crate::nodes::{Effect, Labels, NodeTerm, Taint, Toleration};

/// The delay before the pod of a node is replaced after its first failure; each further one doubles it.
const FIRST_BACKOFF: SignedDuration = SignedDuration::from_secs(1);
/// The longest delay.
const LONGEST_BACKOFF: SignedDuration = SignedDuration::from_mins(15);

/// The requirements of the pod template, with the tolerations that every pod of a DaemonSet has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The only node, by name.
    pub node_name: Option<Box<str>>,
    /// The node selector.
    pub node_selector: Labels,
    /// The required node affinity.
    pub node_affinity: Option<Box<[NodeTerm]>>,
    /// The tolerations.
    pub tolerations: Box<[Toleration]>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaemonNode {
    /// The name.
    pub name: Arc<str>,
    /// The labels.
    pub labels: Labels,
    /// The taints.
    pub taints: Box<[Taint]>,
}

/// Whether a node suits a DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It gets a pod.
    Run,
    /// It gets none, but a running one stays.
    Keep,
    /// It gets none.
    Avoid,
}

/// Returns whether a node suits a DaemonSet. Its resources do not matter: the pod waits for them.
pub fn fit(placement: &Placement, node: &DaemonNode) -> Fit {
    let is_named = placement.node_name.as_deref().is_none_or(|name| *name == *node.name);
    let mut selector = placement.node_selector.iter();
    let is_selected = selector.all(|(key, value)| node.labels.get(key) == Some(value));
    let affinity = placement.node_affinity.as_deref();
    let is_near =
        affinity.is_none_or(|terms| terms.iter().any(|t| t.matches(&node.name, &node.labels)));
    if !(is_named && is_selected && is_near) {
        return Fit::Avoid;
    }
    let untolerated = node.taints.iter().filter(|taint| taint.keeps_away());
    let untolerated = untolerated.filter(|taint| !taint.tolerated_by(&placement.tolerations));
    untolerated.fold(Fit::Run, |fit, taint| match (fit, taint.effect) {
        (Fit::Avoid, _) | (_, Effect::NoExecute) => Fit::Avoid,
        _ => Fit::Keep,
    })
}

/// A pod of a DaemonSet.
#[derive(Clone, Copy, Debug)]
pub struct DaemonPod<'a> {
    /// The pod.
    pub view: &'a PodView,
    /// Whether it has the present template.
    pub is_current: bool,
}

/// How pods with an old template are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateStrategy {
    /// When they are deleted.
    OnDelete,
    /// So many at a time.
    RollingUpdate {
        /// The most nodes without an available pod.
        max_unavailable: i32,
    },
}

/// What the status counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DaemonCounts {
    /// The nodes that should have a pod.
    pub desired: i32,
    /// Those that have one.
    pub current: i32,
    /// The nodes that have one and should not.
    pub misscheduled: i32,
    /// Those whose pod is ready.
    pub ready: i32,
    /// Those whose pod has been ready for long enough.
    pub available: i32,
    /// Those whose pod has the present template.
    pub updated: i32,
}

/// What to do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaemonPlan {
    /// The nodes that get a pod.
    pub create: Vec<Arc<str>>,
    /// The names of pods to delete.
    pub delete: Vec<Arc<str>>,
    /// Those among them that failed, with their nodes.
    pub failed: Vec<(Arc<str>, Arc<str>)>,
    /// The counts.
    pub counts: DaemonCounts,
    /// When time alone changes the answer.
    pub wake_at: Option<Timestamp>,
}

/// The failed pods of each node: how many in a row, and when the last was replaced.
pub type Failures = BTreeMap<Arc<str>, (u32, Timestamp)>;

/// Plans the pods of a DaemonSet. `failures` are those of earlier plans.
pub fn plan(
    nodes: &[(DaemonNode, Fit)],
    pods: &[DaemonPod<'_>],
    (strategy, min_ready_seconds): (UpdateStrategy, i32),
    failures: &Failures,
    now: Timestamp,
) -> DaemonPlan {
    let mut by_node: BTreeMap<&str, Vec<DaemonPod<'_>>> = BTreeMap::new();
    for pod in pods {
        by_node.entry(pod.view.node.as_deref().unwrap_or_default()).or_default().push(*pod);
    }
    by_node.values_mut().for_each(|pods| {
        pods.sort_by_key(|pod| (!pod.view.is_bound, pod.view.created_at, pod.view.name.clone()));
    });
    let mut plan = DaemonPlan::default();
    for (node, fit) in nodes {
        let here = by_node.get(&*node.name).map(Vec::as_slice).unwrap_or_default();
        count(&mut plan.counts, *fit, here, min_ready_seconds, now);
        match fit {
            Fit::Run if here.is_empty() => plan.create.push(Arc::clone(&node.name)),
            Fit::Run | Fit::Keep => keep_one(&mut plan, &node.name, here, failures, now),
            Fit::Avoid => plan.delete.extend(going(here)),
        }
    }
    let known: BTreeSet<&str> = nodes.iter().map(|(node, _)| &*node.name).collect();
    let gone = by_node.iter().filter(|(node, _)| !known.contains(*node));
    plan.delete.extend(gone.flat_map(|(_, pods)| going(pods)));
    if let UpdateStrategy::RollingUpdate { max_unavailable } = strategy {
        let running = nodes.iter().filter(|(_, fit)| *fit == Fit::Run);
        let running = running
            .map(|(node, _)| by_node.get(&*node.name).map(Vec::as_slice).unwrap_or_default());
        let replaced = replaced(running, max_unavailable, min_ready_seconds, now);
        plan.delete.extend(
            replaced.into_iter().filter(|name| !plan.delete.contains(name)).collect::<Vec<_>>(),
        );
    }
    let waiting = pods.iter().filter(|pod| !pod.view.is_available(min_ready_seconds, now));
    let available_at = waiting.filter_map(|pod| pod.view.available_at(min_ready_seconds));
    plan.wake_at = plan.wake_at.into_iter().chain(available_at).min();
    plan
}

fn going<'a>(pods: &'a [DaemonPod<'_>]) -> impl Iterator<Item = Arc<str>> + 'a {
    pods.iter().filter(|pod| !pod.view.is_terminating).map(|pod| Arc::clone(&pod.view.name))
}

/// Counts a node, by its oldest pod.
fn count(
    counts: &mut DaemonCounts,
    fit: Fit,
    pods: &[DaemonPod<'_>],
    min_ready_seconds: i32,
    now: Timestamp,
) {
    let first = pods.first();
    if fit != Fit::Run {
        counts.misscheduled += i32::from(first.is_some());
        return;
    }
    counts.desired += 1;
    if let Some(pod) = first {
        counts.current += 1;
        counts.ready += i32::from(pod.view.ready_at.is_some());
        counts.available += i32::from(pod.view.is_available(min_ready_seconds, now));
        counts.updated += i32::from(pod.is_current);
    }
}

/// Keeps the oldest pod of a node. Ended ones are deleted, and replaced with a growing delay if they failed.
fn keep_one(
    plan: &mut DaemonPlan,
    node: &Arc<str>,
    pods: &[DaemonPod<'_>],
    failures: &Failures,
    now: Timestamp,
) {
    let mut has_one = false;
    for pod in pods.iter().map(|pod| pod.view).filter(|pod| !pod.is_terminating) {
        match pod.phase {
            PodPhase::Failed => {
                let retry_at = failures.get(node).map(|failed| retry_at(*failed));
                if let Some(at) = retry_at.filter(|at| *at > now) {
                    plan.wake_at = Some(plan.wake_at.map_or(at, |next| next.min(at)));
                    continue;
                }
                plan.failed.push((Arc::clone(&pod.name), Arc::clone(node)));
                plan.delete.push(Arc::clone(&pod.name));
            }
            PodPhase::Succeeded => plan.delete.push(Arc::clone(&pod.name)),
            PodPhase::Pending | PodPhase::Unknown | PodPhase::Running if has_one => {
                plan.delete.push(Arc::clone(&pod.name));
            }
            PodPhase::Pending | PodPhase::Unknown | PodPhase::Running => has_one = true,
        }
    }
}

fn retry_at((count, last_at): (u32, Timestamp)) -> Timestamp {
    let delay = FIRST_BACKOFF.checked_mul(1 << count.saturating_sub(1).min(10));
    let delay = delay.map_or(LONGEST_BACKOFF, |delay| delay.min(LONGEST_BACKOFF));
    last_at.saturating_add(delay).unwrap_or(Timestamp::MAX)
}

/// Returns the old pods that make room for new ones: those that are not available, and as many others as may be unavailable.
fn replaced<'a>(
    nodes: impl Iterator<Item = &'a [DaemonPod<'a>]>,
    max_unavailable: i32,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Vec<Arc<str>> {
    let (mut unavailable, mut useless, mut candidates) = (0, Vec::new(), Vec::new());
    for pods in nodes {
        let mut here = pods.iter().filter(|pod| pod.view.is_active());
        let (only, second) = (here.next(), here.next());
        match only.filter(|_| second.is_none()) {
            Some(pod) if pod.view.is_available(min_ready_seconds, now) => {
                if !pod.is_current {
                    candidates.push(Arc::clone(&pod.view.name));
                }
            }
            Some(pod) => {
                unavailable += 1;
                if !pod.is_current {
                    useless.push(Arc::clone(&pod.view.name));
                }
            }
            None => unavailable += 1,
        }
    }
    let room = usize::try_from(max_unavailable - unavailable).unwrap_or_default();
    useless.into_iter().chain(candidates.into_iter().take(room)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::testing::{at, pod};

    fn node(name: &str) -> DaemonNode {
        DaemonNode { name: name.into(), ..DaemonNode::default() }
    }

    fn on(node: &str, name: &str) -> PodView {
        PodView { node: Some(node.into()), ..pod(name) }
    }

    fn plan_for(
        nodes: &[(DaemonNode, Fit)],
        pods: &[(PodView, bool)],
        strategy: UpdateStrategy,
    ) -> DaemonPlan {
        let pods: Vec<_> = pods
            .iter()
            .map(|(view, is_current)| DaemonPod { view, is_current: *is_current })
            .collect();
        plan(nodes, &pods, (strategy, 0), &Failures::new(), at(1000))
    }

    #[test]
    fn selector_affinity_and_taints_decide_about_a_node() {
        let labels: Labels = [("disk", "ssd")].into_iter().collect();
        let taint = |effect| Taint { key: "k".into(), value: "".into(), effect };
        let tolerate = Toleration { key: "k".into(), exists: true, value: "".into(), effect: None };
        let selecting = Placement { node_selector: labels.clone(), ..Placement::default() };
        let tolerating = Placement { tolerations: [tolerate].into(), ..Placement::default() };
        let named = Placement { node_name: Some("other".into()), ..Placement::default() };
        let tainted = |effect| DaemonNode { taints: [taint(effect)].into(), ..node("n") };
        for (placement, node, expected) in [
            (Placement::default(), node("n"), Fit::Run),
            (named, node("n"), Fit::Avoid),
            (selecting.clone(), node("n"), Fit::Avoid),
            (selecting, DaemonNode { labels, ..node("n") }, Fit::Run),
            (Placement::default(), tainted(Effect::PreferNoSchedule), Fit::Run),
            (Placement::default(), tainted(Effect::NoSchedule), Fit::Keep),
            (Placement::default(), tainted(Effect::NoExecute), Fit::Avoid),
            (tolerating, tainted(Effect::NoExecute), Fit::Run),
        ] {
            assert_eq!(fit(&placement, &node), expected, "{placement:?} {node:?}");
        }
    }

    #[test]
    fn each_node_has_one_pod_and_no_other_has_any() {
        let nodes = [
            (node("a"), Fit::Run),
            (node("b"), Fit::Run),
            (node("c"), Fit::Avoid),
            (node("d"), Fit::Keep),
        ];
        let mut second = on("a", "a-2");
        second.created_at = at(95);
        let pods = [
            (on("a", "a-1"), true),
            (second, true),
            (on("c", "c-1"), true),
            (on("d", "d-1"), true),
            (on("gone", "g-1"), true),
        ];
        let plan = plan_for(&nodes, &pods, UpdateStrategy::OnDelete);
        assert_eq!(plan.create, [Arc::from("b")]);
        assert_eq!(plan.delete, [Arc::from("a-2"), Arc::from("c-1"), Arc::from("g-1")]);
        let counts = DaemonCounts {
            desired: 2,
            current: 1,
            misscheduled: 2,
            ready: 1,
            available: 1,
            updated: 1,
        };
        assert_eq!(plan.counts, counts);
    }

    #[test]
    fn an_update_replaces_unavailable_pods_and_so_many_others() {
        let nodes = ["a", "b", "c"].map(|name| (node(name), Fit::Run));
        let mut pods = [(on("a", "a-1"), false), (on("b", "b-1"), false), (on("c", "c-1"), false)];
        let one = UpdateStrategy::RollingUpdate { max_unavailable: 1 };
        assert_eq!(plan_for(&nodes, &pods, one).delete, [Arc::from("a-1")]);
        assert!(plan_for(&nodes, &pods, UpdateStrategy::OnDelete).delete.is_empty());
        pods[1].0.ready_at = None;
        assert_eq!(plan_for(&nodes, &pods, one).delete, [Arc::from("b-1")]);
        pods[0].1 = true;
        pods[0].0.ready_at = None;
        pods[1].0.ready_at = Some(at(100));
        assert!(
            plan_for(&nodes, &pods, one).delete.is_empty(),
            "the new pod of node a is not ready"
        );
    }

    #[test]
    fn a_pod_that_fails_again_is_replaced_later() {
        let nodes = [(node("a"), Fit::Run)];
        let failed = PodView { phase: PodPhase::Failed, ready_at: None, ..on("a", "a-1") };
        let pods = [DaemonPod { view: &failed, is_current: true }];
        let failures = |count| Failures::from([(Arc::from("a"), (count, at(999)))]);
        let plan = |failures: &Failures| {
            plan(&nodes, &pods, (UpdateStrategy::OnDelete, 0), failures, at(1000))
        };
        assert_eq!(plan(&failures(1)).delete, [Arc::from("a-1")]);
        let waiting = plan(&failures(3));
        assert_eq!((waiting.delete.len(), waiting.wake_at), (0, Some(at(1003))));
    }
}
