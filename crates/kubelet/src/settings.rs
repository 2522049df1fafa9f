//! The settings of a kubelet: its nodes, and how each of them runs pods.

mod simulated;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;

use crate::program::Programs;
pub use simulated::{SIMULATED_LABEL, Simulated, Simulation};

/// The name of the node that is this machine, unless the settings name another.
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
    /// Images that are run by programs in this process.
    pub programs: Programs,
    /// Images that are run by programs of this machine, with their first arguments.
    pub images: BTreeMap<String, Vec<String>>,
    /// The socket of a Docker Engine that runs all other images; see [`usual_docker`].
    pub docker: Option<PathBuf>,
    /// Runs every pod in the host's network, even where it could have its own.
    pub host_network: bool,
    /// Serves Services on this machine, as kube-proxy and a load balancer do on a cluster.
    pub service_proxy: bool,
    /// How long a container waits before its second restart; each further wait is twice as long, up to thirty times.
    pub restart_after: Duration,
    /// Serves the kubelet's HTTP API; `None`: it is not served.
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
            service_proxy: false,
            restart_after: Duration::from_secs(10),
            server: None,
        }
    }
}

/// Returns the socket of this machine's Docker Engine: that of `DOCKER_HOST`, or the default one.
pub fn usual_docker() -> Option<PathBuf> {
    let host = std::env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty());
    let path = match &host {
        Some(host) => PathBuf::from(host.strip_prefix("unix://")?),
        None => PathBuf::from("/var/run/docker.sock"),
    };
    path.exists().then_some(path)
}

/// The command that calls [`launch::main`](crate::launch::main).
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The program, usually our own.
    pub program: PathBuf,
    /// Its first arguments, such as the name of a hidden command.
    pub args: Vec<OsString>,
}

/// The capacity of a node.
#[derive(Clone, Debug)]
pub struct Capacity {
    /// CPU in thousandths of a core.
    pub cpu_millis: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The largest number of pods.
    pub pods: u32,
}

/// How the kubelet's HTTP API is served. Without an authority and a token no client is authorized.
#[derive(Clone)]
pub struct ServerSettings {
    /// The address; port 0 takes a free one.
    pub address: SocketAddr,
    /// The certificate chain, as PEM.
    pub certificate: String,
    /// The private key, as PEM.
    pub key: String,
    /// The authority that signs the certificates of clients, as PEM.
    pub client_ca: Option<String>,
    /// The bearer token that clients may present instead.
    pub token: Option<String>,
}

impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSettings").field("address", &self.address).finish_non_exhaustive()
    }
}
