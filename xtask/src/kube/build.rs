//! The programs of a real Kubernetes, built once from Go modules.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Context;

use super::go;
use crate::process::{Folder, Process};
use crate::run;

/// A program that is built from a Go module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Etcd,
    ApiServer,
    ControllerManager,
    Scheduler,
    Kubectl,
    /// The kubectl of an older Kubernetes, which clients still use.
    OldKubectl,
    Kwok,
    /// Kubernetes' own end-to-end tests.
    E2e,
    /// The metrics API of pods and nodes.
    MetricsServer,
    /// Docker's CLI plugin for the services of a project.
    Compose,
}

impl Program {
    /// The programs of a cluster.
    pub const CLUSTER: [Self; 6] = [
        Self::Etcd,
        Self::ApiServer,
        Self::Kubectl,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Kwok,
    ];

    /// Its file name, the folder below `xtask/kube` of its module, and its package.
    fn source(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Etcd => ("etcd", "etcd", "."),
            Self::ApiServer => {
                ("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver")
            }
            Self::ControllerManager => (
                "kube-controller-manager",
                "kubernetes",
                "k8s.io/kubernetes/cmd/kube-controller-manager",
            ),
            Self::Scheduler => {
                ("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler")
            }
            Self::Kubectl => ("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
            Self::OldKubectl => ("kubectl-old", "kubectl-old", "k8s.io/kubernetes/cmd/kubectl"),
            Self::Kwok => ("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
            Self::E2e => ("e2e.test", "kubernetes", "k8s.io/kubernetes/test/e2e"),
            Self::MetricsServer => (
                "metrics-server",
                "metrics-server",
                "sigs.k8s.io/metrics-server/cmd/metrics-server",
            ),
            Self::Compose => ("docker-compose", "compose", "github.com/docker/compose/v5/cmd"),
        }
    }
}

/// Where the built programs are.
pub struct Binaries {
    folder: PathBuf,
    /// The version of the older Kubernetes, of which there is only a kubectl.
    old: String,
    /// The version of metrics-server.
    metrics_server: String,
    /// The version of Docker Compose.
    compose: String,
}

impl Binaries {
    /// Builds the programs that are missing, and prints how long each took.
    pub fn build(programs: &[Program]) -> anyhow::Result<Self> {
        let kubernetes = required("kubernetes", "k8s.io/kubernetes")?;
        let (etcd, kwok) =
            (required("etcd", "go.etcd.io/etcd/server/v3")?, required("kwok", "sigs.k8s.io/kwok")?);
        let folder =
            super::cache()?.join("kube").join(format!("{kubernetes}_etcd-{etcd}_kwok-{kwok}"));
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("could not make {}", folder.display()))?;
        let old = required("kubectl-old", "k8s.io/kubernetes")?;
        let metrics_server = required("metrics-server", "sigs.k8s.io/metrics-server")?;
        let compose = required("compose", "github.com/docker/compose/v5")?;
        let binaries = Self { folder, old, metrics_server, compose };
        let missing: Vec<_> = programs.iter().filter(|p| !binaries.path(**p).exists()).collect();
        if missing.is_empty() {
            return Ok(binaries);
        }
        let go = go::find()?;
        for (index, program) in missing.iter().enumerate() {
            let name = program.source().0;
            eprintln!("building {name} ({} of {}; some minutes, once)", index + 1, missing.len());
            let started_at = Instant::now();
            binaries.build_one(&go, **program, &kubernetes)?;
            eprintln!("built {name} in {} s", started_at.elapsed().as_secs());
        }
        Ok(binaries)
    }

    /// Returns the path of a program.
    pub fn path(&self, program: Program) -> PathBuf {
        match program {
            // Their versions are not in the name of the folder, because they are of no interest to the cluster.
            Program::OldKubectl => self.folder.with_file_name(format!("kubectl-{}", self.old)),
            Program::MetricsServer => {
                self.folder.with_file_name(format!("metrics-server-{}", self.metrics_server))
            }
            Program::Compose => {
                self.folder.with_file_name(format!("docker-compose-{}", self.compose))
            }
            Program::Etcd
            | Program::ApiServer
            | Program::ControllerManager
            | Program::Scheduler
            | Program::Kubectl
            | Program::Kwok
            | Program::E2e => self.folder.join(program.source().0),
        }
    }

