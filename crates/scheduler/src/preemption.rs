//! Chooses the pods to preempt so that a pod of higher priority fits.
//!
//! As in kube-scheduler: on each node all less important pods are taken away; if the pod fits then, as many as possible are put
//! back, first those whose budget allows no disruption, and the most important first. The node is chosen with the fewest
//! violated budgets, then with the least important victims, then with the fewest.

use std::cmp::Reverse;

use decide::nodes::{Budget, NodeId, Pod, PodId, Snapshot};

/// How many nodes with victims are compared at most.
const MOST_CANDIDATES: usize = 100;

/// A node, and the pods to be deleted there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Preemption {
    pub(crate) node: NodeId,
    /// The most important first.
    pub(crate) victims: Vec<PodId>,
    violations: usize,
}

/// Returns the priority of a pod.
pub(crate) fn priority(pod: &Pod) -> i32 {
    pod.priority.unwrap_or(0)
}

/// Chooses the pods that make room for a pod that fits on no node; `None`: no node has room without less important pods.
/// `pods` are those of the snapshot, by id, and `may_evict` returns whether one is on its node for certain.
pub(crate) fn choose(
    snapshot: &mut Snapshot<'_>,
    pods: &[Pod],
    preemptor: PodId,
    budgets: &[Budget],
    may_evict: impl Fn(PodId) -> bool,
) -> Option<Preemption> {
    let nodes: Vec<NodeId> = snapshot.nodes().collect();
    let candidates = nodes
        .into_iter()
        .filter_map(|node| on_node(snapshot, pods, preemptor, budgets, node, &may_evict));
    let candidates: Vec<Preemption> = candidates.take(MOST_CANDIDATES).collect();
    // Of equal ones the first is chosen.
    candidates.into_iter().min_by_key(|candidate| cost(candidate, pods))
}

/// Returns the victims on one node; `None`: the pod does not fit even without them, or needs none.
fn on_node(
    snapshot: &mut Snapshot<'_>,
    pods: &[Pod],
    preemptor: PodId,
    budgets: &[Budget],
    node: NodeId,
    may_evict: &impl Fn(PodId) -> bool,
) -> Option<Preemption> {
    let below = priority(&pods[preemptor]);
    let is_candidate = |pod: &PodId| priority(&pods[*pod]) < below && may_evict(*pod);
    let mut removed: Vec<PodId> =
        snapshot.pods_on(node).iter().copied().filter(is_candidate).collect();
    if removed.is_empty() {
        return None;
    }
    let mark = snapshot.mark();
    removed.iter().for_each(|pod| snapshot.remove(*pod));
    let fits = |snapshot: &Snapshot<'_>| snapshot.why_not(preemptor, node).is_none();
    let mut found = None;
    if fits(snapshot) {
        removed.sort_by_key(|pod| importance(&pods[*pod]));
        let (violating, others) = split(&removed, pods, budgets);
        let mut victims = Vec::new();
        let mut violations = 0;
        for (list, violates) in [(violating, true), (others, false)] {
            for pod in list {
                let mark = snapshot.mark();
                snapshot.place(pod, node);
                if !fits(snapshot) {
                    snapshot.undo_to(mark);
                    victims.push(pod);
                    violations += usize::from(violates);
                }
            }
        }
        victims.sort_by_key(|pod| importance(&pods[*pod]));
        found = Some(Preemption { node, victims, violations });
    }
    snapshot.undo_to(mark);
    found.filter(|found| !found.victims.is_empty())
}

/// Orders pods by importance: those of higher priority first, then the older ones.
fn importance(pod: &Pod) -> (Reverse<i32>, Option<jiff::Timestamp>) {
    (Reverse(priority(pod)), pod.created_at)
}

