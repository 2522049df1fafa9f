//! Registers the kubelet's nodes, and keeps their status up to date.

mod registration;

use std::time::Duration;

use cluster::Key;
use cluster::error::status_code;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::client::COMPONENT;
use crate::machine::Machine;
use crate::retry::Written;
use crate::settings::{Capacity, SIMULATED_LABEL};
use registration::Registration;

/// How often the status of this machine's node is written. Its Lease is renewed far more often.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(300);

/// How many nodes are registered at the same time.
const IN_FLIGHT: usize = 256;

/// The taint of nodes that have not reported their status yet.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Lists the nodes that are registered at the start.
pub(crate) fn registered(machine: &Machine) -> Vec<String> {
    let local = machine.local.iter().map(|local| local.node.clone());
    local.chain((1..=machine.simulated.count).map(simulated_name)).collect()
}

/// Registers the kubelet's nodes, and deletes the simulated nodes of an earlier run that are no longer wanted.
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
        remove_surplus(machine).await;
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

/// Creates the node if it does not exist, and reports that it is ready.
async fn try_register(machine: &Machine, registration: &Registration<'_>) -> kube::Result<Written> {
    let api: Api<Node> = Api::all(machine.context.client.clone());
    let name = registration.name.as_str();
    let node = match api.get_opt(name).await? {
        Some(node) => node,
        None => {
            let params =
                PostParams { field_manager: Some(COMPONENT.to_owned()), ..Default::default() };
            match api.create(&params, &registration.object()?).await {
                // Another registration has created it in the meantime.
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
        // Another client may change the taints in the meantime; then everything is repeated.
        let version = patched.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": left}});
        api.patch(name, &params, &Patch::Merge(patch)).await?;
    }
    Ok(Written::Done)
}

/// Returns the address of a node.
pub(crate) fn internal_ip(node: &Node) -> Option<String> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    Some(addresses.iter().find(|address| address.type_ == "InternalIP")?.address.clone())
}

/// Returns the name of a simulated node, counted from one.
pub(crate) fn simulated_name(number: usize) -> String {
    format!("sim-{number:04}")
}

/// Deletes the simulated nodes of an earlier run that are no longer wanted.
async fn remove_surplus(machine: &Machine) {
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

/// Returns the address of a simulated node, counted from one.
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
