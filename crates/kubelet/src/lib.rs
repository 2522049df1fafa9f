//! The kubelet: runs the pods of a node, as a client of the Kubernetes API like any controller.
//!
//! Pods run as child processes, as in-process programs, or as containers of a Docker Engine on the node of this machine. On
//! simulated nodes nothing runs: their pods only report that they do.

mod child;
mod client;
mod container;
mod container_logs;
mod deadline;
mod dispatch;
mod docker;
mod env;
mod exec;
mod hooks;
mod instance;
mod kubelet;
pub mod launch;
mod lease;
mod leftovers;
mod logs;
mod network;
mod node;
mod pod;
mod pods;
mod probe;
mod program;
mod publish;
mod recover;
mod resolve;
mod retry;
mod server;
mod simulate;
mod spawner;
mod status;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;

pub use container_logs::{ContainerLogError, ContainerLogs, LogOptions, LogStream};
pub use kubelet::{Context, Kubelet, start};
pub use network::{Networking, allow_for_ordinary_users};
pub use node::{Capacity, SIMULATED_LABEL};
pub use program::{Program, ProgramContext, ProgramPort, Programs};
pub use server::ServerSettings;
pub use simulate::{Simulated, Simulation};

/// The name of the node that is this machine, unless the settings say otherwise.
pub const LOCAL_NODE: &str = "local";

/// The nodes whose pods a kubelet runs.
#[derive(Default)]
pub struct Settings {
    /// This machine as a node; `None`: it is not one.
    pub local: Option<Local>,
    /// Simulated nodes.
    pub simulated: Option<Simulated>,
}

/// How this machine runs pods.
pub struct Local {
    /// The name of the node.
    pub node: String,
    /// Labels that the node is registered with, besides the usual ones.
    pub labels: BTreeMap<String, String>,
    /// Taints that the node is registered with.
    pub taints: Vec<Taint>,
    /// Renews the node's Lease, so that a node lifecycle controller keeps the node Ready.
    pub lease: bool,
    /// The command that starts child processes.
    pub launcher: Launcher,
    /// The address of the node, where host ports are listened on.
    pub address: IpAddr,
    /// The node's capacity; `None`: that of the machine.
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
    /// Serves the kubelet's HTTP API; `None`: it is closed.
    pub server: Option<ServerSettings>,
}

impl Local {
    /// Returns settings that any machine can run with.
    pub fn new(launcher: Launcher) -> Self {
        Self {
            node: LOCAL_NODE.to_owned(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            lease: true,
            launcher,
            address: Ipv4Addr::LOCALHOST.into(),
            capacity: None,
            programs: Programs::default(),
            images: BTreeMap::new(),
            docker: None,
            host_network: false,
            restart_after: Duration::from_secs(10),
            server: None,
        }
    }
}

/// Returns the socket of the Docker Engine of this machine: that of `DOCKER_HOST`, or the usual one.
pub fn usual_docker() -> Option<PathBuf> {
    let host = std::env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty());
    let path = match &host {
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
    /// Its first arguments, such as the name of a hidden command.
    pub args: Vec<OsString>,
}

/// Why a kubelet did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A thread could not be started.
    #[error("could not start the thread that starts processes")]
    Thread(#[source] std::io::Error),
    /// The port of the HTTP API cannot be used.
    #[error("could not listen on {address} for the kubelet's API")]
    Listen {
        /// The address from the settings.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The certificates of the HTTP API cannot be used.
    #[error("the certificates for the kubelet's API cannot be used: {0}")]
    Certificates(String),
}
