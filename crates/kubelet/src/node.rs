//! Our nodes: their registration, capacity and status.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::Key;
use cluster::error::status_code;
use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::client::COMPONENT;
use crate::kubelet::Machine;
use crate::retry::Written;
use crate::status::time;

/// The label of nodes on which nothing really runs.
pub const SIMULATED_LABEL: &str = "plimsoll.dev/simulated";

/// How often the status of this machine's node is written. Its Lease is renewed far more often.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(300);

/// How many nodes are registered at the same time.
const IN_FLIGHT: usize = 256;

/// A taint that a cluster gives to nodes that have not reported yet.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// The capacity of a node.
#[derive(Clone, Debug)]
pub struct Capacity {
    /// In thousandths of a core.
    pub cpu_millis: u64,
    /// In bytes.
    pub memory_bytes: u64,
    /// The most pods.
    pub pods: u32,
}

/// A node as it is registered.
struct Registration<'a> {
    name: String,
    address: String,
    capacity: Capacity,
    labels: Option<&'a BTreeMap<String, String>>,
    taints: &'a [Taint],
    is_simulated: bool,
    /// The port of the HTTP API.
    port: Option<u16>,
}

/// Registers every node of ours, and deletes simulated nodes of an earlier start that are too many.
pub(crate) async fn register_all(machine: &Machine) {
    register_local(machine).await;
    let simulated = &machine.simulated;
    let registering = (1..=simulated.count).map(|number| async move {
        let registration = Registration {
            name: simulated_name(number),
            address: simulated_address(number),
            capacity: simulated.capacity.clone(),
            labels: None,
            taints: &[],
            is_simulated: true,
            port: None,
        };
        register(machine, &registration).await;
    });
    futures::stream::iter(registering).buffer_unordered(IN_FLIGHT).for_each(|()| async {}).await;
    if machine.watches_all {
        remove_extra(machine).await;
    }
}

/// Registers the node of this machine, or writes its status again.
pub(crate) async fn register_local(machine: &Machine) {
    let Some(local) = &machine.local else { return };
    let registration = Registration {
        name: local.node.clone(),
        address: local.address.to_string(),
        capacity: local.capacity.clone().unwrap_or_else(this_machine),
        labels: Some(&local.labels),
        taints: &local.taints,
        is_simulated: false,
        port: machine.port,
    };
    register(machine, &registration).await;
}

async fn register(machine: &Machine, registration: &Registration<'_>) {
    let key = Key::new("", registration.name.as_str());
    let attempt = || try_register(machine, registration);
    let _ = machine.retry.until_written("register a node", &key, attempt).await;
}

/// Creates the node if there is none, and reports that it is ready.
async fn try_register(machine: &Machine, registration: &Registration<'_>) -> kube::Result<Written> {
    let api: Api<Node> = Api::all(machine.context.client.clone());
    let name = registration.name.as_str();
    let node = match api.get_opt(name).await? {
        Some(node) => node,
        None => {
            let params =
                PostParams { field_manager: Some(COMPONENT.to_owned()), ..Default::default() };
            match api.create(&params, &registration.object()?).await {
                // Another registration came first.
                Err(error) if status_code(&error) == Some(409) => api.get(name).await?,
                created => created?,
            }
        }
    };
    let status = registration.status(&node, machine.context.clock.now());
    let patch = json!({"status": status});
    let params = PatchParams { field_manager: Some(COMPONENT.to_owned()), ..Default::default() };
    let patched = api.patch_status(name, &params, &Patch::Strategic(patch)).await?;
    let taints = patched.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    if let Some(taints) = taints.filter(|taints| taints.iter().any(|t| t.key == NOT_READY)) {
        let left: Vec<&Taint> = taints.iter().filter(|taint| taint.key != NOT_READY).collect();
        // Another client may change the taints meanwhile; then all of this is done again.
        let version = patched.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": left}});
        api.patch(name, &params, &Patch::Merge(patch)).await?;
    }
    Ok(Written::Done)
}

