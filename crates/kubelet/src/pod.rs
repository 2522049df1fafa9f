//! A running pod: what its containers, probes and hooks share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use tokio_util::sync::CancellationToken;

use crate::client::PodHandle;
use crate::deadline;
use crate::machine::Machine;
use crate::network::PodNetwork;
use crate::publish::StatusPublisher;
use crate::settings::Local;
use crate::status::{ContainerState, Phase, PodState, Role, State};
use crate::volumes::PodVolumes;

/// A running pod, shared by its containers.
pub(crate) struct PodRun {
    pub(crate) machine: Arc<Machine>,
    pub(crate) object: PodHandle,
    pub(crate) pod: Arc<Pod>,
    pub(crate) network: Arc<PodNetwork>,
    pub(crate) volumes: Arc<PodVolumes>,
    state: Mutex<PodState>,
    /// Whether changes are published; those of the start are published together.
    is_public: AtomicBool,
    pub(crate) publisher: Arc<StatusPublisher>,
    /// Cancelled when this is dropped.
    pub(crate) ended: CancellationToken,
}

impl Drop for PodRun {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

impl PodRun {
    /// Returns a pod of which no container has started.
    pub(crate) fn new(
        machine: &Arc<Machine>,
        local: &Local,
        object: PodHandle,
        pod: Arc<Pod>,
        network: PodNetwork,
        volumes: Arc<PodVolumes>,
    ) -> Self {
        let (now, pod_ip) = (machine.context.clock.now(), network.pod_ip(local.address));
        let state = PodState::new(&pod, now, &local.address.to_string(), &pod_ip.to_string());
        let publisher = StatusPublisher::start(object.clone(), &machine.context.supervisor);
        let network = Arc::new(network);
        machine.networks.insert(Arc::clone(&object.entry.uid), &network);
        Self {
            machine: Arc::clone(machine),
            object,
            pod,
            network,
            volumes,
            state: Mutex::new(state),
            is_public: AtomicBool::new(false),
            publisher: Arc::new(publisher),
            ended: CancellationToken::new(),
        }
    }

    /// Returns the settings of this machine.
    pub(crate) fn local(&self) -> &Local {
        self.machine.local.as_ref().expect("a pod runs only where this machine is a node")
    }

    /// Returns the spec that the pod was bound with.
    pub(crate) fn spec(&self) -> &PodSpec {
        self.pod.spec.as_ref().expect("a bound pod has a spec")
    }

    fn state(&self) -> MutexGuard<'_, PodState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state of a container.
    pub(crate) fn set(&self, index: usize, edit: impl FnOnce(&mut ContainerState)) {
        if let Some(container) = self.state().containers.get_mut(index) {
            edit(container);
        }
    }

    /// Publishes the status of the pod, if changes are published.
    pub(crate) fn publish(&self) {
        if !self.is_public.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.state().clone();
        if state.phase == Phase::Running {
            let never_started = |c: &ContainerState| {
                c.role == Role::Main && matches!(c.state, State::Waiting { .. }) && c.runs == 0
            };
            if state.containers.iter().any(never_started) {
                state.phase = Phase::Pending;
            }
        }
        self.publisher.publish(state);
    }

    /// Sets the phase of the pod.
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.state().phase = phase;
    }

    /// Sets whether changes are published.
    pub(crate) fn set_public(&self, is_public: bool) {
        self.is_public.store(is_public, Ordering::Relaxed);
    }

    /// Returns how long a container may take to terminate.
    pub(crate) fn grace(&self) -> Duration {
        deadline::seconds(self.spec().termination_grace_period_seconds.unwrap_or(30))
    }
}
