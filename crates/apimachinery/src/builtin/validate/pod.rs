//! Validates pods and pod templates.

use std::collections::HashSet;

use std::net::IpAddr;

use serde_json::Value;

use super::container::{ContainerRole, containers};
use super::meta::{labels, violations};
use super::numbers::{in_range, one_of};
use super::selector::{label_selector, node_selector, node_term};
use super::{Errors, names, volume};
use crate::builtin::field::Path;
use crate::builtin::{given, items, text};

/// Validates a pod.
pub(super) fn pod(object: &Value, errors: &mut Errors) {
    spec(&object["spec"], &Path::new("spec"), errors);
    if items(&object["spec"], "ephemeralContainers").is_empty() {
        return;
    }
    errors.push(Path::new("spec.ephemeralContainers").forbidden("cannot be set on create"));
}

/// Validates rules that only hold for a new pod.
pub(super) fn create_only(spec: &Value, errors: &mut Errors) {
    if !items(spec, "schedulingGates").is_empty() && given(spec, "nodeName").is_some() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.push(Path::new("spec.nodeName").forbidden(detail));
    }
}

/// Validates a pod template.
pub(super) fn template(template: &Value, path: &Path, errors: &mut Errors) {
    let meta = path.child("metadata");
    labels(&template["metadata"]["labels"], &meta.child("labels"), errors);
    spec(&template["spec"], &path.child("spec"), errors);
    if !items(&template["spec"], "ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(path.child("spec").child("ephemeralContainers").forbidden(detail));
    }
}

fn spec(spec: &Value, path: &Path, errors: &mut Errors) {
    let names = volume::volumes(items(spec, "volumes"), &path.child("volumes"), errors);
    let list = items(spec, "containers");
    if list.is_empty() {
        errors.push(path.child("containers").required(""));
    }
    let mut taken = HashSet::new();
    containers(list, ContainerRole::Main, &names, &mut taken, &path.child("containers"), errors);
    let init = items(spec, "initContainers");
    containers(
        init,
        ContainerRole::Init,
        &names,
        &mut taken,
        &path.child("initContainers"),
        errors,
    );
    if spec["hostNetwork"] == true {
        host_ports(list, &path.child("containers"), errors);
        host_ports(init, &path.child("initContainers"), errors);
    }
    one_of(spec, "restartPolicy", &["Always", "OnFailure", "Never"], path, errors);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(spec, "dnsPolicy", &policies, path, errors);
    labels(&spec["nodeSelector"], &path.child("nodeSelector"), errors);
    security(&spec["securityContext"], &path.child("securityContext"), errors);
    affinity(&spec["affinity"], &path.child("affinity"), errors);
    dns_config(&spec["dnsConfig"], &path.child("dnsConfig"), errors);
    for (index, gate) in items(spec, "readinessGates").iter().enumerate() {
        let condition = text(gate, "conditionType");
        let path = path.child("readinessGates").index(index).child("conditionType");
        violations(&path, condition, names::qualified(condition), errors);
    }
    gates(items(spec, "schedulingGates"), &path.child("schedulingGates"), errors);
    spread(
        items(spec, "topologySpreadConstraints"),
        &path.child("topologySpreadConstraints"),
        errors,
    );
    for (field, check) in [
        ("serviceAccountName", names::subdomain as fn(&str) -> names::Violations),
        ("nodeName", names::subdomain),
    ] {
        named(spec, field, check, path, errors);
    }
    in_range(spec, "activeDeadlineSeconds", 1..=i64::from(i32::MAX), path, errors);
    named(spec, "hostname", names::label, path, errors);
    named(spec, "subdomain", names::label, path, errors);
    tolerations(items(spec, "tolerations"), &path.child("tolerations"), errors);
    host_aliases(items(spec, "hostAliases"), &path.child("hostAliases"), errors);
    named(spec, "priorityClassName", names::subdomain, path, errors);
    one_of(spec, "preemptionPolicy", &["PreemptLowerPriority", "Never"], path, errors);
    if let Some(os) = given(spec, "os") {
        one_of(os, "name", &["linux", "windows"], &path.child("os"), errors);
    }
}

fn named(
    object: &Value,
    field: &str,
    check: fn(&str) -> names::Violations,
    path: &Path,
    errors: &mut Errors,
) {
    let value = text(object, field);
    if !value.is_empty() {
        violations(&path.child(field), value, check(value), errors);
    }
}

fn security(context: &Value, path: &Path, errors: &mut Errors) {
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        in_range(context, field, 0..=i64::from(i32::MAX), path, errors);
    }
    for (index, group) in items(context, "supplementalGroups").iter().enumerate() {
        if group.as_i64().is_some_and(|g| !(0..=i64::from(i32::MAX)).contains(&g)) {
            let detail = "must be between 0 and 2147483647, inclusive";
            errors.push(path.child("supplementalGroups").index(index).invalid(group, detail));
        }
    }
    one_of(context, "fsGroupChangePolicy", &["Always", "OnRootMismatch"], path, errors);
}

