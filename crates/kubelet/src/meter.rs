//! Reads the CPU time and memory of running containers.

mod processes;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use rustix::process::Pid;
use tokio::time::Instant;

use crate::docker::DockerContainer;
use crate::instance::Handle;
use crate::usage::Usage;
use processes::Processes;

/// How many Docker containers are asked at the same time.
const IN_FLIGHT: usize = 16;

/// What the pods and nodes of a kubelet use.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// When it was measured.
    pub measured_at: Timestamp,
    /// The time over which CPU usage is an average.
    pub window: Duration,
    /// The usage of each container of each running pod, by the pod's uid.
    pub pods: BTreeMap<String, Vec<(String, Usage)>>,
    /// The usage of each node, by name.
    pub nodes: BTreeMap<String, Usage>,
}

/// Identifies a container by the uid of its pod and its name.
pub(crate) type ContainerKey = (Arc<str>, String);

/// How a running container is measured.
#[derive(Clone)]
enum Running {
    Process(Pid),
    Docker(DockerContainer),
    /// It is part of this process.
    Program,
}

/// The totals of a container or a machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Total {
    /// CPU time since its start, in nanoseconds.
    pub(crate) cpu_nanos: u64,
    pub(crate) memory_bytes: u64,
}

/// The totals at one time.
pub(crate) struct Sample {
    pub(crate) at: Instant,
    pub(crate) containers: BTreeMap<ContainerKey, Total>,
    /// This machine.
    pub(crate) machine: Total,
}

/// Knows the running containers, and the last measurement.
#[derive(Default)]
pub(crate) struct Meter {
    running: Mutex<BTreeMap<ContainerKey, Running>>,
    pub(crate) last: tokio::sync::Mutex<Option<(Sample, Arc<Measurement>)>>,
}

/// A container that is measured until this is dropped.
pub(crate) struct Measured {
    meter: Arc<Meter>,
    key: ContainerKey,
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.meter.running().remove(&self.key);
    }
}

impl Meter {
    fn running(&self) -> MutexGuard<'_, BTreeMap<ContainerKey, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Measures a container from now on.
    pub(crate) fn register(
        self: &Arc<Self>,
        uid: &Arc<str>,
        container: &str,
        handle: &Handle,
    ) -> Measured {
        let running = match handle {
            Handle::Process(group) => Running::Process(*group),
            Handle::Docker(container) => Running::Docker(container.clone()),
            Handle::Program { .. } => Running::Program,
        };
        let key = (Arc::clone(uid), container.to_owned());
        self.running().insert(key.clone(), running);
        Measured { meter: Arc::clone(self), key }
    }

    /// Reads the totals of all running containers, and of this machine if it runs any.
    pub(crate) async fn sample(&self, runs_processes: bool) -> Sample {
        let running = self.running().clone();
        let processes = if runs_processes {
            tokio::task::spawn_blocking(Processes::read).await.unwrap_or_default()
        } else {
            Processes::default()
        };
        let at = Instant::now();
        let totals = running.into_iter().map(|(key, running)| {
            let processes = &processes;
            async move {
                let total = match running {
                    Running::Process(group) => processes.total(group.as_raw_nonzero().get()),
                    Running::Docker(container) => {
                        let (cpu_nanos, memory_bytes) = container.usage().await?;
                        Total { cpu_nanos, memory_bytes }
                    }
                    Running::Program => Total::default(),
                };
                Some((key, total))
            }
        });
        let totals = futures::stream::iter(totals).buffer_unordered(IN_FLIGHT);
        let containers = totals.filter_map(std::future::ready).collect().await;
        Sample { at, containers, machine: processes.machine }
    }
}
