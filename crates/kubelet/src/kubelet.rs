//! A kubelet from its start to its end.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::EventRecorder;
use process::Supervised;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::sync::{OnceCell, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::client::PodClient;
use crate::container_logs::ContainerLogs;
use crate::dispatch::Dispatcher;
use crate::error::StartError;
use crate::leftovers::{self, Mark};
use crate::logs::Logs;
use crate::machine::{Context, Machine};
use crate::metrics::ResourceMetrics;
use crate::network::{self, NetworkIndex, Networking, ServiceNetwork};
use crate::pods::PodIndex;
use crate::proxy;
use crate::retry::Retry;
use crate::server::Server;
use crate::settings::{Local, Settings};
use crate::spawner::Spawner;
use crate::streaming::Streaming;
use crate::volumes::{Changes, VolumeRoot};
use crate::{docker, lease, node};

/// A running kubelet. Dropping it kills its pods without a grace period.
pub struct Kubelet {
    machine: Arc<Machine>,
    streaming: Streaming,
    stop: watch::Sender<Option<Duration>>,
    dispatcher: Option<Supervised>,
    _tasks: Vec<Supervised>,
}

/// Starts a kubelet, and returns it once its nodes are registered and the pods of an earlier run are taken over.
pub async fn start(context: Context, settings: Settings) -> Result<Kubelet, StartError> {
    let Settings { local, simulated } = settings;
    let mark = Mark::for_this_run(&context.identity);
    // On simulated nodes only the clock is waited for, so that simulations are repeatable.
    let (spawner, networking) = match &local {
        Some(local) => {
            leftovers::kill_all(&mark);
            allow_many_files();
            let spawner = Spawner::on_host().await.map_err(StartError::Thread)?;
            (Some(spawner), network::detect(local.host_network).await)
        }
        None => (None, Networking::Host { why: "this machine is not a node".to_owned() }),
    };
    let services = connect_services(local.as_ref(), &networking).await;
    let docker = find_docker(local.as_ref(), &mark).await;
    let volumes = local.as_ref().map(|_| Arc::new(VolumeRoot::new(&mark)));
    let (logs, pods) = (Arc::<Logs>::default(), Arc::<PodIndex>::default());
    let server = bind_server(local.as_ref()).await?;
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
        services,
        docker,
        volumes,
        mounting: OnceCell::new(),
        changes: Changes::default(),
        mark,
        port: server.as_ref().map(Server::port),
        logs,
        pods,
        networks: NetworkIndex::default(),
        meter: Arc::default(),
        running: Arc::default(),
        addresses: AtomicU32::new(0),
        node_addresses: Mutex::default(),
        stopping,
        context,
    });
    let streaming = Streaming::new(&machine);
    let supervisor = &machine.context.supervisor;
    let mut tasks = vec![supervisor.spawn("events of the kubelet", send_events)];
    if let Some(server) = server {
        let (logs, pods) = (container_logs(&machine), Arc::clone(&machine.pods));
        let serving = server.serve(logs, pods, resource_metrics(&machine), streaming.clone());
        tasks.push(supervisor.spawn_critical("listener of the kubelet", serving));
    }
    let (stop, stopped) = watch::channel(None);
    let (ready, is_ready) = oneshot::channel();
    let dispatcher = Dispatcher::new(&machine, ready).run(stopped);
    let dispatcher = supervisor.spawn_critical("kubelet", dispatcher);
    // An error means that the dispatcher has ended: it was stopped, or the supervisor has reported it.
    let _ = is_ready.await;
    tasks.extend(lease::start(&machine));
    tasks.extend(proxy::start(&machine));
    Ok(Kubelet { machine, streaming, stop, dispatcher: Some(dispatcher), _tasks: tasks })
}

/// Binds the listener of the kubelet's HTTP API, if the settings ask for it.
async fn bind_server(local: Option<&Local>) -> Result<Option<Server>, StartError> {
    match local.and_then(|local| local.server.clone()) {
        Some(server) => Ok(Some(Server::bind(server).await?)),
        None => Ok(None),
    }
}

/// Finds the Docker Engine, and removes the containers of earlier runs from it.
async fn find_docker(local: Option<&Local>, mark: &Mark) -> Option<docker::Engine> {
    let engine = docker::Engine::find(local?.docker.as_deref()?, mark).await?;
    engine.remove_leftovers().await;
    Some(engine)
}

/// Creates the network through which pods reach Services, if they are served and Linux allows it.
async fn connect_services(
    local: Option<&Local>,
    networking: &Networking,
) -> Option<ServiceNetwork> {
    local.filter(|local| local.service_proxy && *networking == Networking::Namespaces)?;
    let network = ServiceNetwork::new().await;
    let logged = network.inspect_err(|error| {
        tracing::warn!(%error, "Services cannot be reached from pods with a network of their own");
    });
    logged.ok()
}

/// Raises the limit of open files as far as Linux allows: each pod has a dozen.
fn allow_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(err) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%err, "could not raise the limit of open files");
    }
}

fn container_logs(machine: &Machine) -> ContainerLogs {
    let (logs, pods) = (Arc::clone(&machine.logs), Arc::clone(&machine.pods));
    ContainerLogs::new(logs, pods, machine.context.clock.clone())
}

fn resource_metrics(machine: &Arc<Machine>) -> ResourceMetrics {
    ResourceMetrics { machine: Arc::downgrade(machine) }
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
        node::registered(&self.machine)
    }

    /// Returns the logs of the containers.
    pub fn logs(&self) -> ContainerLogs {
        container_logs(&self.machine)
    }

    /// Returns the usage of pods and nodes, measured when it is read.
    pub fn metrics(&self) -> ResourceMetrics {
        resource_metrics(&self.machine)
    }

    /// Returns the sessions of clients in containers.
    pub fn streaming(&self) -> Streaming {
        self.streaming.clone()
    }

    /// Returns the port of the kubelet's HTTP API, if it is served.
    pub fn port(&self) -> Option<u16> {
        self.machine.port
    }

    /// Returns a function that kills every pod without a grace period, from any thread.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + 'static {
        let stop = self.stop.clone();
        move || {
            stop.send_replace(Some(Duration::ZERO));
        }
    }

    /// Asks every process to terminate, and kills it after the grace period. The objects stay as they are: the next start
    /// finds them and reports that their processes have ended.
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
