//! Builds the pod of a game server.
//!
//! It is the pod of the template, to the letter, with what makes it a game server's added. It is built as JSON, since a cluster may know fields of
//! pods that we do not.

use std::collections::BTreeMap;

use api::agones::{
    EvictionSafe, GameServer, Health, SDK_VERSION, SDK_VERSION_ANNOTATION, Scheduling,
};
use decide::gameserver::ports::{Port, PortPolicy, Protocol};
use kube::Resource as _;
use serde_json::{Map, Value, json};

use crate::settings::Settings;
use cluster::HOST_PORTS_ANNOTATION;

/// The container of the SDK server.
const SIDECAR: &str = "agones-gameserver-sidecar";
/// Where a pod finds the token of its service account.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
const SAFE_TO_EVICT_LABEL: &str = "agones.dev/safe-to-evict";

/// Builds the pod of `server` with these ports; `found` are the host ports that were found for it.
pub(super) fn build(
    server: &GameServer,
    ports: &[Port],
    found: &[u16],
    settings: &Settings,
) -> Result<Value, String> {
    let mut pod = server.spec.template.0.clone();
    if !pod["spec"].is_object() {
        return Err("spec.template.spec: expected a pod's spec".to_owned());
    }
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    metadata(&mut pod, server, ports, found)?;
    let name = server.metadata.name.as_deref().unwrap_or_default();
    fill(&mut pod["spec"], "hostname", || json!(name.replace('.', "-")));
    fill(&mut pod["spec"], "restartPolicy", || json!("Never"));
    if server.spec.scheduling.unwrap_or_default() == Scheduling::Packed {
        pack(&mut pod["spec"]);
    }
    for port in ports {
        open(&mut pod["spec"], port, &server.spec.container)?;
    }
    game_container(&mut pod["spec"], server)?;
    sdk_ports(&mut pod["spec"], server);
    service_account(&mut pod["spec"], server, settings)?;
    let sidecar = sidecar(server, settings);
    list(&mut pod["spec"], "initContainers").insert(0, sidecar);
    Ok(pod)
}

fn metadata(
    pod: &mut Value,
    server: &GameServer,
    ports: &[Port],
    found: &[u16],
) -> Result<(), String> {
    let template = pod["metadata"].take();
    let meta = &server.metadata;
    let name = meta.name.as_deref().unwrap_or_default();
    let owner = server.controller_owner_ref(&()).ok_or("metadata.uid: expected a stored object")?;
    let mut labels = object(&template["labels"]);
    labels.insert("agones.dev/role".to_owned(), json!("gameserver"));
    labels.insert("agones.dev/gameserver".to_owned(), json!(name));
    let mut annotations = object(&template["annotations"]);
    annotations.insert("agones.dev/container".to_owned(), json!(server.spec.container));
    let version = meta.annotations.as_ref().and_then(|a| a.get(SDK_VERSION_ANNOTATION));
    let version = version.map_or(SDK_VERSION, String::as_str);
    annotations.insert(SDK_VERSION_ANNOTATION.to_owned(), json!(version));
    annotations.insert(HOST_PORTS_ANNOTATION.to_owned(), json!(json!(found).to_string()));
    if let Some(indexes) = passthrough(ports, &server.spec.container) {
        let name = "agones.dev/container-passthrough-port-assignment".to_owned();
        annotations.insert(name, json!(indexes));
    }
    let (annotation, label) = eviction(server);
    annotations.entry(SAFE_TO_EVICT).or_insert(json!(annotation));
    labels.entry(SAFE_TO_EVICT_LABEL).or_insert(json!(label));
    pod["metadata"] = json!({
        "name": name,
        "namespace": meta.namespace,
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [owner],
    });
    if template["finalizers"].is_array() {
        pod["metadata"]["finalizers"] = template["finalizers"].clone();
    }
    Ok(())
}

/// Returns the annotation and the label that tell autoscalers and drains whether the pod may be evicted.
fn eviction(server: &GameServer) -> (&'static str, &'static str) {
    let status = server.status.as_ref().and_then(|status| status.eviction.as_ref());
    let safe = status.or(server.spec.eviction.as_ref()).and_then(|eviction| eviction.safe);
    match safe.unwrap_or(EvictionSafe::Never) {
        EvictionSafe::Always => ("true", "true"),
        EvictionSafe::OnUpgrade => ("false", "true"),
        EvictionSafe::Never => ("false", "false"),
    }
}

/// Returns the indexes of the passthrough ports of each container, as JSON.
fn passthrough(ports: &[Port], game: &str) -> Option<String> {
    let mut indexes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for port in ports {
        let container = port.container.as_deref().filter(|c| !c.is_empty()).unwrap_or(game);
        let index = counts.entry(container).or_default();
        if port.policy == PortPolicy::Passthrough {
            indexes.entry(container).or_default().push(*index);
        }
        *index += 1;
    }
    (!indexes.is_empty()).then(|| json!(indexes).to_string())
}

/// Prefers nodes that have game servers already.
fn pack(spec: &mut Value) {
    let affinity = entry(spec, "affinity");
    let terms =
        list(entry(affinity, "podAffinity"), "preferredDuringSchedulingIgnoredDuringExecution");
    terms.push(json!({
        "weight": 100,
        "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"agones.dev/role": "gameserver"}},
        },
    }));
}

