//! The state that all tasks of a kubelet share.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Client;
use process::{Clock, Random, Supervisor};
use tokio_util::sync::CancellationToken;

use crate::client::PodClient;
use crate::docker;
use crate::leftovers::Mark;
use crate::logs::Logs;
use crate::meter::Meter;
use crate::network::{NetworkIndex, Networking, ServiceNetwork};
use crate::pods::PodIndex;
use crate::retry::Retry;
use crate::running::RunningContainers;
use crate::settings::{Local, Simulated};
use crate::spawner::Spawner;
use crate::usage::Usage;
use crate::volumes::{Changes, Mounting, VolumeRoot};

/// What a kubelet is given by the process that it runs in.
#[derive(Clone)]
pub struct Context {
    /// The API server that it is a client of.
    pub client: Client,
    /// Its only source of time.
    pub clock: Clock,
    /// Its only source of random numbers.
    pub random: Random,
    /// Supervises its tasks.
    pub supervisor: Supervisor,
    /// Identifies the cluster. What an earlier kubelet left running under the same identity is killed at the start.
    pub identity: String,
}

/// What the tasks of nodes and pods share.
pub(crate) struct Machine {
    pub(crate) context: Context,
    pub(crate) pod_client: PodClient,
    pub(crate) retry: Retry,
    pub(crate) local: Option<Local>,
    pub(crate) simulated: Simulated,
    /// Whether the pods of all nodes are watched, since any node may be simulated.
    pub(crate) watches_all: bool,
    /// Starts processes in the host's network.
    pub(crate) spawner: Option<Spawner>,
    pub(crate) networking: Networking,
    /// Where pods with networks of their own reach Services.
    pub(crate) services: Option<ServiceNetwork>,
    pub(crate) docker: Option<docker::Engine>,
    /// Where the volumes of pods are.
    pub(crate) volumes: Option<Arc<VolumeRoot>>,
    /// How processes see their volumes, once that is known.
    pub(crate) mounting: tokio::sync::OnceCell<Mounting>,
    /// The ConfigMaps and Secrets that change.
    pub(crate) changes: Changes,
    /// Identifies everything that is started by this run.
    pub(crate) mark: Mark,
    /// The port of the HTTP API.
    pub(crate) port: Option<u16>,
    pub(crate) logs: Arc<Logs>,
    pub(crate) pods: Arc<PodIndex>,
    /// The networks of the pods that run on this machine.
    pub(crate) networks: NetworkIndex,
    /// Measures running containers.
    pub(crate) meter: Arc<Meter>,
    pub(crate) running: Arc<RunningContainers>,
    /// How many addresses simulated pods have got so far.
    pub(crate) addresses: AtomicU32,
    /// The addresses of simulated nodes.
    pub(crate) node_addresses: Mutex<BTreeMap<String, String>>,
    /// Cancelled when the kubelet stops: writes are not retried any more.
    pub(crate) stopping: CancellationToken,
}

impl Machine {
    fn node_addresses(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.node_addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the address of a simulated node.
    pub(crate) fn node_address(&self, node: &str) -> String {
        self.node_addresses().get(node).cloned().unwrap_or_else(|| "127.0.0.1".to_owned())
    }

    /// Returns the simulated nodes, which use nothing by themselves.
    pub(crate) fn simulated_nodes(&self) -> BTreeMap<String, Usage> {
        self.node_addresses().keys().map(|name| (name.clone(), Usage::default())).collect()
    }

    /// Sets the address of a simulated node; `None`: it has none any more.
    pub(crate) fn set_node_address(&self, node: &str, address: Option<String>) {
        match address {
            Some(address) => drop(self.node_addresses().insert(node.to_owned(), address)),
            None => drop(self.node_addresses().remove(node)),
        }
    }
}
