//! Validates services, endpoints, ingresses and network policies.

use std::collections::HashSet;

use serde_json::Value;

use super::container::port;
use super::meta::{labels, violations};
use super::numbers::{one_of, required};
use super::{Errors, names, pod};
use crate::builtin::field::Path;
use crate::builtin::{given, items, text};

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

pub(super) fn service(object: &Value, errors: &mut Errors) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    let kind = text(spec, "type");
    let is_headless = text(spec, "clusterIP") == "None";
    let ports = items(spec, "ports");
    if ports.is_empty() && !is_headless && kind != "ExternalName" {
        errors.push(path.child("ports").required(""));
    }
    match kind {
        "ExternalName" => external_name(spec, &path, errors),
        "NodePort" | "LoadBalancer" if is_headless => {
            let detail = format!("may not be set to 'None' for {kind} services");
            errors.push(path.child("clusterIPs").index(0).invalid_text("None", detail));
        }
        _ => {}
    }
    service_ports(ports, is_headless, &path.child("ports"), errors);
    labels(&spec["selector"], &path.child("selector"), errors);
    one_of(spec, "sessionAffinity", &["ClientIP", "None"], &path, errors);
    one_of(spec, "type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], &path, errors);
    duplicates(ports, &path.child("ports"), errors);
    if kind == "ClusterIP" {
        for (index, entry) in ports.iter().enumerate() {
            if entry["nodePort"].as_i64().is_some_and(|p| p != 0) {
                let detail = "may not be used when `type` is 'ClusterIP'";
                errors.push(path.child("ports").index(index).child("nodePort").forbidden(detail));
            }
        }
    }
    addresses(spec, kind, &path, errors);
}

fn external_name(spec: &Value, path: &Path, errors: &mut Errors) {
    let name = text(spec, "externalName").trim_end_matches('.');
    match name {
        "" => errors.push(path.child("externalName").required("")),
        _ => violations(&path.child("externalName"), name, names::subdomain(name), errors),
    }
    if given(spec, "clusterIP").is_some() {
        let detail = "may not be set for ExternalName services";
        errors.push(path.child("clusterIPs").index(0).invalid(&spec["clusterIP"], detail));
    }
}

fn service_ports(ports: &[Value], is_headless: bool, path: &Path, errors: &mut Errors) {
    let mut taken = HashSet::new();
    for (index, entry) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(entry, "name");
        if name.is_empty() && ports.len() > 1 {
            errors.push(path.child("name").required(""));
        } else if !name.is_empty() {
            violations(&path.child("name"), name, names::label(name), errors);
            if !taken.insert(name) {
                errors.push(path.child("name").duplicate(&entry["name"]));
            }
        }
        port(entry, "port", &path, errors);
        one_of(entry, "protocol", PROTOCOLS, &path, errors);
        port(entry, "targetPort", &path, errors);
        let _ = is_headless;
    }
}

fn duplicates(ports: &[Value], path: &Path, errors: &mut Errors) {
    let mut taken = HashSet::new();
    for (index, entry) in ports.iter().enumerate() {
        if !taken.insert((&entry["port"], &entry["protocol"])) {
            errors.push(path.index(index).duplicate(entry));
        }
    }
}

fn addresses(spec: &Value, kind: &str, path: &Path, errors: &mut Errors) {
    let is_external = matches!(kind, "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP" && !items(spec, "externalIPs").is_empty());
    if let Some(policy) = given(spec, "externalTrafficPolicy")
        && !is_external
    {
        let detail = "may only be set for externally-accessible services";
        errors.push(path.child("externalTrafficPolicy").invalid(policy, detail));
    } else {
        one_of(spec, "externalTrafficPolicy", &["Cluster", "Local"], path, errors);
    }
    one_of(spec, "internalTrafficPolicy", &["Cluster", "Local"], path, errors);
    for (index, family) in items(spec, "ipFamilies").iter().enumerate() {
        let family = family.as_str().unwrap_or_default();
        if !matches!(family, "IPv4" | "IPv6") {
            errors.push(
                path.child("ipFamilies").index(index).not_supported(family, &["IPv4", "IPv6"]),
            );
        }
    }
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    one_of(spec, "ipFamilyPolicy", &policies, path, errors);
    if let Some(address) = given(spec, "clusterIP").filter(|a| *a != "None") {
        pod::ip(address, &path.child("clusterIPs").index(0), errors);
    }
}

