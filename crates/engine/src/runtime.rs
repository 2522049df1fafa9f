//! What runs the pods that have a node?
//!
//! Three things can: child processes and in-process programs on the node of this machine, containers of a Docker Engine
//! on the same node, and nothing at all on simulated nodes, whose pods only say that they run. An engine without a
//! runtime leaves pods as they are, as an API server alone does.

mod container;
mod dispatch;
mod docker;
mod env;
mod instance;
pub mod launch;
mod leftovers;
pub(crate) mod logs;
mod network;
mod nodes;
mod pod;
mod probe;
mod process;
mod program;
mod recover;
mod resolve;
mod simulate;
mod spawner;
mod status;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::sync::watch;

use ::process::Supervised;

use crate::core::Core;
use dispatch::Dispatcher;
use leftovers::Mark;
pub use network::{Networking, allow_for_ordinary_users};
pub use nodes::{Capacity, SIMULATED_LABEL};
pub use program::{Program, ProgramContext, ProgramPort, Programs};
pub use simulate::{Simulated, Simulation};
use spawner::Spawner;

/// The name of the node that is this machine.
pub const LOCAL_NODE: &str = "local";

/// What runs pods.
#[derive(Default)]
pub struct Settings {
    /// This machine as a node; `None`: it is none.
    pub local: Option<Local>,
    /// Simulated nodes.
    pub simulated: Option<Simulated>,
}

/// How this machine runs pods.
pub struct Local {
    /// What starts child processes.
    pub launcher: Launcher,
    /// The address of the node, where host ports are listened on.
    pub address: IpAddr,
    /// What the node offers; `None`: what the machine has.
    pub capacity: Option<Capacity>,
    /// Images that stand for programs in this process.
    pub programs: Programs,
    /// Images that stand for programs of this machine, with their first arguments.
    pub images: BTreeMap<String, Vec<String>>,
    /// The socket of a Docker Engine that runs images that are no programs; see [`usual_docker`].
    pub docker: Option<PathBuf>,
    /// Lets every pod use the host's network, even where it could have its own.
    pub host_network: bool,
    /// How long a container waits before its second restart; each further wait is twice as long, up to thirty times.
    pub restart_after: Duration,
}

impl Local {
    /// Runs pods with what every machine has.
    pub fn new(launcher: Launcher) -> Self {
        Self {
            launcher,
            address: Ipv4Addr::LOCALHOST.into(),
            capacity: None,
            programs: Programs::default(),
            images: BTreeMap::new(),
            docker: None,
            host_network: false,
            restart_after: Duration::from_secs(10),
        }
    }
}

/// Gives the socket where the Docker Engine of this machine would be: what `DOCKER_HOST` says, or the usual one.
pub fn usual_docker() -> Option<PathBuf> {
    let said = std::env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty());
    let path = match &said {
        Some(host) => PathBuf::from(host.strip_prefix("unix://")?),
        None => PathBuf::from("/var/run/docker.sock"),
    };
    path.exists().then_some(path)
}

/// The command that becomes [`launch::main`].
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The program, usually our own.
    pub program: PathBuf,
    /// What it is to be told first, such as the name of a hidden command.
    pub args: Vec<OsString>,
}

/// Why a runtime did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// A thread could not be started.
    #[error("could not start the thread that starts processes")]
    Thread(#[source] std::io::Error),
}

/// What the tasks of pods share.
struct Machine {
    core: Arc<Core>,
    has_local: bool,
    local: Option<Local>,
    simulated: Simulated,
    /// What starts processes in the host's network.
    spawner: Option<Spawner>,
    networking: Networking,
    docker: Option<docker::Engine>,
    /// What everything carries that is started here.
    mark: Mark,
    /// How many addresses were given to simulated pods.
    addresses: AtomicU32,
}

/// Asks for as many open files as Linux gives: each pod has a dozen.
fn allow_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(err) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%err, "could not ask for more open files");
    }
}

impl Machine {
    /// Says that this machine is a node, if it is, and what it offers.
    async fn register(&self) {
        if let Some(local) = &self.local {
            let capacity = local.capacity.clone().unwrap_or_else(nodes::of_this_machine);
            let address = local.address.to_string();
            nodes::register(&self.core, LOCAL_NODE, &address, &capacity, false).await;
        }
    }
}

/// A running runtime. Dropping it ends what it runs, without grace.
pub struct Runtime {
    machine: Arc<Machine>,
    stop: watch::Sender<Option<Duration>>,
    _scheduler: Supervised,
    dispatcher: Option<Supervised>,
}

/// Starts scheduling and running pods.
pub(crate) async fn start(core: &Arc<Core>, settings: Settings) -> Result<Runtime, RuntimeError> {
    let Settings { local, simulated } = settings;
    let mark = Mark::of_this_run(&core.identity);
    // Where no pod runs there is nothing to wait for but the clock, so that simulations are the same every time.
    let (spawner, networking) = match &local {
        Some(local) => {
            leftovers::end(&mark);
            allow_many_files();
            let spawner = Spawner::on_host().await.map_err(RuntimeError::Thread)?;
            (Some(spawner), network::find_out(local).await)
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
    let machine = Arc::new(Machine {
        core: Arc::clone(core),
        has_local: local.is_some(),
        simulated: simulated.unwrap_or_default(),
        local,
        spawner,
        networking,
        docker,
        mark,
        addresses: AtomicU32::new(0),
    });
    machine.register().await;
    nodes::simulate(core, &machine.simulated).await;
    // The feed is opened before the present is looked at, so that nothing falls between the two.
    let feed = core.store.feed();
    let (stop, stopped) = watch::channel(None);
    let mut dispatcher = Dispatcher::new(core, &machine);
    dispatcher.take_over().await;
    let dispatcher = core.supervisor.spawn_critical("pod runner", dispatcher.run(feed, stopped));
    let _scheduler = crate::schedule::start(core);
    Ok(Runtime { machine, stop, _scheduler, dispatcher: Some(dispatcher) })
}

impl Runtime {
    /// Tells how pods of this machine reach the network.
    pub fn networking(&self) -> &Networking {
        &self.machine.networking
    }

    /// Tells whether a Docker Engine answers.
    pub fn has_docker(&self) -> bool {
        self.machine.docker.is_some()
    }

    /// Lists the nodes that were made at the start.
    pub fn nodes(&self) -> Vec<String> {
        let local = self.machine.has_local.then(|| LOCAL_NODE.to_owned());
        let simulated = (1..=self.machine.simulated.count).map(nodes::simulated_name);
        local.into_iter().chain(simulated).collect()
    }

    /// Stops scheduling, asks every process to end, and after the grace period ends it. The objects stay as they are:
    /// the next start finds them and says what became of them.
    pub async fn stop(mut self, grace: Duration) {
        self.stop.send_replace(Some(grace));
        if let Some(dispatcher) = self.dispatcher.take() {
            dispatcher.finished().await;
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.stop.send_replace(Some(Duration::ZERO));
        if let Some(dispatcher) = self.dispatcher.take() {
            dispatcher.detach();
        }
    }
}
