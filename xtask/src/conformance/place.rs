//! The cluster that runs the tests: the embedded engine, or a real Kubernetes. KWOK simulates the nodes of both.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::kube::{Binaries, Cluster, Options, Program, free_ports, node};
use crate::process::{Folder, Process};
use crate::run;

/// Some tests need two.
const NODES: usize = 2;

/// What is judged. It is stopped when this is dropped.
pub(super) struct Place {
    /// How to reach it.
    pub(super) kubeconfig: PathBuf,
    _cluster: Option<Cluster>,
    _parts: Vec<Process>,
}

impl Place {
    /// Starts a real Kubernetes with all its controllers.
    pub(super) fn real(binaries: &Binaries) -> anyhow::Result<Self> {
        let options = Options { nodes: NODES, workloads: true, ..Options::default() };
        let cluster = Cluster::start(binaries, &options)?;
        let kubeconfig = cluster.kubeconfig.clone();
        Ok(Self { kubeconfig, _cluster: Some(cluster), _parts: Vec::new() })
    }

    /// Starts the embedded engine with its scheduler and its controllers.
    pub(super) fn embedded(binaries: &Binaries, folder: &Folder) -> anyhow::Result<Self> {
        let kubeconfig = folder.join("kubeconfig");
        let mut up = Command::new(run::target().join("debug/plimsoll"));
        up.args(["up", "--no-nodes", "--ephemeral", "--listen", "127.0.0.1:0"]);
        up.arg("--write-kubeconfig").arg(&kubeconfig);
        let mut parts = vec![Process::spawn("plimsoll", folder.path(), &up)?];
        let kubectl = || {
            let mut command = Command::new(binaries.path(Program::Kubectl));
            command.arg("--kubeconfig").arg(&kubeconfig);
            command
        };
        let until = Instant::now() + Duration::from_secs(30);
        while !(kubeconfig.exists()
            && kubectl().args(["get", "--raw", "/readyz"]).output()?.status.success())
        {
            if parts[0].ended().is_some() || Instant::now() > until {
                bail!(
                    "`plimsoll up` did not get ready; its last words:\n{}",
                    parts[0].last_words()
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let [port] = free_ports()?;
        parts.push(binaries.kwok(folder, &kubeconfig, port)?);
        let manifest = folder.join("nodes.yaml");
        std::fs::write(&manifest, (0..NODES).map(node).collect::<String>())?;
        run::command(kubectl().args(["apply", "--server-side", "-f"]).arg(&manifest))?;
        Ok(Self { kubeconfig, _cluster: None, _parts: parts })
    }
}
