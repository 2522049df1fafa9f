//! `cargo xtask test`: everything the tests need, then the tests.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use xtask::docker::Docker;
use xtask::kube::{Binaries, Cluster, Options, Program};
use xtask::{conformance, docker, python, run};

/// Runs every test of the workspace, or those whose name contains `filter`, beside a real Kubernetes.
pub(crate) fn all(filter: Option<&str>) -> anyhow::Result<()> {
    let binaries = Binaries::build(&Program::CLUSTER)?;
    let mut command = Command::new("cargo");
    command.args(["test", "--workspace", "--locked", "--no-fail-fast"]);
    // Random cases are the same in every run: luck finds bugs when somebody looks for them, not when somebody lands.
    command.env("PROPTEST_RNG_SEED", "20261116");
    // A cluster of the user's own is used as it is; otherwise one is started, once for all tests.
    let cluster = match std::env::var_os(KUBECONFIG) {
        Some(_) => None,
        None => Some(Cluster::start(&binaries, &Options::default())?),
    };
    if let Some(cluster) = &cluster {
        command.env(KUBECONFIG, &cluster.kubeconfig);
    }
    command.env("PLIMSOLL_TEST_KUBECTL", binaries.path(Program::Kubectl));
    command.env("PLIMSOLL_TEST_PYTHON", python::interpreter()?);
    let docker = match std::env::var_os(DOCKER) {
        Some(_) => None,
        // Where there cannot be one, the tests say what they skip; in continuous integration that is a failure.
        None => Docker::start().inspect_err(|err| eprintln!("{err:#}")).ok(),
    };
    if let Some(docker) = &docker {
        command.env(DOCKER, docker.socket()).env("PLIMSOLL_TEST_DOCKER_IMAGE", docker::IMAGE);
    }
    // Twenty thousand take minutes, since each allocator that starts again reads every server: continuous integration has them.
    if std::env::var_os("PLIMSOLL_TEST_CHAOS").is_none() {
        let is_ci = std::env::var_os("CI").is_some();
        command.env("PLIMSOLL_TEST_CHAOS", if is_ci { "20000" } else { "2000" });
    }
    if let Some(filter) = filter {
        command.args(["--", filter]);
    }
    run::command(&mut command)?;
    drop((cluster, docker));
    // A filter names tests of our own; without one, Kubernetes' tests have their say too.
    if filter.is_none() { conformance::command(true) } else { Ok(()) }
}

/// Runs the test with hostile requests, in a release build.
pub(crate) fn hostile(requests: u64, seed: Option<u64>) -> anyhow::Result<()> {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let mut command = Command::new("cargo");
    command.args(["test", "--release", "--locked", "--package", "plimsoll", "--test", "it"]);
    command.args(["hostile", "--", "--nocapture"]);
    command.env("PLIMSOLL_TEST_HOSTILE", requests.to_string());
    command.env("PLIMSOLL_TEST_HOSTILE_SEED", seed.unwrap_or_else(now).to_string());
    run::command(&mut command)
}

/// Names the cluster that tests compare with.
const KUBECONFIG: &str = "PLIMSOLL_TEST_KUBECONFIG";

/// Names the socket of the Docker Engine that tests may use.
const DOCKER: &str = "PLIMSOLL_TEST_DOCKER";

/// Lets the tests that compare with generated files write them instead.
pub(crate) fn bless() -> anyhow::Result<()> {
    run::command(
        Command::new("cargo").args(["test", "--workspace", "--quiet"]).env("PLIMSOLL_BLESS", "1"),
    )
}