/// Opens a port of a container.
fn open(spec: &mut Value, port: &Port, game: &str) -> Result<(), String> {
    let name = port.container.as_deref().filter(|c| !c.is_empty()).unwrap_or(game);
    let container = container(spec, name)
        .ok_or_else(|| format!("spec.ports: there is no container `{name}`"))?;
    let mut opened = json!({
        "containerPort": port.container_port,
        "protocol": match port.protocol {
            Protocol::Udp => "UDP",
            Protocol::Tcp | Protocol::TcpUdp => "TCP",
        },
    });
    if port.policy != PortPolicy::None {
        opened["hostPort"] = json!(port.host_port);
    }
    list(container, "ports").push(opened);
    Ok(())
}

/// Asks the process of the game whether it is well, by way of its SDK server.
fn game_container(spec: &mut Value, server: &GameServer) -> Result<(), String> {
    let name = &server.spec.container;
    let container = container(spec, name)
        .ok_or_else(|| format!("spec.container: there is no container `{name}`"))?;
    let Health { disabled, period_seconds, failure_threshold, initial_delay_seconds } =
        &server.spec.health;
    if !*disabled {
        fill(container, "livenessProbe", || {
            json!({
                "httpGet": {"path": "/gshealthz", "port": 8080},
                "initialDelaySeconds": initial_delay_seconds,
                "periodSeconds": period_seconds,
                "failureThreshold": failure_threshold,
            })
        });
    }
    Ok(())
}

/// Sets the ports of the SDK server in the environment of every container.
fn sdk_ports(spec: &mut Value, server: &GameServer) {
    let sdk = &server.spec.sdk_server;
    let ports = [("AGONES_SDK_GRPC_PORT", sdk.grpc_port), ("AGONES_SDK_HTTP_PORT", sdk.http_port)];
    for kind in ["initContainers", "containers"] {
        for container in spec[kind].as_array_mut().into_iter().flatten() {
            let env = list(container, "env");
            env.retain(|var| !ports.iter().any(|(name, _)| var["name"] == *name));
            env.extend(ports.map(|(name, port)| json!({"name": name, "value": port.to_string()})));
        }
    }
}

/// Sets the service account of SDK servers where the pod names none, and hides its token from the game.
fn service_account(
    spec: &mut Value,
    server: &GameServer,
    settings: &Settings,
) -> Result<(), String> {
    if spec["serviceAccountName"].as_str().is_some_and(|name| !name.is_empty()) {
        return Ok(());
    }
    spec["serviceAccountName"] = json!(settings.sidecar.service_account);
    list(spec, "volumes").push(json!({"name": "empty", "emptyDir": {}}));
    let name = &server.spec.container;
    let container = container(spec, name)
        .ok_or_else(|| format!("spec.container: there is no container `{name}`"))?;
    list(container, "volumeMounts").push(json!({"name": "empty", "mountPath": TOKEN_PATH}));
    Ok(())
}

/// Describes the SDK server.
fn sidecar(server: &GameServer, settings: &Settings) -> Value {
    let sdk = &server.spec.sdk_server;
    let mut args = settings.sidecar.args.clone();
    args.push(format!("--grpc-port={}", sdk.grpc_port));
    args.push(format!("--http-port={}", sdk.http_port));
    let level = sdk.log_level.map_or("Info".to_owned(), |level| format!("{level:?}"));
    let mut sidecar = json!({
        "name": SIDECAR,
        "image": settings.sidecar.image,
        "args": args,
        "restartPolicy": "Always",
        "env": [
            {"name": "GAMESERVER_NAME", "value": server.metadata.name},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "FEATURE_GATES", "value": settings.gates.to_string()},
            {"name": "LOG_LEVEL", "value": level},
            {"name": "REQUESTS_RATE_LIMIT", "value": settings.sidecar.requests_rate_limit},
        ],
        // It has no liveness probe. A kubelet stops those of a pod that is deleted, but not of one whose game has ended by itself: there
        // it goes on while it stops the SDK server, and warns of the connection that is refused. A process that ends is restarted
        // anyway, and one that hangs fails the liveness probe of the game, which it answers.
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "runAsNonRoot": true,
            "runAsUser": 1000,
        },
    });
    if !settings.sidecar.resources.is_null() {
        sidecar["resources"] = settings.sidecar.resources.clone();
    }
    sidecar
}

/// Finds a container, or an init container that runs beside the others.
fn container<'a>(spec: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    let Value::Object(spec) = spec else { return None };
    let lists = spec.iter_mut().filter(|(key, _)| *key == "containers" || *key == "initContainers");
    let all = lists.filter_map(|(_, list)| list.as_array_mut()).flatten();
    let mut all = all.filter(|container| container["name"] == *name);
    all.next()
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// Returns the object below `key`, created if missing.
fn entry<'a>(parent: &'a mut Value, key: &str) -> &'a mut Value {
    if !parent[key].is_object() {
        parent[key] = json!({});
    }
    &mut parent[key]
}

/// Returns the list below `key`, created if missing.
fn list<'a>(parent: &'a mut Value, key: &str) -> &'a mut Vec<Value> {
    if !parent[key].is_array() {
        parent[key] = json!([]);
    }
    parent[key].as_array_mut().expect("it is an array here")
}

/// Writes what was left out.
fn fill(parent: &mut Value, key: &str, value: impl FnOnce() -> Value) {
    let is_missing = match &parent[key] {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => false,
    };
    if is_missing {
        parent[key] = value();
    }
}

#[cfg(test)]
mod tests;