/// Separates the pods whose deletion would violate a budget, in the order in which they are.
fn split(candidates: &[PodId], pods: &[Pod], budgets: &[Budget]) -> (Vec<PodId>, Vec<PodId>) {
    let mut allowed: Vec<i32> = budgets.iter().map(|budget| budget.disruptions_allowed).collect();
    candidates.iter().partition(|pod| {
        let spec = &pods[**pod].spec;
        let mut violates = false;
        for (budget, allowed) in budgets.iter().zip(&mut allowed) {
            // A budget without a selector protects nothing from preemption, and a pod that is being evicted is already counted.
            if budget.namespace == spec.namespace
                && !budget.selector.is_empty()
                && budget.selector.matches(&spec.labels)
                && !budget.disrupted_pods.contains(&pods[**pod].name)
            {
                *allowed -= 1;
                violates |= *allowed < 0;
            }
        }
        violates
    })
}

/// The criteria by which nodes are compared, in their order: the least is chosen.
type Cost = (usize, i32, i64, usize, Reverse<Option<jiff::Timestamp>>);

fn cost(candidate: &Preemption, pods: &[Pod]) -> Cost {
    let victims = || candidate.victims.iter().map(|pod| &pods[*pod]);
    let highest = victims().map(priority).max().unwrap_or(i32::MIN);
    // Many pods of negative priority do not make a node cheaper than few.
    let sum = victims().map(|pod| i64::from(priority(pod)) + i64::from(i32::MAX) + 1).sum();
    let oldest = victims().filter(|pod| priority(pod) == highest).map(|pod| pod.created_at).min();
    (candidate.violations, highest, sum, candidate.victims.len(), Reverse(oldest.flatten()))
}

#[cfg(test)]
mod tests {
    use decide::nodes::{Cluster, LabelSelector, Node, PodSpec, Resources, Scheduling};

    use super::*;

    /// A pod by its name, node, cpu, and priority. Its label `app` is its name's first letter.
    type Row = (&'static str, &'static str, i64, i32);

    fn resources(cpu: i64) -> Resources {
        let mut resources = Resources::default();
        resources.set("cpu", cpu);
        resources
    }

    fn pod((name, node, cpu, priority): Row, age: i64) -> Pod {
        let spec = PodSpec {
            namespace: "n".into(),
            labels: [("app", &name[..1])].into_iter().collect(),
            requests: resources(cpu),
            ..PodSpec::default()
        };
        let on = if node.is_empty() { Scheduling::Other } else { Scheduling::On(node.into()) };
        Pod {
            name: name.into(),
            spec: spec.into(),
            scheduling: on,
            priority: Some(priority),
            created_at: jiff::Timestamp::from_second(1_000_000 - age).ok(),
            ..Pod::default()
        }
    }

    fn budget(app: &str, disruptions_allowed: i32) -> Budget {
        let selector = LabelSelector::of_labels([("app", app)]);
        Budget {
            namespace: "n".into(),
            name: app.into(),
            selector,
            disruptions_allowed,
            ..Budget::default()
        }
    }

    /// Decides for a pod of priority 10 with this much cpu, on nodes with 4, and returns the node and the victims.
    fn decided(cpu: i64, rows: &[Row], budgets: &[Budget]) -> Option<(String, Vec<String>)> {
        let mut pods = vec![pod(("new", "", cpu, 10), 0)];
        pods.extend(rows.iter().enumerate().map(|(age, row)| pod(*row, age as i64)));
        let nodes = ["x", "y"].map(|name| {
            let mut allocatable = resources(4);
            allocatable.pods = 10;
            Node { name: name.into(), is_ready: true, allocatable, ..Node::default() }
        });
        let cluster = Cluster { nodes: nodes.into(), pods, ..Cluster::default() };
        let mut snapshot = Snapshot::new(&cluster, |_| true);
        let before: Vec<_> = snapshot.nodes().map(|node| snapshot.pods_on(node).to_vec()).collect();
        let chosen = choose(&mut snapshot, &cluster.pods, 0, budgets, |_| true);
        let after: Vec<_> = snapshot.nodes().map(|node| snapshot.pods_on(node).to_vec()).collect();
        assert_eq!(before, after, "the snapshot is as it was");
        let name = |pod: &PodId| cluster.pods[*pod].name.to_string();
        chosen.map(|c| (snapshot.name(c.node).to_owned(), c.victims.iter().map(name).collect()))
    }

