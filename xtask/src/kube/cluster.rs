//! Runs one cluster: started part by part on free ports of the loopback address, stopped by process id.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::build::{Binaries, Program};
use super::keys;
use crate::process::{Folder, Process};

/// Which parts to start besides etcd and the API server.
pub struct Options {
    /// kube-controller-manager, kube-scheduler and KWOK.
    pub controllers: bool,
    /// Nodes that KWOK plays.
    pub nodes: usize,
    /// The controllers of workloads and of Endpoints.
    pub workloads: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { controllers: true, nodes: 1, workloads: false }
    }
}

/// A running cluster. It is stopped when this is dropped.
pub struct Cluster {
    /// The started programs; they stop before their folder is removed.
    parts: Vec<Process>,
    folder: Folder,
    kubectl: PathBuf,
    /// The path of its kubeconfig.
    pub kubeconfig: PathBuf,
    /// The API server's address.
    pub url: String,
}

/// The controllers that would act on workloads.
const WORKLOADS: [&str; 8] = [
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "endpoints-controller",
    "job-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "statefulset-controller",
];

/// The only user there is.
const TOKEN: &str = "plimsoll-test-token";

impl Cluster {
    /// Starts a cluster and waits until it is ready.
    pub fn start(binaries: &Binaries, options: &Options) -> anyhow::Result<Self> {
        let started_at = Instant::now();
        let folder = Folder::new()?;
        keys::write(folder.path())?;
        let [etcd, peer, port] = free_ports()?;
        let url = format!("https://127.0.0.1:{port}");
        let mut cluster = Self {
            kubeconfig: folder.join("kubeconfig"),
            kubectl: binaries.path(Program::Kubectl),
            parts: Vec::new(),
            folder,
            url,
        };
        cluster.write_settings()?;
        cluster.start_etcd(binaries, etcd, peer)?;
        cluster.start_api_server(binaries, etcd, port)?;
        if options.controllers {
            cluster.start_controllers(binaries, options.workloads)?;
            let [port] = free_ports()?;
            cluster.parts.push(binaries.kwok(&cluster.folder, &cluster.kubeconfig, port)?);
            cluster.apply(&(0..options.nodes).map(node).collect::<String>())?;
        }
        eprintln!(
            "a real Kubernetes is ready at {} after {:.1} s",
            cluster.url,
            started_at.elapsed().as_secs_f32()
        );
        Ok(cluster)
    }

