//! Validates containers.

use std::collections::HashSet;

use serde_json::Value;

use super::meta::violations;
use super::numbers::{in_range, not_negative, one_of, quantity, required};
use super::{Errors, names};
use crate::builtin::field::Path;
use crate::builtin::{given, items, text};

/// The list that a container is in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ContainerRole {
    Main,
    Init,
}

/// Validates the containers of one list. `volumes` are the names that can be mounted, `taken` the container names in use.
pub(super) fn containers<'v>(
    list: &'v [Value],
    role: ContainerRole,
    volumes: &HashSet<&str>,
    taken: &mut HashSet<&'v str>,
    path: &Path,
    errors: &mut Errors,
) {
    for (index, container) in list.iter().enumerate() {
        let path = path.index(index);
        let name = text(container, "name");
        match name {
            "" => errors.push(path.child("name").required("")),
            _ => violations(&path.child("name"), name, names::label(name), errors),
        }
        if !taken.insert(name) && !name.is_empty() {
            errors.push(path.child("name").duplicate(&container["name"]));
        }
    }
    for (index, container) in list.iter().enumerate() {
        let path = path.index(index);
        image(container, &path, errors);
        one(container, role, volumes, &path, errors);
    }
}

fn image(container: &Value, path: &Path, errors: &mut Errors) {
    let image = text(container, "image");
    if image.is_empty() {
        errors.push(path.child("image").required(""));
    } else if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        errors.push(path.child("image").invalid_text(image, detail));
    }
}

fn one(
    container: &Value,
    role: ContainerRole,
    volumes: &HashSet<&str>,
    path: &Path,
    errors: &mut Errors,
) {
    let is_sidecar = text(container, "restartPolicy") == "Always";
    if !text(container, "restartPolicy").is_empty() {
        one_of(container, "restartPolicy", &["Always", "Never", "OnFailure"], path, errors);
    }
    if let Some(lifecycle) = given(container, "lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(handler) = given(lifecycle, hook) {
                check_handler(
                    handler,
                    &["exec", "httpGet", "tcpSocket", "sleep"],
                    &path.child("lifecycle").child(hook),
                    errors,
                );
            }
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(found) = given(container, name) else { continue };
        if role == ContainerRole::Init && !is_sidecar {
            let detail = "may not be set for init containers without restartPolicy=Always";
            errors.push(path.child(name).forbidden(detail));
        } else {
            probe(found, name != "readinessProbe", &path.child(name), errors);
        }
    }
    one_of(container, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], path, errors);
    ports(items(container, "ports"), &path.child("ports"), errors);
    environment(items(container, "env"), &path.child("env"), errors);
    mounts(items(container, "volumeMounts"), volumes, &path.child("volumeMounts"), errors);
    one_of(container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], path, errors);
    resources(&container["resources"], &path.child("resources"), errors);
    security(&container["securityContext"], &path.child("securityContext"), errors);
}

fn security(context: &Value, path: &Path, errors: &mut Errors) {
    for field in ["runAsUser", "runAsGroup"] {
        in_range(context, field, 0..=i64::from(i32::MAX), path, errors);
    }
    if context["allowPrivilegeEscalation"] == Value::Bool(false) {
        if context["privileged"] == Value::Bool(true) {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.push(path.invalid(context, detail));
        } else if items(&context["capabilities"], "add").iter().any(|c| c == "CAP_SYS_ADMIN") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(path.invalid(context, detail));
        }
    }
}

fn probe(probe: &Value, must_succeed_once: bool, path: &Path, errors: &mut Errors) {
    check_handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], path, errors);
    for field in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        not_negative(probe, field, path, errors);
    }
    if must_succeed_once && probe["successThreshold"].as_i64().is_some_and(|n| n != 1) {
        errors
            .push(path.child("successThreshold").invalid(&probe["successThreshold"], "must be 1"));
    }
    if probe["terminationGracePeriodSeconds"].as_i64().is_some_and(|n| n <= 0) {
        let value = &probe["terminationGracePeriodSeconds"];
        errors.push(
            path.child("terminationGracePeriodSeconds").invalid(value, "must be greater than 0"),
        );
    }
}

