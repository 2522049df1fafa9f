//! Which nodes are there, and what do they offer?

use std::sync::Arc;

use futures::StreamExt as _;
use serde_json::{Value, json};

use super::Simulated;
use crate::core::Core;
use crate::rest::internal::{self, Propagation};
use crate::rest::meta;
use apimachinery::resource::split_key;

/// The label of nodes on which nothing really runs.
pub const SIMULATED_LABEL: &str = "plimsoll.dev/simulated";

/// How many nodes are made at the same time.
const AT_ONCE: usize = 256;

/// What a node offers to pods.
#[derive(Clone, Debug)]
pub struct Capacity {
    /// In thousandths of a core.
    pub cpu_millis: u64,
    /// In bytes.
    pub memory_bytes: u64,
    /// How many pods it takes.
    pub pods: u32,
}

/// Makes a node, or lets one that is there be ready again.
pub(super) async fn register(
    core: &Arc<Core>,
    name: &str,
    address: &str,
    capacity: &Capacity,
    is_simulated: bool,
) {
    let served = core.registry.served();
    let Some(nodes) = served.find("", "v1", "nodes") else { return };
    if core.store.get(&nodes.storage, name).is_none() {
        let mut labels = json!({
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": arch(),
        });
        if is_simulated {
            labels[SIMULATED_LABEL] = "true".into();
        }
        let node = json!({"metadata": {"name": name, "labels": labels}});
        internal::create(core, nodes, None, "plimsoll", node).await;
    }
    let status = status(core, name, address, capacity);
    internal::change(core, nodes, None, name, &["spec", "status"], |node| {
        let mut status = status.clone();
        keep_transitions(&node["status"]["conditions"], &mut status["conditions"]);
        if let (Some(old), Some(new)) = (node["status"].as_object_mut(), status.as_object()) {
            old.extend(new.clone());
        } else {
            node["status"] = status.clone();
        }
        if let Some(taints) = node["spec"]["taints"].as_array_mut() {
            taints.retain(|taint| taint["key"] != "node.kubernetes.io/not-ready");
        }
    })
    .await;
}

/// A condition that is as it was has been so since then.
fn keep_transitions(before: &Value, now: &mut Value) {
    for condition in now.as_array_mut().into_iter().flatten() {
        let same =
            |c: &&Value| c["type"] == condition["type"] && c["status"] == condition["status"];
        if let Some(before) = before.as_array().into_iter().flatten().find(same) {
            condition["lastTransitionTime"] = before["lastTransitionTime"].clone();
        }
    }
}

fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn status(core: &Core, name: &str, address: &str, capacity: &Capacity) -> Value {
    let now = meta::time(core.clock.now());
    let condition = |kind: &str, is: &str, reason: &str| {
        json!({
            "type": kind, "status": is, "reason": reason, "message": "",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    let amounts = json!({
        "cpu": format!("{}m", capacity.cpu_millis),
        "memory": capacity.memory_bytes.to_string(),
        "ephemeral-storage": "100Gi",
        "pods": capacity.pods.to_string(),
    });
    json!({
        "capacity": amounts, "allocatable": amounts,
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID"),
            condition("Ready", "True", "KubeletReady"),
        ],
        "addresses": [
            {"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name},
        ],
        "nodeInfo": {
            "architecture": arch(), "operatingSystem": "linux", "kubeletVersion": concat!("plimsoll-", env!("CARGO_PKG_VERSION")),
            "bootID": "", "containerRuntimeVersion": "plimsoll://1", "kernelVersion": "", "kubeProxyVersion": "",
            "machineID": "", "osImage": "", "systemUUID": "",
        },
    })
}

/// Gives the name of a simulated node, counted from one.
pub(super) fn simulated_name(number: usize) -> String {
    format!("sim-{number:04}")
}

/// Makes the simulated nodes, and removes those of an earlier start that are too many.
pub(super) async fn simulate(core: &Arc<Core>, simulated: &Simulated) {
    let making = (1..=simulated.count).map(|number| async move {
        let (name, address) = (simulated_name(number), address(number));
        register(core, &name, &address, &simulated.capacity, true).await;
    });
    futures::stream::iter(making).buffer_unordered(AT_ONCE).for_each(|()| async {}).await;
    let served = core.registry.served();
    let Some(nodes) = served.find("", "v1", "nodes") else { return };
    let mut extra = Vec::new();
    core.store.each_of("nodes", |key, node| {
        if !node.mentions(SIMULATED_LABEL.as_bytes()) {
            return;
        }
        let number = split_key(key).1.strip_prefix("sim-").and_then(|n| n.parse::<usize>().ok());
        extra.extend(number.filter(|n| *n > simulated.count).map(|_| key.to_string()));
    });
    for name in extra {
        internal::delete(core, nodes, None, &name, None, Propagation::Background).await;
    }
}

/// Gives an address that no real machine here has.
fn address(number: usize) -> String {
    format!("10.{}.{}.{}", 64 + (number >> 16) % 64, (number >> 8) % 256, number % 256)
}

/// Finds out what this machine has.
pub(super) fn of_this_machine() -> Capacity {
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
