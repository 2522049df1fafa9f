//! Why no node takes a pod, in kube-scheduler's words.

use std::collections::BTreeMap;

use decide::nodes::Refusal;

/// Returns the message of an unschedulable pod from the refusals of all nodes, and how many nodes are not ready.
pub(crate) fn unschedulable(refusals: impl Iterator<Item = Refusal>, not_ready: usize) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for refusal in refusals {
        *counts.entry(reason(&refusal)).or_default() += 1;
    }
    if not_ready > 0 {
        counts.insert("node(s) were not ready".to_owned(), not_ready);
    }
    let nodes: usize = counts.values().sum();
    if nodes == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let mut reasons: Vec<String> =
        counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    reasons.sort();
    format!("0/{nodes} nodes are available: {}.", reasons.join(", "))
}

fn reason(refusal: &Refusal) -> String {
    let text = match refusal {
        Refusal::Unschedulable => "node(s) were unschedulable",
        Refusal::TaintNotTolerated(_) => "node(s) had untolerated taint(s)",
        Refusal::NodeSelectorMismatch => "node(s) didn't match Pod's node affinity/selector",
        Refusal::HostPortTaken(_) => "node(s) didn't have free ports for the requested pod ports",
        Refusal::TooManyPods => "Too many pods",
        Refusal::InsufficientCpu => "Insufficient cpu",
        Refusal::InsufficientMemory => "Insufficient memory",
        Refusal::InsufficientResource(name) => return format!("Insufficient {name}"),
        Refusal::VolumeLimit(_) => "node(s) exceed max volume count",
        // It may also be that the volume does not exist yet.
        Refusal::VolumeZone(volume) => return format!("node(s) cannot reach volume {volume}"),
        Refusal::TopologySpread(_) => "node(s) didn't match pod topology spread constraints",
        Refusal::PodAffinity(_) => "node(s) didn't match pod affinity rules",
        Refusal::PodAntiAffinity(_) => "node(s) didn't match pod anti-affinity rules",
        // Reasons of node groups, never of a node.
        Refusal::AtMaxSize(_)
        | Refusal::LimitReached(_)
        | Refusal::BackedOff
        | Refusal::Unhealthy
        | Refusal::ClusterUnhealthy
        | Refusal::NoTemplate
        | Refusal::NotPlanned => return refusal.to_string(),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_and_sorted_as_kube_scheduler_does() {
        let taint = |name: &str| Refusal::TaintNotTolerated(name.into());
        let refusals = [
            taint("a=b:NoSchedule"),
            Refusal::InsufficientCpu,
            taint("c=d:NoExecute"),
            Refusal::InsufficientCpu,
            Refusal::InsufficientCpu,
        ];
        assert_eq!(
            unschedulable(refusals.into_iter(), 0),
            "0/5 nodes are available: 2 node(s) had untolerated taint(s), 3 Insufficient cpu."
        );
        assert_eq!(
            unschedulable([].into_iter(), 2),
            "0/2 nodes are available: 2 node(s) were not ready."
        );
        assert_eq!(unschedulable([].into_iter(), 0), "no nodes available to schedule pods");
    }
}
