//! The two servers that are compared, each a process of its own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use xtask::kube::{Binaries, Cluster, Options, Program};

use super::client::Target;

/// A server that is measured.
pub(super) trait Server {
    fn name(&self) -> &'static str;
    fn target(&self) -> anyhow::Result<Target>;
    /// Returns how long it took to get ready, in milliseconds.
    fn start_ms(&self) -> f64;
    /// Returns the resident memory, in MiB.
    fn memory(&self) -> anyhow::Result<f64>;
}

/// The engine in a process of its own, with its data on disk.
pub(super) struct Embedded {
    child: Child,
    data: PathBuf,
    start_ms: f64,
}

impl Embedded {
    pub(super) fn start() -> anyhow::Result<Self> {
        let program = std::env::current_exe()?;
        let data = std::env::temp_dir().join(format!("plimsoll-bench-{}", std::process::id()));
        let started = Instant::now();
        let mut child = Command::new(program)
            .arg("engine-alone")
            .arg(&data)
            .stdout(Stdio::piped())
            .spawn()
            .context("could not start the engine")?;
        let output = child.stdout.take().context("it has an output")?;
        let ready = BufReader::new(output).lines().map_while(Result::ok).any(|l| l == READY);
        ensure!(ready, "the engine did not come up");
        Ok(Self { child, data, start_ms: started.elapsed().as_secs_f64() * 1000.0 })
    }
}

/// The line that the engine's process prints once it serves requests.
const READY: &str = "ready";

/// Serves the engine alone, without what else `plimsoll up` starts, until the process is killed.
pub(crate) async fn serve(data: &Path) -> anyhow::Result<()> {
    let engine = engine::Engine::open(engine::Settings::in_directory(data)).await?;
    let listening = engine.listen(([127, 0, 0, 1], 0).into()).await?;
    engine.write_kubeconfig(&data.join("kubeconfig"), &listening)?;
    writeln!(std::io::stdout(), "{READY}")?;
    std::future::pending().await
}

impl Server for Embedded {
    fn name(&self) -> &'static str {
        "the embedded engine"
    }

    fn target(&self) -> anyhow::Result<Target> {
        let kubeconfig = std::fs::read_to_string(self.data.join("kubeconfig"))?;
        let url = kubeconfig
            .lines()
            .find_map(|l| l.trim().strip_prefix("server: https://"))
            .context("no server")?;
        let token = std::fs::read_to_string(self.data.join("token"))?;
        Target::new(
            url.to_owned(),
            token.trim().to_owned(),
            &std::fs::read(self.data.join("ca.crt"))?,
        )
    }

    fn start_ms(&self) -> f64 {
        self.start_ms
    }

    fn memory(&self) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

/// kube-apiserver with etcd, without anything else.
pub(super) struct Real {
    cluster: Cluster,
    start_ms: f64,
}

impl Real {
    pub(super) fn start() -> anyhow::Result<Self> {
        let binaries = Binaries::build(&Program::CLUSTER)?;
        let started = Instant::now();
        let cluster =
            Cluster::start(&binaries, &Options { controllers: false, nodes: 0, workloads: false })?;
        Ok(Self { cluster, start_ms: started.elapsed().as_secs_f64() * 1000.0 })
    }
}

impl Server for Real {
    fn name(&self) -> &'static str {
        "kube-apiserver with etcd"
    }

    fn target(&self) -> anyhow::Result<Target> {
        let kubeconfig = std::fs::read_to_string(&self.cluster.kubeconfig)?;
        let after = |key: &str| {
            let rest = kubeconfig.split(key).nth(1)?;
            Some(rest.trim_matches([' ', '"']).split(['"', '}', '\n']).next()?.trim().to_owned())
        };
        let token = after("token:").context("no token")?;
        let ca = after("certificate-authority:").context("no certificate")?;
        let address = self.cluster.url.trim_start_matches("https://").to_owned();
        Target::new(address, token, &std::fs::read(Path::new(&ca))?)
    }

    fn start_ms(&self) -> f64 {
        self.start_ms
    }

    fn memory(&self) -> anyhow::Result<f64> {
        let parts = ["kube-apiserver", "etcd"].map(|part| self.cluster.resident_kib(part));
        let total: u64 = parts.into_iter().sum::<anyhow::Result<u64>>()?;
        Ok(total as f64 / 1024.0)
    }
}
