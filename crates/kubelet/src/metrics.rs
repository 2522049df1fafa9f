//! The CPU and memory that pods and nodes use.
//!
//! Nothing is measured until a client asks. Then the rate is that since the last measurement if there was one in the last minute,
//! otherwise that of a second.

mod simulated;
mod text;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use crate::machine::Machine;
use crate::meter::{Measurement, Sample, Total};
use crate::usage::Usage;
pub use simulated::SIMULATED_USAGE;

/// The shortest time over which CPU usage is measured.
const WINDOW: Duration = Duration::from_secs(1);
/// The longest time over which it is measured.
const LONGEST_WINDOW: Duration = Duration::from_secs(60);

/// Measures the pods and nodes of a kubelet.
#[derive(Clone)]
pub struct ResourceMetrics {
    pub(crate) machine: Weak<Machine>,
}

impl ResourceMetrics {
    /// Returns what is in use now; `None`: the kubelet has stopped.
    pub async fn measure(&self) -> Option<Arc<Measurement>> {
        let machine = self.machine.upgrade()?;
        Some(measure(&machine).await)
    }

    /// Returns the totals of this machine's pods in Prometheus' text format; `None`: the kubelet has stopped.
    pub(crate) async fn text(&self) -> Option<String> {
        let machine = self.machine.upgrade()?;
        let sample = machine.meter.sample(machine.local.is_some()).await;
        Some(text::render(&machine, &sample))
    }
}

/// Measures all pods and nodes.
async fn measure(machine: &Machine) -> Arc<Measurement> {
    let has_processes = machine.local.is_some();
    // The lock lets all requests of a second share one measurement.
    let mut last = machine.meter.last.lock().await;
    if let Some((sample, measured)) = &*last
        && sample.at.elapsed() < WINDOW
        && has_processes
    {
        return Arc::clone(measured);
    }
    let before = match last.take() {
        Some((sample, _)) if sample.at.elapsed() <= LONGEST_WINDOW => sample,
        Some(_) | None => {
            let sample = machine.meter.sample(has_processes).await;
            if has_processes {
                tokio::time::sleep(WINDOW).await;
            }
            sample
        }
    };
    let sample = machine.meter.sample(has_processes).await;
    let measured = Arc::new(compare(machine, &before, &sample));
    *last = Some((sample, Arc::clone(&measured)));
    measured
}

fn compare(machine: &Machine, before: &Sample, now: &Sample) -> Measurement {
    let window = now.at.duration_since(before.at).max(WINDOW);
    let usage = |before: Option<&Total>, now: &Total| {
        // A container that was started in between has used all of its time since.
        let before = before.map_or(0, |total| total.cpu_nanos).min(now.cpu_nanos);
        let seconds = window.as_secs_f64();
        let cpu_nanos = ((now.cpu_nanos - before) as f64 / seconds) as u64;
        Usage { cpu_nanos, memory_bytes: now.memory_bytes }
    };
    let mut pods: BTreeMap<String, Vec<(String, Usage)>> = BTreeMap::new();
    for (key, total) in &now.containers {
        let used = usage(before.containers.get(key), total);
        pods.entry(key.0.to_string()).or_default().push((key.1.clone(), used));
    }
    let mut nodes: BTreeMap<String, Usage> = machine.simulated_nodes();
    if let Some(local) = &machine.local {
        nodes.insert(local.node.clone(), usage(Some(&before.machine), &now.machine));
    }
    for pod in machine.pods.list() {
        let Some(node) = node_of(&pod).and_then(|name| nodes.get_mut(name)) else { continue };
        let is_local = machine.local.as_ref().is_some_and(|l| Some(&*l.node) == node_of(&pod));
        let (uid, false) = (pod.metadata.uid.clone().unwrap_or_default(), is_local) else {
            continue;
        };
        if let Some(containers) = simulated::usage(machine, &pod) {
            *node = containers.iter().fold(*node, |sum, (_, used)| sum + *used);
            pods.insert(uid, containers);
        }
    }
    Measurement { measured_at: machine.context.clock.now(), window, pods, nodes }
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}
