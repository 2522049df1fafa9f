//! The EndpointSlices of a Service, and the assignment of endpoints to slices.
//!
//! An endpoint stays in its slice, so that a change of one pod is a write of one slice.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::Key;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::pods::{self, EndpointPod};
use super::ports::{self, ServingPort};

/// The label of a slice that names its Service.
pub(super) const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// The label of a slice that names its controller.
pub(super) const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
/// The author of slices that follow from pods, under the name of Kubernetes' own.
pub(super) const MANAGED_BY: &str = "endpointslice-controller.k8s.io";
/// The label of what belongs to a Service without an address of its own.
pub(super) const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";
/// The most endpoints in a slice.
const MOST_ENDPOINTS: usize = 100;

/// The writes that make the slices of a Service what they are to be.
#[derive(Debug, Default)]
pub(super) struct SlicePlan {
    pub(super) create: Vec<EndpointSlice>,
    pub(super) replace: Vec<EndpointSlice>,
    pub(super) delete: Vec<EndpointSlice>,
}

/// Endpoints by their ports, then by their identity: the uid of the pod, or the address.
pub(super) type EndpointGroups = BTreeMap<Vec<ServingPort>, BTreeMap<String, Endpoint>>;

/// What the slices of a Service have in common.
pub(super) struct SliceTemplate {
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
    /// The annotations; `None`: they are not touched.
    pub(super) annotations: Option<BTreeMap<String, String>>,
    pub(super) owner: OwnerReference,
    /// The names of the ports in their order.
    pub(super) port_order: Vec<String>,
    /// Whether there is a slice even without endpoints.
    pub(super) keeps_empty: bool,
}

/// Returns the Service of a slice.
pub(super) fn service_of(meta: &ObjectMeta) -> Option<Key> {
    let name = meta.labels.as_ref()?.get(SERVICE_LABEL)?;
    Some(Key::new(meta.namespace.as_deref().unwrap_or_default(), name.as_str()))
}

/// Whether a slice was written by an author of that name.
pub(super) fn is_managed_by(slice: &EndpointSlice, author: &str) -> bool {
    let labels = slice.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(MANAGED_BY_LABEL)).is_some_and(|name| name == author)
}

/// Plans the slices of a Service. There is always one, also without endpoints.
pub(super) fn plan(
    service: &Service,
    pods: &[Arc<EndpointPod>],
    existing: &[EndpointSlice],
) -> SlicePlan {
    let mut groups = EndpointGroups::new();
    for pod in pods.iter().filter(|pod| pod.has_address()) {
        let endpoint = endpoint(service, pod);
        let group = groups.entry(ports::resolve(service, pod)).or_default();
        group.insert(identity(&endpoint), endpoint);
    }
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let template = SliceTemplate {
        name: service.metadata.name.clone().unwrap_or_default(),
        namespace: service.metadata.namespace.clone(),
        labels: labels(service),
        annotations: None,
        owner: owner("Service", &service.metadata),
        port_order: ports.map(|port| port.name.clone().unwrap_or_default()).collect(),
        keeps_empty: true,
    };
    arrange(groups, existing, &template)
}

/// Distributes endpoints over slices.
pub(super) fn arrange(
    mut groups: EndpointGroups,
    existing: &[EndpointSlice],
    template: &SliceTemplate,
) -> SlicePlan {
    let mut plan = SlicePlan::default();
    let mut slices = kept_slices(&mut groups, existing);
    for (ports, group) in groups {
        add_endpoints(&mut slices, &ports, group);
    }
    if template.keeps_empty && slices.iter().all(|slice| slice.endpoints.is_empty()) {
        slices.truncate(1);
        if slices.is_empty() {
            slices.push(AssignedSlice::default());
        }
    } else {
        slices.retain(|slice| !slice.endpoints.is_empty());
    }
    for slice in existing {
        let is_kept =
            |kept: &AssignedSlice| kept.existing.is_some_and(|it| std::ptr::eq(it, slice));
        if !slices.iter().any(is_kept) {
            plan.delete.push(slice.clone());
        }
    }
    for assigned in slices {
        let slice = assigned.build(template);
        match assigned.existing {
            None => plan.create.push(slice),
            Some(before) if is_same(before, &slice) => {}
            Some(_) => plan.replace.push(slice),
        }
    }
    plan
}

/// A slice with the endpoints that it is to have.
#[derive(Default)]
struct AssignedSlice<'a> {
    existing: Option<&'a EndpointSlice>,
    ports: Vec<ServingPort>,
    endpoints: Vec<Endpoint>,
}

/// Returns the existing slices with those of their endpoints that stay, which are removed from the groups.
fn kept_slices<'a>(
    groups: &mut EndpointGroups,
    existing: &'a [EndpointSlice],
) -> Vec<AssignedSlice<'a>> {
    let mut kept = Vec::new();
    for slice in existing.iter().filter(|slice| slice.address_type == "IPv4") {
        let ports = ports_of(slice);
        let mut endpoints = Vec::new();
        if let Some(group) = groups.get_mut(&ports) {
            let before = slice.endpoints.iter().flatten().map(identity);
            endpoints.extend(before.filter_map(|identity| group.remove(&identity)));
        }
        kept.push(AssignedSlice { existing: Some(slice), ports, endpoints });
    }
    kept
}

