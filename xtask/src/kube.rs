//! A real Kubernetes on loopback, for tests and measurements: etcd, kube-apiserver, controllers, scheduler and KWOK.
//!
//! Everything is built once from Go modules and kept outside the checkout. What is started is stopped by its process
//! id, also when this program is killed.

mod build;
mod cluster;
mod go;
mod keys;

use std::path::PathBuf;

use anyhow::Context;

pub use build::{Binaries, Program};
pub use cluster::{Cluster, Options};
pub(crate) use cluster::{free_ports, node};

/// Starts a cluster, prints how to reach it, and waits until the command is interrupted.
pub fn command(workloads: bool) -> anyhow::Result<()> {
    let binaries = Binaries::build(&Program::CLUSTER)?;
    let cluster = Cluster::start(&binaries, &Options { workloads, ..Options::default() })?;
    eprintln!("Kubernetes is running; Ctrl-C stops it. Reach it with:");
    eprintln!("  export KUBECONFIG={}", cluster.kubeconfig.display());
    eprintln!("  {} get nodes", binaries.path(Program::Kubectl).display());
    cluster.wait()
}

/// Returns the cache folder for builds that are the same for every checkout.
pub fn cache() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    Ok(base
        .context("neither XDG_CACHE_HOME nor HOME is set: there is no place for a cache")?
        .join("plimsoll"))
}
