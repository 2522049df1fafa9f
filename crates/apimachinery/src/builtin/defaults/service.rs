//! Fills in the defaults of services, endpoints and network policies.

use serde_json::{Value, json};

use crate::builtin::{fill, given, items, items_mut, take_field, text};

pub(super) fn service(object: &mut Value) {
    let spec = &mut object["spec"];
    fill(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "None" => {
            take_field(spec, "sessionAffinityConfig");
        }
        "ClientIP" if spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_null() => {
            spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": 10800}});
        }
        _ => {}
    }
    fill(spec, "type", "ClusterIP");
    for port in items_mut(spec, "ports") {
        fill(port, "protocol", "TCP");
        if matches!(port.get("targetPort"), None | Some(Value::Null))
            || port["targetPort"] == 0
            || port["targetPort"] == ""
        {
            port["targetPort"] = port["port"].clone();
        }
    }
    let kind = text(spec, "type").to_owned();
    let has_external = !items(spec, "externalIPs").is_empty() && kind == "ClusterIP";
    if has_external || matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        fill(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        fill(spec, "allocateLoadBalancerNodePorts", true);
        for ingress in items_mut(&mut object["status"]["loadBalancer"], "ingress") {
            if given(ingress, "ip").is_some() {
                fill(ingress, "ipMode", "VIP");
            }
        }
    }
}

pub(super) fn endpoints(object: &mut Value) {
    for subset in items_mut(object, "subsets") {
        items_mut(subset, "ports").iter_mut().for_each(|port| fill(port, "protocol", "TCP"));
    }
}

pub(super) fn endpoint_slice(object: &mut Value) {
    for port in items_mut(object, "ports") {
        if port["name"].is_null() {
            port["name"] = "".into();
        }
        fill(port, "protocol", "TCP");
    }
}

pub(super) fn network_policy(object: &mut Value) {
    let spec = &mut object["spec"];
    for direction in ["ingress", "egress"] {
        for rule in items_mut(spec, direction) {
            items_mut(rule, "ports").iter_mut().for_each(|port| fill(port, "protocol", "TCP"));
        }
    }
    if items(spec, "policyTypes").is_empty() {
        let has_egress = !items(spec, "egress").is_empty();
        spec["policyTypes"] =
            if has_egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    }
}

pub(super) fn ingress_class(object: &mut Value) {
    if object["spec"]["parameters"].is_object() {
        fill(&mut object["spec"]["parameters"], "scope", "Cluster");
    } else {
        take_field(&mut object["spec"], "parameters");
    }
}
