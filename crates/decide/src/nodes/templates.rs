//! Templates of new nodes, with the daemons they would run.

use std::sync::Arc;

use jiff::Timestamp;

use super::health::{self, ESTABLISHED_AFTER, Readiness};
use super::snapshot::ClassId;
use super::{
    Cluster, DELETION_CANDIDATE_TAINT, Effect, GROUP_LABEL, Group, HOSTNAME_LABEL, Node, NodeId,
    Pod, PodId, Settings, Snapshot, TO_BE_DELETED_TAINT, Taint, Template, Toleration,
};

/// The template of a group's new nodes.
pub(super) struct NodeTemplate {
    pub(super) node: Arc<Node>,
    /// The pods that come with a node: daemons and mirror pods.
    pub(super) daemons: Vec<ClassId>,
    /// A model in the snapshot: a new node with its daemons that does not exist, but can be checked.
    pub(super) model: NodeId,
}

/// Taints that are transient, or that we set: a new node has none of them.
const TRANSIENT_TAINTS: [&str; 13] = [
    TO_BE_DELETED_TAINT,
    DELETION_CANDIDATE_TAINT,
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.cloudprovider.kubernetes.io/shutdown",
    "cloud.google.com/impending-node-termination",
    "NodeWithImpairedVolumes",
];
const STATUS_PREFIX: &str = "status-taint.cluster-autoscaler.kubernetes.io/";
/// The taints that the DaemonSet controller makes every daemon tolerate.
const DAEMON_TOLERATIONS: [(&str, Effect); 6] = [
    ("node.kubernetes.io/not-ready", Effect::NoExecute),
    ("node.kubernetes.io/unreachable", Effect::NoExecute),
    ("node.kubernetes.io/disk-pressure", Effect::NoSchedule),
    ("node.kubernetes.io/memory-pressure", Effect::NoSchedule),
    ("node.kubernetes.io/pid-pressure", Effect::NoSchedule),
    ("node.kubernetes.io/unschedulable", Effect::NoSchedule),
];

/// Builds a group's template: from an established node of its own, else from its spec, else from any node it has.
pub(super) fn node_template(
    snapshot: &mut Snapshot<'_>,
    group: &Group,
    members: &[NodeId],
    settings: &Settings,
    now: Timestamp,
) -> Option<NodeTemplate> {
    let settled = |node: &&NodeId| is_established(snapshot.node_spec(**node), settings, now);
    let real = members.iter().find(settled).copied();
    let real = real.or_else(|| members.first().copied().filter(|_| group.template.is_none()));
    let mut node = match real {
        Some(real) => snapshot.node_spec(real).clone(),
        None => node_from_template(group.template.as_ref()?),
    };
    node.name = format!("template-node-for-{}", group.name).into();
    node.group = Some(group.name.clone());
    node.labels = node.labels.with(HOSTNAME_LABEL, &node.name).with(GROUP_LABEL, &group.name);
    node.taints = node.taints.iter().filter(|t| !is_transient(t, settings)).cloned().collect();
    node.unschedulable = false;
    let node = Arc::new(node);
    let model = snapshot.add_model(&node);
    let daemons = daemons(snapshot, real, model, settings);
    daemons.iter().for_each(|class| snapshot.occupy(*class, model));
    Some(NodeTemplate { node, daemons, model })
}

fn node_from_template(template: &Template) -> Node {
    Node {
        labels: template.labels.clone(),
        taints: template.taints.clone(),
        capacity: template.capacity.clone(),
        allocatable: template.allocatable.clone(),
        is_ready: true,
        ..Node::default()
    }
}

fn is_established(node: &Node, settings: &Settings, now: Timestamp) -> bool {
    let changed_long_ago =
        node.ready_changed_at.is_none_or(|at| now.duration_since(at) >= ESTABLISHED_AFTER);
    !node.unschedulable
        && changed_long_ago
        && health::readiness(node, settings, now) == Readiness::Ready
}

fn is_transient(taint: &Taint, settings: &Settings) -> bool {
    TRANSIENT_TAINTS.contains(&&*taint.key)
        || taint.key.starts_with(STATUS_PREFIX)
        || settings.scale_up.status_taints.contains(&taint.key)
        || health::is_startup_taint(taint, settings)
}

/// Returns the daemons of the real node, and missing ones if they will certainly be added.
fn daemons(
    snapshot: &Snapshot<'_>,
    real: Option<NodeId>,
    model: NodeId,
    settings: &Settings,
) -> Vec<ClassId> {
    let cluster = snapshot.cluster;
    let comes_along = |pod: &Pod| (pod.is_daemon() || pod.drain.is_mirror) && !pod.spec.terminating;
    let on_it = real.map_or(&[][..], |node| snapshot.pods_on(node));
    let along: Vec<PodId> =
        on_it.iter().copied().filter(|pod| comes_along(&cluster.pods[*pod])).collect();
    let there: Vec<&Pod> = along.iter().map(|pod| &cluster.pods[*pod]).collect();
    let mut all: Vec<ClassId> = along.iter().map(|pod| snapshot.classes.of_pod(*pod)).collect();
    let wants_all = real.is_none() || settings.scale_up.force_daemon_sets;
    let missing = missing(cluster, &there, wants_all);
    all.extend(missing.map(|set| snapshot.classes.of_daemon(set)).filter(|class| {
        let tolerations = &snapshot.classes[*class].spec.tolerations;
        let spec = snapshot.node_spec(model);
        snapshot.selects(*class, model) && spec.taints.iter().all(|t| is_tolerated(t, tolerations))
    }));
    all.sort_unstable();
    all
}

fn missing<'c>(
    cluster: &'c Cluster,
    there: &'c [&'c Pod],
    wants_all: bool,
) -> impl Iterator<Item = usize> + 'c {
    let sets = cluster.daemon_sets.iter().enumerate();
    sets.filter(move |(_, set)| {
        let is_there = there.iter().any(|pod| {
            let owned = pod.owner.as_ref().is_some_and(|o| o.name == set.name);
            owned && pod.spec.namespace == set.spec.namespace
        });
        !is_there && (wants_all || set.is_node_critical)
    })
    .map(|(at, _)| at)
}

fn is_tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    !taint.keeps_away()
        || taint.tolerated_by(tolerations)
        || DAEMON_TOLERATIONS.contains(&(&taint.key, taint.effect))
}
