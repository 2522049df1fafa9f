//! The ports of a Service on one of its pods.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::pods::EndpointPod;

/// A port of a pod that serves a port of a Service. Pods with equal ports share slices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServingPort {
    /// The name of the Service's port; may be empty.
    pub(super) name: String,
    pub(super) port: i32,
    pub(super) protocol: String,
    pub(super) app_protocol: Option<String>,
}

/// Resolves the target ports of a Service on a pod, in a fixed order. A named port that the pod does not have is left out.
pub(super) fn resolve(service: &Service, pod: &EndpointPod) -> Vec<ServingPort> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let mut resolved: Vec<ServingPort> = ports
        .filter_map(|port| {
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            let number = match &port.target_port {
                None => port.port,
                Some(IntOrString::Int(0)) => port.port,
                Some(IntOrString::Int(number)) => *number,
                Some(IntOrString::String(name)) => pod.named_port(name, protocol)?,
            };
            Some(ServingPort {
                name: port.name.clone().unwrap_or_default(),
                port: number,
                protocol: protocol.to_owned(),
                app_protocol: port.app_protocol.clone(),
            })
        })
        .collect();
    resolved.sort();
    resolved
}
