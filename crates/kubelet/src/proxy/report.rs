//! Writes where a Service is reachable into its object, and why a port is not.

use cluster::write::{self, PatchTarget};
use cluster::{CachedObject, Error, EventType, LOCAL_ADDRESSES_ANNOTATION, LocalAddresses};
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::ServiceProxy;
use super::listeners::{ListenerRole, ServicePorts};
use crate::status::time;

/// The component that events come from.
const COMPONENT: &str = "service-proxy";
/// The condition of a Service with a port that its load balancer could not bind, as Kubernetes names it.
const PORTS_ERROR: &str = "LoadBalancerPortsError";
/// The reason of that condition, and of the event.
const NOT_BOUND: &str = "PortNotBound";

/// Writes the addresses and the status of a Service, each if it has changed. A new problem is an event too.
pub(super) async fn report(
    service: &CachedObject<Service>,
    ports: &mut ServicePorts,
    proxy: &ServiceProxy,
) -> Result<(), Error> {
    let problems: Vec<&str> = ports.problems().map(|(_, problem)| problem).collect();
    let problems = problems.join("; ");
    if problems != ports.reported {
        if !problems.is_empty() {
            let events = &proxy.machine.pod_client.events;
            let note = problems.clone();
            events.record(&service.0, COMPONENT, EventType::Warning, NOT_BOUND, note);
        }
        ports.reported = problems;
    }
    let client = &proxy.machine.context.client;
    let local = ports.local_addresses();
    if LocalAddresses::from_service(service) != local {
        let text = (!local.is_empty()).then(|| local.to_string());
        let change = json!({"metadata": {"annotations": {LOCAL_ADDRESSES_ANNOTATION: text}}});
        let (target, what) = (PatchTarget::Object, "write the local addresses of a Service");
        // The watch delivers the newer version, and the status follows with it.
        return write::patch(client, &proxy.services, service, target, change, what).await;
    }
    let Some(change) = status(service, ports, proxy) else { return Ok(()) };
    let (target, what) = (PatchTarget::Status, "write the status of a Service");
    write::patch(client, &proxy.services, service, target, change, what).await
}

/// Returns the change of the status; `None`: it stays as it is.
fn status(service: &Service, ports: &ServicePorts, proxy: &ServiceProxy) -> Option<Value> {
    let spec = service.spec.as_ref()?;
    let is_balanced = spec.type_.as_deref() == Some("LoadBalancer");
    let address = proxy.machine.local.as_ref()?.address.to_string();
    let ingress = match is_balanced && ports.has_load_balancer() {
        true => json!([{"ip": address, "ipMode": "Proxy"}]),
        false => Value::Null,
    };
    let current = service.status.as_ref();
    let current_ingress = current.and_then(|status| status.load_balancer.as_ref()?.ingress.clone());
    let is_current = match &current_ingress {
        Some(all) if !all.is_empty() => json!(all) == ingress,
        _ => ingress.is_null(),
    };
    let failed: Vec<&str> = ports
        .problems()
        .filter(|(role, _)| *role == ListenerRole::LoadBalancer)
        .map(|(_, problem)| problem)
        .collect();
    let conditions = current.and_then(|status| status.conditions.clone()).unwrap_or_default();
    let before = conditions.iter().find(|condition| condition.type_ == PORTS_ERROR);
    let message = failed.join("; ");
    let is_known = match before {
        Some(condition) => condition.message == message,
        None => message.is_empty(),
    };
    if is_current && is_known {
        return None;
    }
    let mut all: Vec<Value> = conditions
        .iter()
        .filter(|condition| condition.type_ != PORTS_ERROR)
        .map(|condition| json!(condition))
        .collect();
    if !message.is_empty() {
        let since = before.map_or_else(
            || time(proxy.machine.context.clock.now()),
            |condition| time(condition.last_transition_time.0),
        );
        all.push(json!({
            "type": PORTS_ERROR, "status": "True", "reason": NOT_BOUND, "message": message,
            "lastTransitionTime": since,
        }));
    }
    Some(json!({"status": {"loadBalancer": {"ingress": ingress}, "conditions": all}}))
}
