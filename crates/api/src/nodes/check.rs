//! Validation of Kubernetes objects that did not come from an API server.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::Value;

use super::readable;
use crate::{Problem, decode};

/// Checks an object of a kind that decisions about nodes read; every other passes.
pub fn check(value: &Value) -> Result<(), Vec<Problem>> {
    readable::check(value)?;
    let mut problems = Vec::new();
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    match (text("apiVersion"), text("kind")) {
        ("v1", "Node") => node(&decode::lenient(value)?, &mut problems),
        ("v1", "Pod") => {
            let pod: core::Pod = decode::lenient(value)?;
            pod.spec.iter().for_each(|spec| pod_spec("spec", spec, &mut problems));
        }
        ("apps/v1", "DaemonSet") => {
            let spec = decode::lenient::<Option<core::PodSpec>>(&value["spec"]["template"]["spec"]);
            let spec = spec.map_err(|p| crate::prefixed("spec.template.spec", p))?;
            spec.iter().for_each(|spec| pod_spec("spec.template.spec", spec, &mut problems));
        }
        _ => {}
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn node(node: &core::Node, problems: &mut Vec<Problem>) {
    if let Some(status) = &node.status {
        quantities("status.capacity", status.capacity.as_ref(), problems);
        quantities("status.allocatable", status.allocatable.as_ref(), problems);
    }
}

fn pod_spec(path: &str, spec: &core::PodSpec, problems: &mut Vec<Problem>) {
    let lists = [
        ("containers", spec.containers.as_slice()),
        ("initContainers", spec.init_containers.as_deref().unwrap_or_default()),
    ];
    for (field, containers) in lists {
        for (index, container) in containers.iter().enumerate() {
            let path = format!("{path}.{field}[{index}].resources");
            resources(&path, container.resources.as_ref(), problems);
        }
    }
    resources(&format!("{path}.resources"), spec.resources.as_ref(), problems);
    quantities(&format!("{path}.overhead"), spec.overhead.as_ref(), problems);
}

fn resources(
    path: &str,
    resources: Option<&core::ResourceRequirements>,
    problems: &mut Vec<Problem>,
) {
    let Some(resources) = resources else { return };
    quantities(&format!("{path}.requests"), resources.requests.as_ref(), problems);
    quantities(&format!("{path}.limits"), resources.limits.as_ref(), problems);
}

fn quantities(path: &str, all: Option<&BTreeMap<String, Quantity>>, problems: &mut Vec<Problem>) {
    for (name, quantity) in all.into_iter().flatten() {
        let problem = match crate::quantity::Quantity::parse_with_hint(&quantity.0) {
            Ok(amount) if !amount.is_negative() => continue,
            Ok(_) => "must not be negative".to_owned(),
            Err(message) => message,
        };
        problems.push(Problem::new(format!("{path}.{name}"), problem));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_that_no_api_server_would_take_is_refused_by_its_field() {
        let container =
            |requests: Value| json!([{"name": "c", "resources": {"requests": requests}}]);
        for (api_version, kind, body, wanted) in [
            ("v1", "Pod", json!({"spec": {"containers": 1}}), "spec.containers: invalid type"),
            (
                "v1",
                "Pod",
                json!({"spec": {"containers": container(json!({"cpu": "lots"}))}}),
                "spec.containers[0].resources.requests.cpu: `lots`",
            ),
            (
                "v1",
                "Pod",
                json!({"spec": {"containers": container(json!({"cpu": "-1"}))}}),
                "spec.containers[0].resources.requests.cpu: must not be negative",
            ),
            (
                "v1",
                "Node",
                json!({"status": {"capacity": {"memory": "x"}}}),
                "status.capacity.memory: `x`",
            ),
            (
                "v1",
                "Node",
                json!({"metadata": {"name": "n", "creationTimestamp": "yesterday"}}),
                "metadata.creationTimestamp: ",
            ),
            (
                "apps/v1",
                "DaemonSet",
                json!({"spec": {"selector": {}, "template": {"spec":
                       {"containers": container(json!({"cpu": "x"}))}}}}),
                "spec.template.spec.containers[0].resources.requests.cpu: `x`",
            ),
            ("v1", "Pod", json!({"metadata": {}}), "metadata.name: required"),
        ] {
            let mut value =
                json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
            value.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
            let found = check(&value).unwrap_err()[0].to_string();
            assert!(found.starts_with(wanted), "{found}");
        }
        assert!(check(&json!({"apiVersion": "v1", "kind": "ConfigMap"})).is_ok());
    }
}
