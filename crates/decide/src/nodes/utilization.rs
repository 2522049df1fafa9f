//! The utilization of nodes.

use super::{GPU_RESOURCES, Node, Pod};

/// Which pods count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) without_daemon_sets: bool,
    pub(super) without_mirror_pods: bool,
}

/// Returns the fraction of a node that is requested: of its GPUs if it has any, otherwise the larger of CPU and memory. `None` if
/// the node reports no allocatable resources.
///
/// Excluded pods are also subtracted from the node's resources.
pub(super) fn requested_share<'a>(
    node: &Node,
    pods: impl Iterator<Item = &'a Pod>,
    counted: Counted,
) -> Option<f64> {
    let is_left_out = |pod: &Pod| {
        (counted.without_daemon_sets && pod.is_daemon())
            || (counted.without_mirror_pods && pod.drain.is_mirror)
    };
    if let Some(gpu) = gpu_of(node) {
        let asked = pods.filter(|p| !is_left_out(p)).map(|p| p.spec.requests.get(gpu));
        let asked = asked.fold(0, i64::saturating_add);
        // A GPU that is not available does not keep the node.
        return Some(share(asked, node.allocatable.get(gpu)).unwrap_or(0.0));
    }
    let (mut cpu, mut memory) = (0_i64, 0_i64);
    let (mut cpu_left, mut memory_left) = (node.allocatable.cpu, node.allocatable.memory);
    for pod in pods {
        let asked = &pod.spec.requests;
        if is_left_out(pod) {
            cpu_left = cpu_left.saturating_sub(asked.cpu);
            memory_left = memory_left.saturating_sub(asked.memory);
        } else {
            cpu = cpu.saturating_add(asked.cpu);
            memory = memory.saturating_add(asked.memory);
        }
    }
    if node.allocatable.cpu <= 0 || node.allocatable.memory <= 0 {
        return None;
    }
    let full = |asked, of| share(asked, of).unwrap_or(if asked > 0 { f64::INFINITY } else { 0.0 });
    Some(full(cpu, cpu_left).max(full(memory, memory_left)))
}

/// Returns the GPU resource of a node that has one.
pub(super) fn gpu_of(node: &Node) -> Option<&'static str> {
    GPU_RESOURCES.into_iter().find(|name| node.capacity.get(name) > 0)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a share of bytes need not be exact to the last one"
)]
fn share(asked: i64, of: i64) -> Option<f64> {
    (of > 0).then(|| asked as f64 / of as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::nodes::{Drain, PodSpec, Resources};

    fn node(amounts: &[(&str, i64)]) -> Node {
        let all: Resources = amounts.iter().copied().collect();
        Node { capacity: all.clone(), allocatable: all, ..Node::default() }
    }

    fn pod(amounts: &[(&str, i64)], drain: Drain) -> Pod {
        let spec = PodSpec { requests: amounts.iter().copied().collect(), ..PodSpec::default() };
        Pod { spec: Arc::new(spec), drain, ..Pod::default() }
    }

    fn plain(cpu: i64, memory: i64) -> Pod {
        pod(&[("cpu", cpu), ("memory", memory)], Drain::default())
    }

    #[test]
    fn the_larger_of_cpu_and_memory_counts() {
        let node = node(&[("cpu", 4000), ("memory", 1000)]);
        let all = Counted::default();
        assert_eq!(
            requested_share(&node, [plain(1000, 100), plain(1000, 100)].iter(), all),
            Some(0.5)
        );
        assert_eq!(requested_share(&node, [plain(1000, 900)].iter(), all), Some(0.9));
        assert_eq!(requested_share(&node, [].iter(), all), Some(0.0));
    }

    #[test]
    fn excluded_pods_are_subtracted_from_the_node() {
        let node = node(&[("cpu", 4000), ("memory", 1000)]);
        let daemon = Drain { is_marked_daemon: true, ..Drain::default() };
        let mirror = Drain { is_mirror: true, ..Drain::default() };
        let pods = [plain(1000, 0), pod(&[("cpu", 1000)], daemon), pod(&[("cpu", 1000)], mirror)];
        for (without_daemon_sets, without_mirror_pods, wanted) in [
            (false, false, 3.0 / 4.0),
            (true, false, 2.0 / 3.0),
            (false, true, 2.0 / 3.0),
            (true, true, 1.0 / 2.0),
        ] {
            let counted = Counted { without_daemon_sets, without_mirror_pods };
            assert_eq!(requested_share(&node, pods.iter(), counted), Some(wanted), "{counted:?}");
        }
    }

    #[test]
    fn only_gpus_count_on_a_node_with_gpus() {
        let gpus = node(&[("cpu", 1000), ("memory", 1000), ("nvidia.com/gpu", 4)]);
        let pods = [pod(&[("cpu", 1000), ("nvidia.com/gpu", 1)], Drain::default())];
        assert_eq!(requested_share(&gpus, pods.iter(), Counted::default()), Some(0.25));
        let broken = Node { allocatable: Resources::default(), ..gpus };
        assert_eq!(requested_share(&broken, pods.iter(), Counted::default()), Some(0.0));
    }

    #[test]
    fn a_node_without_allocatable_resources_has_no_utilization() {
        for amounts in [&[][..], &[("cpu", 1000)], &[("memory", 1)]] {
            assert_eq!(requested_share(&node(amounts), [].iter(), Counted::default()), None);
        }
    }
}
