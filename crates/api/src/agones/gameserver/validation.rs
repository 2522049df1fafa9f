//! Validation of game servers, beyond what a schema expresses.

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
        out.push(Problem::forbidden(format!("{path}.players"), message));
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
        let at = "metadata.annotations.agones.dev/dev-address";
        out.push(Problem::new(at, format!("`{address}` is not an IP address")));
    }
    for (index, port) in spec.ports.iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        if port.host_port == 0 {
            let message = "must be given with a development address";
            out.push(Problem::required(format!("{path}.hostPort"), message));
        }
        if port.policy() != PortPolicy::Static {
            let message = "must be Static with a development address";
            out.push(Problem::required(format!("{path}.portPolicy"), message));
        }
    }
    out
}

/// Checks which container is the game server. Where none of several is named, upstream finds two faults, and so do we.
fn container(spec: &GameServerSpec, path: &str) -> Vec<Problem> {
    let mut out = Vec::new();
    let path = format!("{path}.container");
    if spec.container.is_empty() && spec.template.container_names().count() > 1 {
        let message = "must name the pod's container that is the game server";
        out.push(Problem::required(&path, message));
    }
    if spec.template.container_names().all(|name| name != spec.container) {
        let message = format!("`{}` is not a container of the pod template", spec.container);
        out.push(Problem::new(path, message));
    }
    out
}

fn port(spec: &GameServerSpec, port: &GameServerPort, path: &str) -> Vec<Problem> {
    let mut out = Vec::new();
    let policy = port.policy();
    match policy {
        PortPolicy::Dynamic | PortPolicy::Static if port.container_port <= 0 => {
            let message = format!("must be given with the port policy {policy:?}");
            out.push(Problem::required(format!("{path}.containerPort"), message));
        }
        // Upstream calls this required, too, though it means the opposite.
        PortPolicy::Passthrough if port.container_port > 0 => {
            let message = "must be left out with the port policy Passthrough";
            out.push(Problem::required(format!("{path}.containerPort"), message));
        }
        PortPolicy::Dynamic | PortPolicy::Static | PortPolicy::Passthrough | PortPolicy::None => {}
    }
    let takes_range = matches!(policy, PortPolicy::Dynamic | PortPolicy::Passthrough);
    if takes_range && port.host_port > 0 {
        let message = format!("not allowed with the port policy {policy:?}");
        out.push(Problem::forbidden(format!("{path}.hostPort"), message));
    }
    let name = port.container.as_deref().unwrap_or_default();
    if !spec.container.is_empty() && !name.is_empty() && !can_listen(spec, name) {
        let message = format!("`{name}` is neither a container nor a sidecar of the pod template");
        out.push(Problem::new(format!("{path}.container"), message));
    }
    out
}

/// Whether the pod has a container of that name that runs beside the game server, or is it.
fn can_listen(spec: &GameServerSpec, name: &str) -> bool {
    let is_sidecar = |c: &&Value| c["restartPolicy"] == "Always";
    spec.template.container_names().any(|n| n == name)
        || spec.template.containers("initContainers").filter(is_sidecar).any(|c| c["name"] == name)
}

/// Checks that no container has a negative request, or one above its limit.
fn resources(spec: &GameServerSpec, path: &str) -> Vec<Problem> {
    let mut out = Vec::new();
    for list in ["initContainers", "containers"] {
        for (index, container) in spec.template.containers(list).enumerate() {
            let path = format!("{path}.{list}[{index}].resources");
            let (limits, faults) = amounts(container, "limits", &path);
            out.extend(faults);
            let (requests, faults) = amounts(container, "requests", &path);
            out.extend(faults);
            let over = requests.iter().filter_map(|(name, request)| {
                let (_, limit) = limits.iter().find(|(other, _)| name == other)?;
                (request > limit).then(|| format!("{name}: expected at most the limit"))
            });
            out.extend(over.map(|message| Problem::new(format!("{path}.requests"), message)));
        }
    }
    out
}

/// The amounts of each resource that could be read, negative ones among them.
type Amounts<'a> = Vec<(&'a str, Quantity)>;

fn amounts<'a>(container: &'a Value, kind: &str, path: &str) -> (Amounts<'a>, Vec<Problem>) {
    let mut found = Vec::new();
    let mut faults = Vec::new();
    for (name, value) in container["resources"][kind].as_object().into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let at = || format!("{path}.{kind}[{name}]");
        match Quantity::parse_with_hint(&text) {
            Ok(quantity) => {
                if quantity.is_negative() {
                    faults.push(Problem::new(at(), format!("expected at least 0, found {text}")));
                }
                found.push((name.as_str(), quantity));
            }
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