fn check_handler(holder: &Value, kinds: &[&str], path: &Path, errors: &mut Errors) {
    let mut found = 0;
    for kind in kinds {
        let Some(handler) = given(holder, kind) else { continue };
        let path = path.child(kind);
        found += 1;
        if found > 1 {
            errors.push(path.forbidden("may not specify more than 1 handler type"));
            continue;
        }
        match *kind {
            "exec" if items(handler, "command").is_empty() => {
                errors.push(path.child("command").required(""));
            }
            "httpGet" => {
                required(handler, "path", &path, errors);
                port(handler, "port", &path, errors);
                one_of(handler, "scheme", &["HTTP", "HTTPS"], &path, errors);
                for (index, header) in items(handler, "httpHeaders").iter().enumerate() {
                    let name = text(header, "name");
                    let path = path.child("httpHeaders").index(index).child("name");
                    violations(&path, name, names::http_header(name), errors);
                }
            }
            "tcpSocket" | "grpc" => port(handler, "port", &path, errors),
            _ => {}
        }
    }
    if found == 0 {
        errors.push(path.required("must specify a handler type"));
    }
}

/// Validates a port that is a number or a name.
pub(super) fn port(object: &Value, field: &str, path: &Path, errors: &mut Errors) {
    if let Some(name) = object[field].as_str() {
        return violations(&path.child(field), name, names::port_name(name), errors);
    }
    let number = object[field].as_i64().unwrap_or_default();
    for violation in names::port_number(number) {
        errors.push(path.child(field).invalid(&Value::from(number), violation));
    }
}

fn ports(ports: &[Value], path: &Path, errors: &mut Errors) {
    let mut taken = HashSet::new();
    for (index, entry) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(entry, "name");
        if !name.is_empty() {
            let found = names::port_name(name);
            if found.is_empty() && !taken.insert(name) {
                errors.push(path.child("name").duplicate(&entry["name"]));
            }
            violations(&path.child("name"), name, found, errors);
        }
        match entry["containerPort"].as_i64().unwrap_or_default() {
            0 => errors.push(path.child("containerPort").required("")),
            _ => port(entry, "containerPort", &path, errors),
        }
        if entry["hostPort"].as_i64().is_some_and(|p| p != 0) {
            port(entry, "hostPort", &path, errors);
        }
        match text(entry, "protocol") {
            "" => errors.push(path.child("protocol").required("")),
            _ => one_of(entry, "protocol", &["SCTP", "TCP", "UDP"], &path, errors),
        }
    }
}

fn environment(variables: &[Value], path: &Path, errors: &mut Errors) {
    for (index, variable) in variables.iter().enumerate() {
        let path = path.index(index);
        match text(variable, "name") {
            "" => errors.push(path.child("name").required("")),
            name => {
                violations(&path.child("name"), name, names::environment_variable(name), errors)
            }
        }
        if let Some(from) = given(variable, "valueFrom") {
            variable_source(variable, from, &path.child("valueFrom"), errors);
        }
    }
}

fn variable_source(variable: &Value, from: &Value, path: &Path, errors: &mut Errors) {
    let mut sources = 0;
    if let Some(field) = given(from, "fieldRef") {
        sources += 1;
        field_ref(field, &path.child("fieldRef"), errors);
    }
    if let Some(resource) = given(from, "resourceFieldRef") {
        sources += 1;
        required(resource, "resource", &path.child("resourceFieldRef"), errors);
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(reference) = given(from, kind) {
            sources += 1;
            let path = path.child(kind);
            let name = text(reference, "name");
            violations(&path.child("name"), name, names::subdomain(name), errors);
            match text(reference, "key") {
                "" => errors.push(path.child("key").required("")),
                key => violations(&path.child("key"), key, names::config_key(key), errors),
            }
        }
    }
    if given(from, "fileKeyRef").is_some() {
        sources += 1;
    }
    if sources == 0 {
        let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        errors.push(path.invalid_text("", detail));
    } else if given(variable, "value").is_some() {
        errors.push(path.invalid_text("", "may not be specified when `value` is not empty"));
    } else if sources > 1 {
        errors.push(path.invalid_text("", "may not have more than one field specified at a time"));
    }
}

