//! `cargo xtask test`: everything the tests need, then the tests.

mod again;

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use xtask::docker::Docker;
use xtask::kube::{Binaries, Cluster, Options, Program};
use xtask::{conformance, docker, prometheus, python, run, servers};

/// Runs every test of the workspace, or those whose name contains `filter`, beside a real Kubernetes.
pub(crate) fn run(filter: Option<&str>) -> anyhow::Result<()> {
    tests(filter, false)?;
    // A filter names tests of our own; without one, the short part of Kubernetes' conformance tests follows.
    if filter.is_none() {
        conformance::command(&conformance::Options { short: true, ..Default::default() })
    } else {
        Ok(())
    }
}

/// Runs everything there is, which takes most of an hour.
pub(crate) fn with_long_suites() -> anyhow::Result<()> {
    tests(None, true)?;
    random_cases()?;
    conformance::command(&conformance::Options::default())?;
    hostile(HOSTILE_REQUESTS, None)
}

/// The number of attacks of the long suite. Some only open connections, so that a little fewer requests are sent.
pub(crate) const HOSTILE_REQUESTS: u64 = 52_000;

/// The crates whose tests draw random cases, and the targets that have them.
const WITH_RANDOM_CASES: [(&str, &str); 4] = [
    ("plimsoll-decide", "--all-targets"),
    ("plimsoll-api", "--all-targets"),
    ("plimsoll-apimachinery", "--all-targets"),
    ("plimsoll-apiserver", "--lib"),
];

/// Runs the tests with random cases with a seed that no run had before, and prints it.
fn random_cases() -> anyhow::Result<()> {
    let seed = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() % (1 << 62))?;
    eprintln!("random cases with PROPTEST_RNG_SEED={seed}: set it to repeat them");
    for (package, targets) in WITH_RANDOM_CASES {
        let mut command = Command::new("cargo");
        command.args(["test", "--locked", "--no-fail-fast", "--package", package, targets]);
        run::command(command.env("PROPTEST_RNG_SEED", seed.to_string()))?;
    }
    Ok(())
}

/// Runs the tests of the workspace beside a real Kubernetes; those that take long only where `is_long`.
fn tests(filter: Option<&str>, is_long: bool) -> anyhow::Result<()> {
    let binaries = Binaries::build(&Program::CLUSTER)?;
    Binaries::build(&[Program::OldKubectl])?;
    let mut command = Command::new("cargo");
    command.args(TESTS);
    // Random cases are the same in every run, so that a run fails only because of a change. New cases are for a run of their own.
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
    command.env("PLIMSOLL_TEST_KUBECTL_OLD", binaries.path(Program::OldKubectl));
    command.env("PLIMSOLL_TEST_PYTHON", python::interpreter()?);
    let docker = match std::env::var_os(DOCKER) {
        Some(_) => None,
        // Where there cannot be one, the tests print what they skip; in continuous integration that is a failure.
        None => Docker::start().inspect_err(|err| eprintln!("{err:#}")).ok(),
    };
    if let Some(docker) = &docker {
        command.env(DOCKER, docker.socket()).env("PLIMSOLL_TEST_DOCKER_IMAGE", docker::IMAGE);
    }
    if std::env::var_os(PROMETHEUS).is_none() {
        match prometheus::program() {
            Ok(program) => drop(command.env(PROMETHEUS, program)),
            Err(err) => eprintln!("{err:#}"),
        }
    }
    command.envs(servers::variables());
    // Moto takes any credentials, and the tests take those of the environment, as users do.
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
        if std::env::var_os(name).is_none() {
            command.env(name, "test");
        }
    }
    // Twenty thousand take minutes, since each allocator that starts again reads every server: continuous integration has them.
    if std::env::var_os("PLIMSOLL_TEST_CHAOS").is_none() {
        let is_ci = std::env::var_os("CI").is_some();
        command.env("PLIMSOLL_TEST_CHAOS", if is_ci { "20000" } else { "2000" });
    }
    if is_long {
        Binaries::build(&[Program::MetricsServer, Program::Compose])?;
        command.env("PLIMSOLL_TEST_SLOW", "1");
        command.env("PLIMSOLL_TEST_KWOK", binaries.path(Program::Kwok));
        command.env("PLIMSOLL_TEST_METRICS_SERVER", binaries.path(Program::MetricsServer));
        command.env("PLIMSOLL_TEST_COMPOSE", binaries.path(Program::Compose));
    }
    if let Some(filter) = filter {
        command.args(["--", filter]);
    }
    let (status, lines) = run::captured(&mut command)?;
    if status.success() {
        return Ok(());
    }
    again::run(&command, &lines)
}

/// The arguments of cargo that run the tests of the workspace.
const TESTS: [&str; 4] = ["test", "--workspace", "--locked", "--no-fail-fast"];

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

/// Names the Prometheus that tests start.
const PROMETHEUS: &str = "PLIMSOLL_TEST_PROMETHEUS";

/// Lets the test that compares the documentation with the program's output write the output instead.
pub(crate) fn write_documented_output() -> anyhow::Result<()> {
    let mut command = Command::new("cargo");
    command.args(["test", "--quiet", "--package", "plimsoll", "--test", "it", "guide"]);
    run::command(command.env("PLIMSOLL_BLESS", "1"))
}
