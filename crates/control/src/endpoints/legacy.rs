//! The Endpoints object of a Service, for clients that do not read EndpointSlices.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Service,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::pods::{self, EndpointPod};
use super::ports::{self, ServingPort};
use super::slices::HEADLESS_LABEL;

/// The label of Endpoints that a controller writes, and its value.
pub(super) const MANAGED_BY: (&str, &str) =
    ("endpoints.kubernetes.io/managed-by", "endpoint-controller");
/// The annotation of Endpoints that do not list all addresses, and its value.
pub(super) const OVER_CAPACITY: (&str, &str) =
    ("endpoints.kubernetes.io/over-capacity", "truncated");
/// The most addresses that Endpoints list.
const MOST_ADDRESSES: usize = 1000;

/// Computes the Endpoints of a Service.
pub(super) fn endpoints(service: &Service, pods: &[Arc<EndpointPod>]) -> Endpoints {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS_LABEL);
    if pods::is_headless(service) {
        labels.insert(HEADLESS_LABEL.to_owned(), String::new());
    }
    labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    let (subsets, is_truncated) = subsets(service, pods);
    let over_capacity = (OVER_CAPACITY.0.to_owned(), OVER_CAPACITY.1.to_owned());
    Endpoints {
        metadata: ObjectMeta {
            name: service.metadata.name.clone(),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: is_truncated.then(|| BTreeMap::from([over_capacity])),
            ..ObjectMeta::default()
        },
        subsets: Some(subsets).filter(|subsets| !subsets.is_empty()),
    }
}

/// Groups the pods by their ports, and returns whether there are too many to list all.
fn subsets(service: &Service, pods: &[Arc<EndpointPod>]) -> (Vec<EndpointSubset>, bool) {
    let publishes_unready = pods::publishes_unready(service);
    let has_ports = service.spec.as_ref().is_some_and(|spec| spec.ports.is_some());
    let is_listed =
        |pod: &&Arc<EndpointPod>| pod.has_address() && (publishes_unready || !pod.is_terminating());
    let mut listed: Vec<(bool, &Arc<EndpointPod>)> = pods
        .iter()
        .filter(is_listed)
        .map(|pod| (publishes_unready || pod.is_ready(), pod))
        .collect();
    listed.sort_by_key(|(is_ready, pod)| (!is_ready, &pod.status.pod_ip, &pod.metadata.uid));
    let is_truncated = listed.len() > MOST_ADDRESSES;
    let mut groups: BTreeMap<Vec<ServingPort>, EndpointSubset> = BTreeMap::new();
    for (is_ready, pod) in listed.into_iter().take(MOST_ADDRESSES) {
        let resolved = ports::resolve(service, pod);
        if resolved.is_empty() && has_ports {
            continue;
        }
        let subset = groups.entry(resolved).or_default();
        let list = if is_ready { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        list.get_or_insert_default().push(EndpointAddress {
            ip: pod.status.pod_ip.clone(),
            hostname: pod.hostname_in(service),
            node_name: pod.spec.node_name.clone(),
            target_ref: Some(pod.reference()),
        });
    }
    let subsets = groups.into_iter().map(|(ports, subset)| EndpointSubset {
        ports: Some(ports.into_iter().map(port).collect())
            .filter(|ports: &Vec<_>| !ports.is_empty()),
        ..subset
    });
    (subsets.collect(), is_truncated)
}

fn port(port: ServingPort) -> EndpointPort {
    EndpointPort {
        name: Some(port.name).filter(|name| !name.is_empty()),
        port: port.port,
        protocol: Some(port.protocol),
        app_protocol: port.app_protocol,
    }
}