/// Validates a reference to a field of the pod.
fn field_ref(field: &Value, path: &Path, errors: &mut Errors) {
    const KNOWN: &[&str] = &[
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.labels",
        "metadata.annotations",
        "spec.nodeName",
        "spec.serviceAccountName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.hostNetwork",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
        "status.phase",
        "status.nominatedNodeName",
    ];
    let name = text(field, "fieldPath");
    let path = path.child("fieldPath");
    let is_map_entry =
        ["metadata.annotations['", "metadata.labels['"].iter().any(|p| name.starts_with(p));
    if name.is_empty() {
        errors.push(path.required(""));
    } else if !KNOWN.contains(&name) && !is_map_entry {
        let detail = format!("error converting fieldPath: field label not supported: {name}");
        errors.push(path.invalid_text(name, detail));
    }
}

fn mounts(mounts: &[Value], volumes: &HashSet<&str>, path: &Path, errors: &mut Errors) {
    let mut taken = HashSet::new();
    for (index, mount) in mounts.iter().enumerate() {
        let step = path.index(index);
        required(mount, "name", &step, errors);
        if !volumes.contains(text(mount, "name")) {
            errors.push(step.child("name").not_found(&mount["name"]));
        }
        let place = text(mount, "mountPath");
        if place.is_empty() {
            errors.push(step.child("mountPath").required(""));
        }
        if !taken.insert(place) {
            errors.push(step.child("mountPath").invalid_text(place, "must be unique"));
        }
        let sub_path = text(mount, "subPath");
        if sub_path.starts_with('/') {
            errors.push(path.child("subPath").invalid_text(sub_path, "must be a relative path"));
        }
        if sub_path.split('/').any(|part| part == "..") {
            errors.push(path.child("subPath").invalid_text(sub_path, "must not contain '..'"));
        }
    }
}

/// Validates requests and limits.
pub(super) fn resources(resources: &Value, path: &Path, errors: &mut Errors) {
    let (limits, requests) = (&resources["limits"], &resources["requests"]);
    for (name, amount) in limits.as_object().into_iter().flatten() {
        amount_of(name, amount, &path.child("limits").key(name), errors);
    }
    for (name, amount) in requests.as_object().into_iter().flatten() {
        amount_of(name, amount, &path.child("requests").key(name), errors);
        let may_overcommit = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage");
        match (quantity(amount), limits.get(name)) {
            (Some(request), Some(limit)) => {
                let Some(most) = quantity(limit) else { continue };
                let limit = limit.as_str().unwrap_or_default();
                if may_overcommit && request > most {
                    let detail = format!("must be less than or equal to {name} limit of {limit}");
                    errors.push(path.child("requests").invalid(amount, detail));
                } else if !may_overcommit && is_fully_qualified(name) && request != most {
                    let detail = format!("must be equal to {name} limit of {limit}");
                    errors.push(path.child("requests").invalid(amount, detail));
                }
            }
            (_, None) if !may_overcommit && is_fully_qualified(name) => {
                let detail = "Limit must be set for non overcommitable resources";
                errors.push(path.child("limits").required(detail));
            }
            _ => {}
        }
    }
}

fn is_fully_qualified(name: &str) -> bool {
    name.contains('/') || name.starts_with("hugepages-")
}

fn amount_of(name: &str, amount: &Value, path: &Path, errors: &mut Errors) {
    violations(path, name, names::qualified(name), errors);
    let is_standard =
        matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !is_standard && !name.contains('/') {
        let known = matches!(name, "storage" | "pods" | "services" | "secrets" | "configmaps");
        if !known {
            errors.push(
                path.invalid_text(name, "must be a standard resource type or fully qualified"),
            );
        }
        errors.push(path.invalid_text(name, "must be a standard resource for containers"));
    }
    let Some(found) = quantity(amount) else { return };
    if found.is_negative() {
        errors.push(path.invalid(amount, "must be greater than or equal to 0"));
    }
    if name.contains('/') && !found.is_whole() {
        errors.push(path.invalid(amount, "must be an integer"));
    }
}