    /// What is tested, the cpu of the new pod, the pods on nodes, the budgets, and the node with its victims.
    type Case<'a> = (&'a str, i64, &'a [Row], &'a [Budget], Option<(&'a str, &'a [&'a str])>);

    fn check(cases: &[Case<'_>]) {
        for (what, cpu, rows, budgets, expected) in cases {
            let expected = expected.map(|(node, victims)| {
                (node.to_owned(), victims.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>())
            });
            assert_eq!(decided(*cpu, rows, budgets), expected, "{what}");
        }
    }

    const BUSY: Row = ("b", "y", 4, 10);

    #[test]
    fn the_fewest_and_least_important_pods_go() {
        let two = [("a1", "x", 2, 1), ("a2", "x", 2, 1), BUSY];
        let unequal = [("a1", "x", 2, 1), ("a2", "x", 2, 2), BUSY];
        let few = [("a1", "x", 2, 1), ("a2", "x", 2, 1), ("b", "y", 4, 1)];
        check(&[
            ("pods of the same priority stay", 1, &[("a", "x", 4, 10), BUSY], &[], None),
            ("no node is large enough", 5, &[("a", "x", 4, 1), BUSY], &[], None),
            ("the younger of two is enough", 2, &two, &[], Some(("x", &["a1"]))),
            ("the more important is put back", 2, &unequal, &[], Some(("x", &["a1"]))),
            (
                "the node with the less important victim",
                2,
                &[("a", "x", 4, 2), ("b", "y", 4, 1)],
                &[],
                Some(("y", &["b"])),
            ),
            ("fewer victims of the same priority", 4, &few, &[], Some(("y", &["b"]))),
            (
                "the younger victim",
                4,
                &[("a", "x", 4, 1), ("b", "y", 4, 1)],
                &[],
                Some(("x", &["a"])),
            ),
        ]);
    }

    #[test]
    fn budgets_are_violated_only_if_there_is_no_other_way() {
        let unequal = [("a", "x", 4, 1), ("b", "y", 4, 5)];
        let both = [("a", "x", 2, 1), ("c", "x", 2, 2), BUSY];
        let (none, one) = ([budget("a", 0)], [budget("a", 1)]);
        check(&[
            ("a budget counts more than priority", 4, &unequal, &none, Some(("y", &["b"]))),
            ("no other way", 4, &[("a", "x", 4, 1), BUSY], &none, Some(("x", &["a"]))),
            ("the protected pod is put back first", 2, &both, &none, Some(("x", &["c"]))),
            ("one disruption is allowed", 4, &unequal, &one, Some(("x", &["a"]))),
        ]);
    }

    #[test]
    fn a_pod_whose_eviction_is_already_counted_violates_no_budget() {
        let unequal = [("a", "x", 4, 1), ("b", "y", 4, 5)];
        let same = [("a1", "x", 2, 1), ("a2", "x", 2, 2), ("b", "y", 4, 5)];
        let of = |pods: &[&str], disruptions_allowed| {
            let disrupted_pods = pods.iter().map(|pod| (*pod).into()).collect();
            [Budget { disrupted_pods, ..budget("a", disruptions_allowed) }]
        };
        check(&[
            ("it is being evicted", 4, &unequal, &of(&["a"], 0), Some(("x", &["a"]))),
            ("another one is", 4, &unequal, &of(&["a9"], 0), Some(("y", &["b"]))),
            ("it uses up no disruption", 4, &same, &of(&["a2"], 1), Some(("x", &["a2", "a1"]))),
            ("the other one has none", 4, &same, &of(&["a2"], 0), Some(("y", &["b"]))),
        ]);
    }
}
