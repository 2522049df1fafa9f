//! A kubelet from its start to its end.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cluster::EventRecorder;
use kube::Client;
use process::{Clock, Random, Supervised, Supervisor};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::client::PodClient;
use crate::container_logs::ContainerLogs;
use crate::dispatch::Dispatcher;
use crate::leftovers::{self, Mark};
use crate::logs::Logs;
use crate::network::{self, Networking};
use crate::pods::PodIndex;
use crate::retry::Retry;
use crate::server::Server;
use crate::spawner::Spawner;
use crate::{Local, Settings, Simulated, StartError, docker, lease, node};

/// What a kubelet gets from the process that it runs in.
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
    /// Identifies the cluster. What an earlier kubelet left running under the same identity is ended at the start.
    pub identity: String,
}

/// What the tasks of pods share.
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
    pub(crate) docker: Option<docker::Engine>,
    /// Carried by everything that is started here.
    pub(crate) mark: Mark,
    /// The port of the HTTP API.
    pub(crate) port: Option<u16>,
    pub(crate) logs: Arc<Logs>,
    pub(crate) pods: Arc<PodIndex>,
    /// How many addresses were given to simulated pods.
    pub(crate) addresses: AtomicU32,
    /// The addresses of simulated nodes.
    node_addresses: Mutex<BTreeMap<String, String>>,
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

    /// Notes the address of a simulated node.
    pub(crate) fn set_node_address(&self, node: &str, address: Option<String>) {
        match address {
            Some(address) => drop(self.node_addresses().insert(node.to_owned(), address)),
            None => drop(self.node_addresses().remove(node)),
        }
    }

    /// Lists the nodes that are registered at the start.
    fn nodes(&self) -> Vec<String> {
        let local = self.local.iter().map(|local| local.node.clone());
        local.chain((1..=self.simulated.count).map(node::simulated_name)).collect()
    }
}

/// A running kubelet. Dropping it ends its pods, without grace.
pub struct Kubelet {
    machine: Arc<Machine>,
    stop: watch::Sender<Option<Duration>>,
    dispatcher: Option<Supervised>,
    _tasks: Vec<Supervised>,
}

/// Starts a kubelet, and returns it once its nodes are registered and the pods of an earlier run are taken over.
pub async fn start(context: Context, settings: Settings) -> Result<Kubelet, StartError> {
    let Settings { local, simulated } = settings;
    let mark = Mark::of_this_run(&context.identity);
    // Where no pod runs there is nothing to wait for but the clock, so that simulations are the same every time.
    let (spawner, networking) = match &local {
        Some(local) => {
            leftovers::end(&mark);
            allow_many_files();
            let spawner = Spawner::on_host().await.map_err(StartError::Thread)?;
            (Some(spawner), network::detect(local).await)
        }
        None => (None, Networking::Host { why: "no pod runs here".to_owned() }),
    };
    let docker = match local.as_ref().and_then(|local| local.docker.as_deref()) {
        Some(socket) => docker::Engine::find(socket, &mark).await,
        None => None,
    };
    if let Some(docker) = &docker {
        docker.remove_leftovers().await;
    }
    let (logs, pods) = (Arc::<Logs>::default(), Arc::<PodIndex>::default());
    let server = match local.as_ref().and_then(|local| local.server.clone()) {
        Some(server) => Some(Server::bind(server).await?),
        None => None,
    };
    let stopping = CancellationToken::new();
    let (events, send_events) = EventRecorder::new(context.client.clone(), context.clock.clone());
    let retry = Retry::new(context.random.clone(), stopping.clone());
    let pod_client = PodClient {
        client: context.client.clone(),
        clock: context.clock.clone(),
        events,
        retry: retry.clone(),
    };
    let machine = Arc::new(Machine {
        pod_client,
        retry,
        watches_all: simulated.is_some() || local.is_none(),
        simulated: simulated.unwrap_or_default(),
        local,
        spawner,
        networking,
        docker,
        mark,
        port: server.as_ref().map(Server::port),
        logs,
        pods,
        addresses: AtomicU32::new(0),
        node_addresses: Mutex::default(),
        stopping,
        context,
    });
    let supervisor = &machine.context.supervisor;
    let mut tasks = vec![supervisor.spawn("events of the kubelet", send_events)];
    if let Some(server) = server {
        let serving = server.serve(container_logs(&machine), Arc::clone(&machine.pods));
        tasks.push(supervisor.spawn_critical("listener of the kubelet", serving));
    }
    let (stop, stopped) = watch::channel(None);
    let (ready, is_ready) = oneshot::channel();
    let dispatcher = Dispatcher::new(&machine, ready).run(stopped);
    let dispatcher = supervisor.spawn_critical("kubelet", dispatcher);
    // It ends without a word only when it is stopped, or reported by the supervisor.
    let _ = is_ready.await;
    tasks.extend(lease::start(&machine));
    Ok(Kubelet { machine, stop, dispatcher: Some(dispatcher), _tasks: tasks })
}

/// Asks for as many open files as Linux allows: each pod has a dozen.
fn allow_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(err) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%err, "could not ask for more open files");
    }
}

fn container_logs(machine: &Machine) -> ContainerLogs {
    let (logs, pods) = (Arc::clone(&machine.logs), Arc::clone(&machine.pods));
    ContainerLogs::new(logs, pods, machine.context.clock.clone())
}

impl Kubelet {
    /// Returns how pods of this machine reach the network.
    pub fn networking(&self) -> &Networking {
        &self.machine.networking
    }

    /// Whether a Docker Engine answers.
    pub fn has_docker(&self) -> bool {
        self.machine.docker.is_some()
    }

    /// Lists the nodes that were registered at the start.
    pub fn nodes(&self) -> Vec<String> {
        self.machine.nodes()
    }

    /// Returns the logs of the containers.
    pub fn logs(&self) -> ContainerLogs {
        container_logs(&self.machine)
    }

    /// Returns the port of the kubelet's HTTP API, if it is served.
    pub fn port(&self) -> Option<u16> {
        self.machine.port
    }

    /// Returns a function that ends every pod without grace, from anywhere.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + 'static {
        let stop = self.stop.clone();
        move || {
            stop.send_replace(Some(Duration::ZERO));
        }
    }

    /// Asks every process to end, and after the grace period ends it. The objects stay as they are: the next start finds
    /// them and reports their end.
    pub async fn stop(mut self, grace: Duration) {
        self.stop.send_replace(Some(grace));
        if let Some(dispatcher) = self.dispatcher.take() {
            dispatcher.finished().await;
        }
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.stop.send_replace(Some(Duration::ZERO));
        if let Some(dispatcher) = self.dispatcher.take() {
            dispatcher.detach();
        }
    }
}
