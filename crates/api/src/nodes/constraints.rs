//! The hard scheduling constraints of a pod, apart from its volumes.

use std::collections::BTreeMap;

use decide::nodes::{HostPort, PodSpec, PodTerm, SpreadConstraint};
use k8s_openapi::api::core::v1 as core;

use super::{requests, selectors};

/// Reads a pod's constraints. Its namespace, requests and volumes are still to be filled in.
pub(super) fn read(spec: &core::PodSpec, labels: Option<&BTreeMap<String, String>>) -> PodSpec {
    let affinity = spec.affinity.as_ref();
    let required = affinity.and_then(|a| a.node_affinity.as_ref()).and_then(|a| {
        a.required_during_scheduling_ignored_during_execution.as_ref().map(selectors::node_terms)
    });
    let near = affinity.and_then(|a| a.pod_affinity.as_ref());
    let near = near.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref());
    let apart = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
    let apart =
        apart.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref());
    PodSpec {
        labels: selectors::copy(labels),
        node_selector: selectors::copy(spec.node_selector.as_ref()),
        node_affinity: required,
        tolerations: spec.tolerations.iter().flatten().filter_map(selectors::toleration).collect(),
        affinity: near.unwrap_or_default().iter().map(|t| term(t, labels)).collect(),
        anti_affinity: apart.unwrap_or_default().iter().map(|t| term(t, labels)).collect(),
        spread: spread(spec, labels),
        host_ports: host_ports(spec),
        ..PodSpec::default()
    }
}

/// Reads one term of pod affinity. Without namespaces it is about the pod's own, which is filled in later.
pub(super) fn term(
    term: &core::PodAffinityTerm,
    labels: Option<&BTreeMap<String, String>>,
) -> PodTerm {
    let selector = selectors::with_keys(
        selectors::labels(term.label_selector.as_ref()),
        labels,
        term.match_label_keys.as_deref(),
        term.mismatch_label_keys.as_deref(),
    );
    let mut namespaces: Vec<Box<str>> =
        term.namespaces.iter().flatten().map(|n| n.as_str().into()).collect();
    namespaces.sort();
    namespaces.dedup();
    PodTerm {
        topology_key: term.topology_key.as_str().into(),
        selector,
        namespaces: namespaces.into(),
        namespace_selector: term.namespace_selector.as_ref().map(|s| selectors::labels(Some(s))),
    }
}

/// Puts the pod's own namespace into terms that name none.
pub(super) fn resolve_namespace(spec: &mut PodSpec, namespace: &str) {
    spec.namespace = namespace.into();
    for term in spec.affinity.iter_mut().chain(&mut spec.anti_affinity) {
        if term.namespaces.is_empty() && term.namespace_selector.is_none() {
            term.namespaces = [namespace.into()].into();
        }
    }
}

fn spread(
    spec: &core::PodSpec,
    labels: Option<&BTreeMap<String, String>>,
) -> Box<[SpreadConstraint]> {
    let constraints = spec.topology_spread_constraints.iter().flatten();
    let hard = constraints.filter(|c| c.when_unsatisfiable == "DoNotSchedule");
    hard.map(|c| SpreadConstraint {
        topology_key: c.topology_key.as_str().into(),
        max_skew: u32::try_from(c.max_skew).unwrap_or(0),
        selector: selectors::with_keys(
            selectors::labels(c.label_selector.as_ref()),
            labels,
            c.match_label_keys.as_deref(),
            None,
        ),
        min_domains: c.min_domains.and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
        honor_affinity: c.node_affinity_policy.as_deref() != Some("Ignore"),
        honor_taints: c.node_taints_policy.as_deref() == Some("Honor"),
    })
    .collect()
}

/// Returns the ports of the node that the pod takes. On the host's network every port of a container is one.
fn host_ports(spec: &core::PodSpec) -> Box<[HostPort]> {
    let on_host = spec.host_network == Some(true);
    let sidecars = spec.init_containers.iter().flatten().filter(|c| requests::is_sidecar(c));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|c| c.ports.iter().flatten());
    let taken = ports.filter_map(|p| {
        let port = p.host_port.or(on_host.then_some(p.container_port))?;
        Some(HostPort {
            protocol: p.protocol.as_deref().unwrap_or("TCP").into(),
            ip: p.host_ip.as_deref().unwrap_or_default().into(),
            port: u16::try_from(port).ok().filter(|port| *port > 0)?,
        })
    });
    taken.collect()
}