fn affinity(affinity: &Value, path: &Path, errors: &mut Errors) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let nodes = &affinity["nodeAffinity"];
    let path_to = path.child("nodeAffinity");
    if let Some(required) = given(nodes, REQUIRED) {
        node_selector(required, &path_to.child(REQUIRED), errors);
    }
    for (index, preferred) in items(nodes, PREFERRED).iter().enumerate() {
        let path = path_to.child(PREFERRED).index(index);
        in_range(preferred, "weight", 1..=100, &path, errors);
        node_term(&preferred["preference"], &path.child("preference"), errors);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let path = path.child(kind);
        for (index, term) in items(&affinity[kind], REQUIRED).iter().enumerate() {
            pod_term(term, &path.child(REQUIRED).index(index), errors);
        }
        for (index, preferred) in items(&affinity[kind], PREFERRED).iter().enumerate() {
            let path = path.child(PREFERRED).index(index);
            in_range(preferred, "weight", 1..=100, &path, errors);
            pod_term(&preferred["podAffinityTerm"], &path.child("podAffinityTerm"), errors);
        }
    }
}

fn pod_term(term: &Value, path: &Path, errors: &mut Errors) {
    label_selector(&term["labelSelector"], &path.child("labelSelector"), errors);
    let key = text(term, "topologyKey");
    let path = path.child("topologyKey");
    if key.is_empty() {
        errors.push(path.required("can not be empty"));
    }
    violations(&path, key, names::qualified(key), errors);
}

fn spread(constraints: &[Value], path: &Path, errors: &mut Errors) {
    for (index, constraint) in constraints.iter().enumerate() {
        let path = path.index(index);
        if constraint["maxSkew"].as_i64().unwrap_or_default() <= 0 {
            errors.push(
                path.child("maxSkew").invalid(&constraint["maxSkew"], "must be greater than zero"),
            );
        }
        match text(constraint, "topologyKey") {
            "" => errors.push(path.child("topologyKey").required("can not be empty")),
            key => violations(&path.child("topologyKey"), key, names::qualified(key), errors),
        }
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        one_of(constraint, "whenUnsatisfiable", &actions, &path, errors);
        label_selector(&constraint["labelSelector"], &path.child("labelSelector"), errors);
    }
}

fn gates(gates: &[Value], path: &Path, errors: &mut Errors) {
    let mut taken = HashSet::new();
    for (index, gate) in gates.iter().enumerate() {
        let name = text(gate, "name");
        violations(&path.index(index), name, names::qualified(name), errors);
        if !taken.insert(name) {
            errors.push(path.index(index).duplicate(&gate["name"]));
        }
    }
}

fn tolerations(tolerations: &[Value], path: &Path, errors: &mut Errors) {
    for (index, toleration) in tolerations.iter().enumerate() {
        let path = path.index(index);
        let key = text(toleration, "key");
        if !key.is_empty() {
            violations(&path.child("key"), key, names::qualified(key), errors);
        }
        let operator = text(toleration, "operator");
        if key.is_empty() && operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(path.child("operator").invalid_text(operator, detail));
        }
        if given(toleration, "tolerationSeconds").is_some()
            && text(toleration, "effect") != "NoExecute"
        {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(path.child("effect").invalid_text(text(toleration, "effect"), detail));
        }
        let value = text(toleration, "value");
        match operator {
            "" | "Equal" => {
                violations(&path.child("operator"), value, names::label_value(value), errors)
            }
            "Exists" if !value.is_empty() => {
                let detail = "value must be empty when `operator` is 'Exists'";
                errors.push(path.child("operator").invalid_text(value, detail));
            }
            "Exists" => {}
            _ => errors.push(path.child("operator").not_supported(operator, &["Equal", "Exists"])),
        }
        one_of(
            toleration,
            "effect",
            &["NoSchedule", "PreferNoSchedule", "NoExecute"],
            &path,
            errors,
        );
    }
}

fn dns_config(config: &Value, path: &Path, errors: &mut Errors) {
    for (index, server) in items(config, "nameservers").iter().enumerate() {
        ip(server, &path.child("nameservers").index(index), errors);
    }
    for (index, domain) in items(config, "searches").iter().filter_map(Value::as_str).enumerate() {
        let plain = domain.trim_end_matches('.');
        violations(
            &path.child("searches").index(index),
            domain,
            names::search_domain(plain),
            errors,
        );
    }
}

fn host_aliases(aliases: &[Value], path: &Path, errors: &mut Errors) {
    for (index, alias) in aliases.iter().enumerate() {
        let path = path.index(index);
        ip(&alias["ip"], &path.child("ip"), errors);
        for (index, name) in items(alias, "hostnames").iter().filter_map(Value::as_str).enumerate()
        {
            violations(&path.child("hostnames").index(index), name, names::subdomain(name), errors);
        }
    }
}

/// Validates an IP address.
pub(super) fn ip(value: &Value, path: &Path, errors: &mut Errors) {
    if value.as_str().is_none_or(|v| v.parse::<IpAddr>().is_err()) {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.push(path.invalid(value, detail));
    }
}

/// Requires host ports to equal container ports on the host network.
fn host_ports(containers: &[Value], path: &Path, errors: &mut Errors) {
    for (index, container) in containers.iter().enumerate() {
        for (place, port) in items(container, "ports").iter().enumerate() {
            let (host, own) = (&port["hostPort"], &port["containerPort"]);
            if host.as_i64().is_some_and(|p| p != 0) && host != own {
                let path = path.index(index).child("ports").index(place).child("hostPort");
                errors.push(
                    path.invalid(host, "must match `containerPort` when `hostNetwork` is true"),
                );
            }
        }
    }
}