    /// Waits until one of the parts ends, which is an error, or the command is interrupted.
    pub fn wait(mut self) -> anyhow::Result<()> {
        loop {
            for part in &mut self.parts {
                if let Some(status) = part.ended() {
                    bail!("{} ended: {status}; its last words:\n{}", part.name, part.last_words());
                }
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Returns the resident memory of a part in KiB.
    pub fn resident_kib(&self, part: &str) -> anyhow::Result<u64> {
        self.parts.iter().find(|p| p.name == part).context("no such part")?.resident_kib()
    }

    /// Applies manifests with kubectl.
    pub fn apply(&self, manifests: &str) -> anyhow::Result<()> {
        let path = self.folder.join("manifests.yaml");
        std::fs::write(&path, manifests)?;
        let done = self.kubectl().args(["apply", "--server-side", "-f"]).arg(&path).output()?;
        if !done.status.success() {
            bail!("kubectl apply failed: {}", String::from_utf8_lossy(&done.stderr));
        }
        Ok(())
    }

    /// Returns the path of a file of this cluster, such as `ca.crt`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command
    }

    fn write_settings(&self) -> anyhow::Result<()> {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
             clusters: [{{name: test, cluster: {{server: \"{}\", certificate-authority: \"{}\"}}}}]\n\
             users: [{{name: test, user: {{token: {TOKEN}}}}}]\n\
             contexts: [{{name: test, context: {{cluster: test, user: test}}}}]\n",
            self.url,
            self.folder.join("ca.crt").display(),
        );
        std::fs::write(&self.kubeconfig, text)?;
        std::fs::write(
            self.folder.join("tokens.csv"),
            format!("{TOKEN},admin,admin,system:masters\n"),
        )?;
        Ok(())
    }

    fn start_etcd(&mut self, binaries: &Binaries, port: u16, peer: u16) -> anyhow::Result<()> {
        let (client, peer) =
            (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
        let data = self.folder.join("etcd");
        self.spawn(
            "etcd",
            Command::new(binaries.path(Program::Etcd)).arg("--data-dir").arg(data).args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
                "--initial-cluster",
                &format!("default={peer}"),
            ]),
        )
    }

    fn start_api_server(
        &mut self,
        binaries: &Binaries,
        etcd: u16,
        port: u16,
    ) -> anyhow::Result<()> {
        let mut command = Command::new(binaries.path(Program::ApiServer));
        for (flag, file) in [
            ("--cert-dir", "certs"),
            ("--tls-cert-file", "server.crt"),
            ("--tls-private-key-file", "server.key"),
            ("--service-account-key-file", "service-account.pub"),
            ("--service-account-signing-key-file", "service-account.key"),
            ("--token-auth-file", "tokens.csv"),
            ("--requestheader-client-ca-file", "proxy-ca.crt"),
            ("--proxy-client-cert-file", "proxy.crt"),
            ("--proxy-client-key-file", "proxy.key"),
        ] {
            command.arg(flag).arg(self.folder.join(file));
        }
        command.args([
            &format!("--etcd-servers=http://127.0.0.1:{etcd}"),
            &format!("--secure-port={port}"),
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--service-account-issuer=https://localhost",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
            // How an aggregated API knows that a request comes from here, and whose it is.
            "--requestheader-allowed-names=front-proxy",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        ]);
        self.spawn("kube-apiserver", &command)?;
        self.wait_until_ready("kube-apiserver")
    }

    fn start_controllers(&mut self, binaries: &Binaries, workloads: bool) -> anyhow::Result<()> {
        let [manager, scheduler] = free_ports()?;
        let shared = |command: &mut Command, port: u16| {
            command.args([
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                &format!("--secure-port={port}"),
                // The API server is measured, not the request limits of its own clients.
                "--kube-api-qps=5000",
                "--kube-api-burst=5000",
            ]);
        };
        let mut command = Command::new(binaries.path(Program::ControllerManager));
        shared(&mut command, manager);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command
            .arg("--service-account-private-key-file")
            .arg(self.folder.join("service-account.key"));
        command.arg("--root-ca-file").arg(self.folder.join("ca.crt"));
        // Tests that compare API servers need workloads to stay as they were written; those of workloads start a controller manager
        // of their own.
        if !workloads {
            command.arg(format!("--controllers=*,-{}", WORKLOADS.join(",-")));
        }
        self.spawn("kube-controller-manager", &command)?;
        let mut command = Command::new(binaries.path(Program::Scheduler));
        shared(&mut command, scheduler);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        self.spawn("kube-scheduler", &command)
    }

    fn spawn(&mut self, name: &str, command: &Command) -> anyhow::Result<()> {
        self.parts.push(Process::spawn(name, self.folder.path(), command)?);
        Ok(())
    }

    fn wait_until_ready(&mut self, name: &str) -> anyhow::Result<()> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let answered = self.kubectl().args(["get", "--raw", "/readyz"]).output()?;
            if answered.status.success() {
                return Ok(());
            }
            let ended =
                self.parts.iter_mut().find_map(|part| Some((part.ended()?, part.last_words())));
            if let Some((status, words)) = ended {
                bail!("{name} did not get ready, a part ended: {status}; its last words:\n{words}");
            }
            if Instant::now() > until {
                let words: Vec<_> = self.parts.iter().map(Process::last_words).collect();
                bail!(
                    "{name} did not get ready in a minute; the last words:\n{}",
                    words.join("\n")
                );
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Returns the manifest of a node that KWOK plays.
pub(crate) fn node(index: usize) -> String {
    format!(
        "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: kwok-{index}\n  labels: {{kubernetes.io/hostname: kwok-{index}, \
         kubernetes.io/os: linux, kubernetes.io/arch: amd64}}\nstatus:\n  \
         allocatable: {{cpu: \"32\", memory: 256Gi, pods: \"110\"}}\n  capacity: {{cpu: \"32\", memory: 256Gi, pods: \"110\"}}\n"
    )
}

/// Finds free ports; all are held until all are found, so that they differ.
pub(crate) fn free_ports<const N: usize>() -> anyhow::Result<[u16; N]> {
    let held: Vec<TcpListener> =
        (0..N).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&held) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}
