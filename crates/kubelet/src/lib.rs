//! The kubelet: runs the pods of a node, as a client of the Kubernetes API like any controller.
//!
//! Pods run as child processes, as in-process programs, or as containers of a Docker Engine on the node of this machine. On
//! simulated nodes no process runs: their pods only report that they do.
//!
//! The modules are in layers, and each uses only those below it:
//!
//! - `kubelet` starts and stops everything; `dispatch` follows the watches and starts a task for each pod; `server` serves the
//!   HTTP API, `streaming` the sessions of clients in containers, `proxy` serves Services, `metrics` measures pods and nodes;
//! - `pod_worker` runs the containers of a pod, `container` one of them; `simulate` plays a pod;
//! - `probe`, `hooks` and `exec` act on a running container of a `pod`; `running` lists them;
//! - `child`, `docker` and `instance` run a container, and `resolve` finds out which of them does;
//! - `node` and `lease` write about nodes, `client`, `publish` and `recover` about pods;
//! - `machine` is what all tasks share; `meter`, `network`, `volumes`, `program`, `logs`, `env`, `status`, `settings`, `streams` and
//!   `terminal` are below it.

mod child;
mod client;
mod container;
mod container_logs;
mod deadline;
mod dispatch;
mod docker;
mod env;
mod error;
mod exec;
mod hooks;
mod instance;
mod kubelet;
pub mod launch;
mod lease;
mod leftovers;
mod logs;
mod machine;
mod meter;
mod metrics;
mod network;
mod node;
mod pod;
mod pod_task;
mod pod_worker;
mod pods;
mod probe;
mod program;
mod proxy;
mod publish;
mod recover;
mod resolve;
mod retry;
mod running;
mod server;
mod settings;
mod simulate;
mod spawner;
mod status;
mod streaming;
mod streams;
mod terminal;
mod usage;
mod volumes;

pub use container_logs::{ContainerLogError, ContainerLogs, LogStream};
pub use error::StartError;
pub use kubelet::{Kubelet, start};
pub use machine::Context;
pub use meter::Measurement;
pub use metrics::{ResourceMetrics, SIMULATED_USAGE};
pub use network::{Networking, ProgramPort, allow_for_ordinary_users};
pub use program::{Program, ProgramContext, Programs};
pub use settings::{
    Capacity, LOCAL_NODE, Launcher, Local, SIMULATED_LABEL, ServerSettings, Settings, Simulated,
    Simulation, usual_docker,
};
pub use streaming::{StreamRefused, Streaming};
pub use usage::Usage;