impl Registration<'_> {
    fn object(&self) -> kube::Result<Node> {
        let mut labels = json!({
            "kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": arch(),
        });
        for (name, value) in self.labels.into_iter().flatten() {
            labels[name] = value.as_str().into();
        }
        if self.is_simulated {
            labels[SIMULATED_LABEL] = "true".into();
        }
        let mut node = json!({"metadata": {"name": self.name, "labels": labels}});
        if !self.taints.is_empty() {
            node["spec"] = json!({"taints": self.taints});
        }
        serde_json::from_value(node).map_err(kube::Error::SerdeError)
    }

    /// Returns the status as a strategic merge patch of that of `node`.
    fn status(&self, node: &Node, now: Timestamp) -> Value {
        let condition = |kind: &str, is: &str, reason: &str, message: &str| {
            json!({
                "type": kind, "status": is, "reason": reason, "message": message,
                "lastHeartbeatTime": time(now), "lastTransitionTime": time(since(node, kind, is).unwrap_or(now)),
            })
        };
        let Capacity { cpu_millis, memory_bytes, pods } = &self.capacity;
        let amounts = json!({
            "cpu": format!("{cpu_millis}m"), "memory": memory_bytes.to_string(),
            "ephemeral-storage": "100Gi", "pods": pods.to_string(),
        });
        let mut status = json!({
            "capacity": amounts, "allocatable": amounts,
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
                condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
            ],
            "addresses": [
                {"type": "InternalIP", "address": self.address}, {"type": "Hostname", "address": self.name},
            ],
            "nodeInfo": {
                "architecture": arch(), "operatingSystem": "linux", "kubeletVersion": concat!("plimsoll-", env!("CARGO_PKG_VERSION")),
                "bootID": "", "containerRuntimeVersion": "plimsoll://1", "kernelVersion": "", "kubeProxyVersion": "",
                "machineID": "", "osImage": "", "systemUUID": "",
            },
        });
        if let Some(port) = self.port {
            status["daemonEndpoints"] = json!({"kubeletEndpoint": {"Port": port}});
        }
        status
    }
}

/// Returns since when a condition of a node has had a status.
fn since(node: &Node, kind: &str, status: &str) -> Option<Timestamp> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let same = conditions.iter().find(|c| c.type_ == kind && c.status == status)?;
    Some(same.last_transition_time.as_ref()?.0)
}

/// Returns the address that the pods of a node have for it.
pub(crate) fn internal_ip(node: &Node) -> Option<String> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    Some(addresses.iter().find(|address| address.type_ == "InternalIP")?.address.clone())
}

fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Returns the name of a simulated node, counted from one.
pub(crate) fn simulated_name(number: usize) -> String {
    format!("sim-{number:04}")
}

/// Deletes the simulated nodes of an earlier start that are too many.
async fn remove_extra(machine: &Machine) {
    let key = Key::new("", "sim-*");
    let attempt = || async move {
        let api: Api<Node> = Api::all(machine.context.client.clone());
        let simulated = ListParams::default().labels(&format!("{SIMULATED_LABEL}=true"));
        for node in api.list_metadata(&simulated).await?.items {
            let name = node.metadata.name.unwrap_or_default();
            let number = name.strip_prefix("sim-").and_then(|number| number.parse::<usize>().ok());
            if number.is_some_and(|number| number > machine.simulated.count) {
                match api.delete(&name, &DeleteParams::default()).await {
                    Err(error) if status_code(&error) == Some(404) => {}
                    deleted => drop(deleted?),
                }
            }
        }
        Ok(Written::Done)
    };
    let _ = machine.retry.until_written("remove surplus simulated nodes", &key, attempt).await;
}

/// Returns an address that no real machine here has.
fn simulated_address(number: usize) -> String {
    format!("10.{}.{}.{}", 64 + (number >> 16) % 64, (number >> 8) % 256, number % 256)
}

/// Returns the capacity of this machine.
fn this_machine() -> Capacity {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let memory = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    Capacity {
        cpu_millis: cores as u64 * 1000,
        memory_bytes: memory.unwrap_or(1 << 20) * 1024,
        pods: 4096,
    }
}
