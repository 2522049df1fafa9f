//! A node as it is registered: its object and its status.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::{Value, json};

use crate::settings::{Capacity, SIMULATED_LABEL};
use crate::status::time;

/// A node as it is registered.
pub(super) struct Registration<'a> {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) capacity: Capacity,
    pub(super) labels: Option<&'a BTreeMap<String, String>>,
    pub(super) taints: &'a [Taint],
    pub(super) is_simulated: bool,
    /// The port of the HTTP API.
    pub(super) port: Option<u16>,
}

impl Registration<'_> {
    /// Returns the object to create.
    pub(super) fn object(&self) -> kube::Result<Node> {
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
    pub(super) fn status(&self, node: &Node, now: Timestamp) -> Value {
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

/// Returns the time since which a condition of a node has had a status.
fn since(node: &Node, kind: &str, status: &str) -> Option<Timestamp> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let same = conditions.iter().find(|c| c.type_ == kind && c.status == status)?;
    Some(same.last_transition_time.as_ref()?.0)
}

fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
