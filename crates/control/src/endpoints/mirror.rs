//! Mirrors Endpoints that other clients wrote for a Service without a selector into EndpointSlices, which are what proxies read.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointSlice};

use super::legacy;
use super::ports::ServingPort;
use super::slices::{
    EndpointGroups, MANAGED_BY_LABEL, SERVICE_LABEL, SlicePlan, SliceTemplate, arrange, identity,
    owner,
};

/// The author of mirrored slices, under the name of Kubernetes' own.
pub(super) const MANAGED_BY: &str = "endpointslicemirroring-controller.k8s.io";
/// The label of Endpoints that are not to be mirrored.
const SKIP_LABEL: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Annotations that are not mirrored.
const SKIPPED_ANNOTATIONS: [&str; 2] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "endpoints.kubernetes.io/last-change-trigger-time",
];
/// The most addresses of a subset that are mirrored.
const MOST_ADDRESSES: usize = 1000;

/// Whether Endpoints are mirrored: another client wrote them, and they are not labelled to be skipped.
pub(super) fn is_mirrored(endpoints: &Endpoints) -> bool {
    let labels = endpoints.metadata.labels.as_ref();
    let is = |(name, value): (&str, &str)| {
        labels.and_then(|labels| labels.get(name)).is_some_and(|found| found == value)
    };
    !is((SKIP_LABEL, "true")) && !is(legacy::MANAGED_BY)
}

/// Plans the slices that mirror Endpoints; `None`: there are none to mirror, and the slices are deleted.
pub(super) fn plan(endpoints: Option<&Endpoints>, existing: &[EndpointSlice]) -> SlicePlan {
    let Some(endpoints) = endpoints else {
        return SlicePlan { delete: existing.to_vec(), ..SlicePlan::default() };
    };
    let subsets = endpoints.subsets.as_deref().unwrap_or_default();
    let mut groups = EndpointGroups::new();
    for subset in subsets {
        let group = groups.entry(ports(subset)).or_default();
        let ready = subset.addresses.iter().flatten().map(|address| endpoint(address, true));
        let unready = subset.not_ready_addresses.iter().flatten();
        let unready = unready.map(|address| endpoint(address, false));
        for endpoint in ready.chain(unready).flatten().take(MOST_ADDRESSES) {
            group.insert(identity(&endpoint), endpoint);
        }
    }
    let meta = &endpoints.metadata;
    let name = meta.name.clone().unwrap_or_default();
    let mut labels = meta.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_LABEL.to_owned(), name.clone());
    labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.to_owned());
    let mut annotations: BTreeMap<_, _> = meta.annotations.clone().unwrap_or_default();
    annotations.retain(|name, _| !SKIPPED_ANNOTATIONS.contains(&name.as_str()));
    let port_order = subsets.iter().flat_map(|subset| subset.ports.iter().flatten());
    let template = SliceTemplate {
        name,
        namespace: meta.namespace.clone(),
        labels,
        annotations: Some(annotations),
        owner: owner("Endpoints", meta),
        port_order: port_order.map(|port| port.name.clone().unwrap_or_default()).collect(),
        keeps_empty: false,
    };
    arrange(groups, existing, &template)
}

fn ports(subset: &EndpointSubset) -> Vec<ServingPort> {
    let port = |port: &EndpointPort| ServingPort {
        name: port.name.clone().unwrap_or_default(),
        port: port.port,
        protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
        app_protocol: port.app_protocol.clone(),
    };
    let mut ports: Vec<_> = subset.ports.iter().flatten().map(port).collect();
    ports.sort();
    ports
}

/// Returns the endpoint of an address; `None`: it is not an IPv4 address.
fn endpoint(address: &EndpointAddress, is_ready: bool) -> Option<Endpoint> {
    address.ip.parse::<Ipv4Addr>().ok()?;
    let ready = Some(is_ready);
    Some(Endpoint {
        addresses: vec![address.ip.clone()],
        conditions: Some(EndpointConditions { ready, ..EndpointConditions::default() }),
        hostname: address.hostname.clone(),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    })
}