pub(super) fn endpoints(object: &Value, errors: &mut Errors) {
    for (index, subset) in items(object, "subsets").iter().enumerate() {
        let path = Path::new("subsets").index(index);
        if items(subset, "addresses").is_empty() && items(subset, "notReadyAddresses").is_empty() {
            errors.push(path.required("must specify `addresses` or `notReadyAddresses`"));
        }
        for list in ["addresses", "notReadyAddresses"] {
            for (index, address) in items(subset, list).iter().enumerate() {
                let path = path.child(list).index(index).child("ip");
                let before = errors.len();
                pod::ip(&address["ip"], &path, errors);
                if errors.len() > before {
                    errors.push(path.invalid(&address["ip"], "must be a valid IP address"));
                }
            }
        }
        let ports = items(subset, "ports");
        for (index, entry) in ports.iter().enumerate() {
            let path = path.child("ports").index(index);
            if ports.len() > 1 {
                required(entry, "name", &path, errors);
            }
            port(entry, "port", &path, errors);
            one_of(entry, "protocol", PROTOCOLS, &path, errors);
        }
    }
}

pub(super) fn endpoint_slice(object: &Value, errors: &mut Errors) {
    let path = Path::default();
    match text(object, "addressType") {
        "" => errors.push(path.child("addressType").required("")),
        _ => one_of(object, "addressType", &["FQDN", "IPv4", "IPv6"], &path, errors),
    }
    for (index, endpoint) in items(object, "endpoints").iter().enumerate() {
        let path = Path::new("endpoints").index(index).child("addresses");
        let addresses = items(endpoint, "addresses");
        if addresses.is_empty() {
            errors.push(path.required("must contain at least 1 address"));
        }
        if text(object, "addressType").starts_with("IP") {
            for (index, address) in addresses.iter().enumerate() {
                pod::ip(address, &path.index(index), errors);
            }
        }
    }
}

pub(super) fn ingress(object: &Value, errors: &mut Errors) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    let rules = items(spec, "rules");
    if rules.is_empty() && given(spec, "defaultBackend").is_none() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(path.invalid(&spec["rules"], detail));
    }
    if let Some(default) = given(spec, "defaultBackend") {
        backend(default, &path.child("defaultBackend"), errors);
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = path.child("rules").index(index);
        let host = text(rule, "host");
        if !host.is_empty() {
            let plain = host.strip_prefix("*.").unwrap_or(host);
            violations(&path.child("host"), host, names::subdomain(plain), errors);
        }
        let Some(http) = given(rule, "http") else { continue };
        let path = path.child("http").child("paths");
        if items(http, "paths").is_empty() {
            errors.push(path.required(""));
        }
        for (index, entry) in items(http, "paths").iter().enumerate() {
            ingress_path(entry, &path.index(index), errors);
        }
    }
}

fn ingress_path(entry: &Value, path: &Path, errors: &mut Errors) {
    let place = text(entry, "path");
    match text(entry, "pathType") {
        "" => {
            errors.push(path.child("pathType").required("pathType must be specified"));
            return;
        }
        "Exact" | "Prefix" if !place.starts_with('/') => {
            errors.push(path.child("path").invalid_text(place, "must be an absolute path"));
        }
        "Exact" | "Prefix" | "ImplementationSpecific" => {}
        other => {
            let supported = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.push(path.child("pathType").not_supported(other, &supported));
        }
    }
    backend(&entry["backend"], &path.child("backend"), errors);
}

fn backend(backend: &Value, path: &Path, errors: &mut Errors) {
    let (service, resource) = (given(backend, "service"), given(backend, "resource"));
    match (service, resource) {
        (Some(_), Some(_)) => {
            let detail = "cannot set both resource and service backends";
            errors.push(path.invalid_text("", detail));
        }
        (Some(service), None) => {
            let path = path.child("service");
            match text(service, "name") {
                "" => errors.push(path.child("name").required("")),
                name => violations(&path.child("name"), name, names::label(name), errors),
            }
            let has_port = service["port"].as_object().is_some_and(|p| !p.is_empty());
            if !has_port {
                errors.push(path.required("port name or number is required"));
            }
        }
        (None, Some(_)) => {}
        (None, None) => errors.push(path.required("resource or service backend is required")),
    }
}

pub(super) fn network_policy(object: &Value, errors: &mut Errors) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    super::label_selector(&spec["podSelector"], &path.child("podSelector"), errors);
    for (index, kind) in items(spec, "policyTypes").iter().filter_map(Value::as_str).enumerate() {
        if !matches!(kind, "Ingress" | "Egress") {
            errors.push(
                path.child("policyTypes").index(index).not_supported(kind, &["Ingress", "Egress"]),
            );
        }
    }
}
