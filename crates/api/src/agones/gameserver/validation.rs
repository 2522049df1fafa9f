//! What a game server may not be: the rules that a schema cannot say.

use std::net::IpAddr;

use serde_json::Value;

use super::{GameServerPort, GameServerSpec, PortPolicy};
use crate::quantity::Quantity;
use crate::{Problem, labels, prefixed};

/// Collects what is wrong with a game server's spec at `path`, after its defaults are in. `dev_address` is where a
/// game server in development runs; empty for all others.
pub(crate) fn problems(spec: &GameServerSpec, dev_address: &str, path: &str) -> Vec<Problem> {
    let mut out = Vec::new();
    if spec.players.is_some() {
        let message = "player tracking is not available; keep players in a list";
        out.push(Problem::new(format!("{path}.players"), message));
    }
    if dev_address.is_empty() {
        out.extend(container(spec, path));
        let ports = spec.ports.iter().enumerate();
        out.extend(ports.flat_map(|(i, p)| port(spec, p, &format!("{path}.ports[{i}]"))));
        out.extend(resources(spec, &format!("{path}.template.spec")));
    } else {
        out.extend(development(spec, dev_address, path));
    }
    out.extend(pod(spec, &format!("{path}.template")));
    out
}

fn development(spec: &GameServerSpec, address: &str, path: &str) -> Vec<Problem> {
    let mut out = Vec::new();
    if address.parse::<IpAddr>().is_err() {
        let at = "metadata.annotations[agones.dev/dev-address]";
        out.push(Problem::new(at, format!("`{address}` is not an IP address")));
    }
    for (index, port) in spec.ports.iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        if port.host_port == 0 {
            out.push(Problem::new(
                format!("{path}.hostPort"),
                "required with a development address",
            ));
        }
        if port.policy() != PortPolicy::Static {
            let message = "expected Static with a development address";
            out.push(Problem::new(format!("{path}.portPolicy"), message));
        }
    }
    out
}

fn container(spec: &GameServerSpec, path: &str) -> Option<Problem> {
    let count = spec.template.container_names().count();
    let message = if spec.container.is_empty() && count > 1 {
        "required: which of the pod's containers is the game server".to_owned()
    } else if spec.template.container_names().all(|name| name != spec.container) {
        format!("`{}` is not a container of the pod template", spec.container)
    } else {
        return None;
    };
    Some(Problem::new(format!("{path}.container"), message))
}

fn port(spec: &GameServerSpec, port: &GameServerPort, path: &str) -> Vec<Problem> {
    let mut out = Vec::new();
    let policy = port.policy();
    let mut wrong = |field: &str, message: String| {
        out.push(Problem::new(format!("{path}.{field}"), message));
    };
    let takes_range = matches!(policy, PortPolicy::Dynamic | PortPolicy::Passthrough);
    if takes_range && port.host_port > 0 {
        wrong("hostPort", format!("not allowed with the port policy {policy:?}"));
    }
    match policy {
        PortPolicy::Dynamic | PortPolicy::Static if port.container_port <= 0 => {
            wrong("containerPort", format!("required with the port policy {policy:?}"));
        }
        PortPolicy::Passthrough if port.container_port > 0 => {
            wrong("containerPort", "not allowed with the port policy Passthrough".to_owned());
        }
        PortPolicy::Dynamic | PortPolicy::Static | PortPolicy::Passthrough | PortPolicy::None => {}
    }
    let name = port.container.as_deref().unwrap_or_default();
    if !spec.container.is_empty() && !name.is_empty() && !can_listen(spec, name) {
        wrong(
            "container",
            format!("`{name}` is neither a container nor a sidecar of the pod template"),
        );
    }
    out
}

/// Whether the pod has a container of that name that runs beside the game server, or is it.
fn can_listen(spec: &GameServerSpec, name: &str) -> bool {
    let is_sidecar = |c: &&Value| c["restartPolicy"] == "Always";
    spec.template.container_names().any(|n| n == name)
        || spec.template.containers("initContainers").filter(is_sidecar).any(|c| c["name"] == name)
}

/// Checks that no container asks for less than nothing, or for more than its limit.
fn resources(spec: &GameServerSpec, path: &str) -> Vec<Problem> {
    let mut out = Vec::new();
    for list in ["containers", "initContainers"] {
        for (index, container) in spec.template.containers(list).enumerate() {
            let path = format!("{path}.{list}[{index}].resources");
            let (requests, mut faults) = amounts(container, "requests", &path);
            let (limits, more) = amounts(container, "limits", &path);
            faults.extend(more);
            let over = requests.iter().filter(|(name, request)| {
                limits.iter().any(|(other, limit)| name == other && request > limit)
            });
            faults.extend(over.map(|(name, _)| {
                Problem::new(format!("{path}.requests[{name}]"), "expected at most the limit")
            }));
            out.extend(faults);
        }
    }
    out
}

type Amounts<'a> = Vec<(&'a str, Quantity)>;

fn amounts<'a>(container: &'a Value, kind: &str, path: &str) -> (Amounts<'a>, Vec<Problem>) {
    let mut found = Vec::new();
    let mut faults = Vec::new();
    for (name, value) in container["resources"][kind].as_object().into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let at = || format!("{path}.{kind}[{name}]");
        match Quantity::parse(&text) {
            Ok(quantity) if quantity.is_negative() => {
                faults.push(Problem::new(at(), format!("expected at least 0, found {text}")));
            }
            Ok(quantity) => found.push((name.as_str(), quantity)),
            Err(message) => faults.push(Problem::new(at(), message)),
        }
    }
    (found, faults)
}

/// Checks that the pod template is one, and that its labels and annotations are.
fn pod(spec: &GameServerSpec, path: &str) -> Vec<Problem> {
    match spec.template.read() {
        Err(problems) => prefixed(path, problems),
        Ok(template) => template
            .metadata
            .map(|m| labels::metadata(&m, &format!("{path}.metadata")))
            .unwrap_or_default(),
    }
}