/// Identifies an endpoint: by the uid of its pod, or by its address.
pub(super) fn identity(endpoint: &Endpoint) -> String {
    let uid = endpoint.target_ref.as_ref().and_then(|target| target.uid.clone());
    uid.or_else(|| endpoint.addresses.first().cloned()).unwrap_or_default()
}

/// Adds new endpoints to slices with room for them, then to new slices.
fn add_endpoints(
    slices: &mut Vec<AssignedSlice<'_>>,
    ports: &[ServingPort],
    group: BTreeMap<String, Endpoint>,
) {
    let mut endpoints: Vec<Endpoint> = group.into_values().collect();
    let name = |endpoint: &Endpoint| endpoint.target_ref.as_ref().and_then(|pod| pod.name.clone());
    endpoints.sort_by_key(name);
    let mut endpoints = endpoints.into_iter();
    for slice in slices.iter_mut().filter(|slice| slice.ports == ports) {
        let room = MOST_ENDPOINTS.saturating_sub(slice.endpoints.len());
        slice.endpoints.extend(endpoints.by_ref().take(room));
    }
    loop {
        let endpoints: Vec<Endpoint> = endpoints.by_ref().take(MOST_ENDPOINTS).collect();
        if endpoints.is_empty() {
            return;
        }
        slices.push(AssignedSlice { existing: None, ports: ports.to_vec(), endpoints });
    }
}

fn endpoint(service: &Service, pod: &EndpointPod) -> Endpoint {
    let (is_ready, is_terminating) = (pod.is_ready(), pod.is_terminating());
    let ready = pods::publishes_unready(service) || (is_ready && !is_terminating);
    Endpoint {
        addresses: vec![pod.status.pod_ip.clone()],
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            serving: Some(is_ready),
            terminating: Some(is_terminating),
        }),
        hostname: pod.hostname_in(service),
        node_name: pod.spec.node_name.clone(),
        target_ref: Some(pod.reference()),
        ..Endpoint::default()
    }
}

fn ports_of(slice: &EndpointSlice) -> Vec<ServingPort> {
    let port = |port: &EndpointPort| ServingPort {
        name: port.name.clone().unwrap_or_default(),
        port: port.port.unwrap_or_default(),
        protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
        app_protocol: port.app_protocol.clone(),
    };
    let mut ports: Vec<_> = slice.ports.iter().flatten().map(port).collect();
    ports.sort();
    ports
}

impl AssignedSlice<'_> {
    /// Returns the object; one that exists keeps its name and version.
    fn build(&self, template: &SliceTemplate) -> EndpointSlice {
        let mut metadata = match self.existing {
            Some(slice) => slice.metadata.clone(),
            None => ObjectMeta {
                generate_name: Some(format!("{}-", template.name)),
                namespace: template.namespace.clone(),
                ..ObjectMeta::default()
            },
        };
        metadata.labels = Some(template.labels.clone());
        metadata.owner_references = Some(vec![template.owner.clone()]);
        if let Some(annotations) = &template.annotations {
            metadata.annotations = Some(annotations.clone()).filter(|all| !all.is_empty());
        }
        let port = |port: &ServingPort| EndpointPort {
            name: Some(port.name.clone()),
            port: Some(port.port),
            protocol: Some(port.protocol.clone()),
            app_protocol: port.app_protocol.clone(),
        };
        let mut ports: Vec<_> = self.ports.iter().map(port).collect();
        let order = &template.port_order;
        ports.sort_by_key(|port| order.iter().position(|name| port.name.as_ref() == Some(name)));
        EndpointSlice {
            metadata,
            address_type: "IPv4".to_owned(),
            endpoints: Some(self.endpoints.clone()),
            ports: Some(ports).filter(|ports| !ports.is_empty()),
        }
    }
}

/// Returns a reference to the object that slices belong to.
pub(super) fn owner(kind: &str, meta: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Returns the labels of a slice: those of its Service, and its own.
fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS_LABEL);
    if pods::is_headless(service) {
        labels.insert(HEADLESS_LABEL.to_owned(), String::new());
    }
    labels.insert(SERVICE_LABEL.to_owned(), service.metadata.name.clone().unwrap_or_default());
    labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.to_owned());
    labels
}

fn is_same(before: &EndpointSlice, after: &EndpointSlice) -> bool {
    let ports = |slice: &EndpointSlice| slice.ports.clone().unwrap_or_default();
    let endpoints = |slice: &EndpointSlice| slice.endpoints.clone().unwrap_or_default();
    endpoints(before) == endpoints(after)
        && ports(before) == ports(after)
        && before.metadata.labels == after.metadata.labels
        && before.metadata.annotations == after.metadata.annotations
        && before.metadata.owner_references == after.metadata.owner_references
}

#[cfg(test)]
mod tests;