    /// Starts KWOK, which simulates the nodes of a cluster: nodes stay ready, pods run, complete and are deleted. Nodes whose kubelet is under test
    /// have a label, and are left alone.
    pub(crate) fn kwok(
        &self,
        folder: &Folder,
        kubeconfig: &Path,
        port: u16,
    ) -> anyhow::Result<Process> {
        let mut command = Command::new(self.path(Program::Kwok));
        command.arg("--kubeconfig").arg(kubeconfig).arg("--config").arg(self.kwok_stages());
        command.arg("--manage-nodes-with-label-selector=!plimsoll.dev/test-kubelet");
        command.arg(format!("--server-address=127.0.0.1:{port}"));
        // Otherwise it takes away the addresses that nodes were made with.
        command.arg("--node-ip=127.0.0.1");
        Process::spawn("kwok", folder.path(), &command)
    }

    fn kwok_stages(&self) -> PathBuf {
        self.folder.join("kwok-stages.yaml")
    }

    fn build_one(&self, go: &Path, program: Program, kubernetes: &str) -> anyhow::Result<()> {
        let (name, module, package) = program.source();
        let module = run::root().join("xtask/kube").join(module);
        let out = self.folder.join(format!("{name}.new"));
        let version = if program == Program::OldKubectl { &self.old } else { kubernetes };
        let verb: &[&str] = if program == Program::E2e { &["test", "-c"] } else { &["build"] };
        let flags = ["-trimpath", "-buildvcs=false", "-ldflags"];
        let mut command = Command::new(go);
        command.args(verb).args(flags).arg(link_flags(version)).arg("-o").arg(&out).arg(package);
        // Settings of the environment must not change what is built; the module decides which Go it needs.
        command.env_remove("GOFLAGS").env("GOTOOLCHAIN", "auto").env("CGO_ENABLED", "0");
        run::command_in(&module, &mut command)?;
        if program == Program::Kwok {
            self.keep_stages(go, &module)?;
        }
        std::fs::rename(&out, self.path(program)).with_context(|| format!("could not keep {name}"))
    }

    /// Joins the stages that KWOK's module publishes into the file that KWOK is started with.
    fn keep_stages(&self, go: &Path, module: &Path) -> anyhow::Result<()> {
        let listed = Command::new(go)
            .args(["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"])
            .current_dir(module)
            .output()
            .context("could not get the folder of KWOK's module")?;
        let stages =
            PathBuf::from(String::from_utf8(listed.stdout)?.trim()).join("kustomize/stage");
        let mut all = String::new();
        for stage in [
            "node/fast/node-initialize",
            "node/heartbeat/node-heartbeat",
            "pod/fast/pod-ready",
            "pod/fast/pod-complete",
            "pod/fast/pod-delete",
        ] {
            let path = stages.join(format!("{stage}.yaml"));
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("could not read {}", path.display()))?;
            all.push_str("---\n");
            all.push_str(&text);
        }
        std::fs::write(self.kwok_stages(), all).context("could not keep KWOK's stages")
    }
}

/// Without these the programs call themselves `v0.0.0-master`, and clients complain.
fn link_flags(version: &str) -> String {
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or("1"), numbers.next().unwrap_or("0"));
    let at = "k8s.io/component-base/version";
    format!("-s -w -X {at}.gitVersion={version} -X {at}.gitMajor={major} -X {at}.gitMinor={minor}")
}

/// Returns the version of `package` that a module below `xtask/kube` requires.
fn required(module: &str, package: &str) -> anyhow::Result<String> {
    let path = run::root().join("xtask/kube").join(module).join("go.mod");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("could not read {}", path.display()))?;
    let version = text.lines().filter(|line| !line.contains("=>")).find_map(|line| {
        let mut words = line.trim().trim_start_matches("require ").split_whitespace();
        (words.next() == Some(package)).then(|| words.next().unwrap_or_default().to_owned())
    });
    version.with_context(|| format!("{} does not require {package}", path.display()))
}
