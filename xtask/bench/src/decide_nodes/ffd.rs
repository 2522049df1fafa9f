//! First fit decreasing, pod by pod: what a plan is compared with.

use std::sync::Arc;

use decide::nodes::{Cluster, HOSTNAME_LABEL, Node, Resize, Snapshot};

/// Returns how many nodes of the group first fit decreasing needs for the pods that the plan gave it.
pub(super) fn nodes(cluster: &Cluster, resize: &Resize) -> usize {
    let Some(template) = &cluster.groups[resize.group].template else { return 0 };
    let node = Arc::new(Node {
        labels: template.labels.with(HOSTNAME_LABEL, "new"),
        taints: template.taints.clone(),
        capacity: template.capacity.clone(),
        allocatable: template.allocatable.clone(),
        is_ready: true,
        ..Node::default()
    });
    let mut pods: Vec<_> =
        resize.nodes.iter().flatten().map(|pod| cluster.pods[*pod].clone()).collect();
    let share = |requested: i64, has: i64| requested as f64 / has.max(1) as f64;
    let size = |pod: &decide::nodes::Pod| {
        let requested = &pod.spec.requests;
        share(requested.cpu, node.allocatable.cpu)
            + share(requested.memory, node.allocatable.memory)
    };
    pods.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let alone = Cluster { pods, ..Cluster::default() };
    let mut snapshot = Snapshot::new(&alone, |_| false);
    for pod in 0..alone.pods.len() {
        let found = snapshot.first_fit(pod, 0, |_| true);
        let place = found.unwrap_or_else(|| {
            let number = snapshot.node_count();
            snapshot.add_node(&node, &format!("new-{number}"))
        });
        snapshot.place(pod, place);
    }
    snapshot.node_count()
}
