//! Kubernetes' own conformance tests, as a judge of the embedded engine.
//!
//! `e2e.test` is built from the Go modules and run unmodified against `plimsoll up`. The engine alone runs no pods
//! that anything can wait for, so the real scheduler and KWOK play one node beside it, as they do on the cluster that
//! the same tests were first seen to pass on.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::kube::{Binaries, Program, free_ports, node};
use crate::process::{Folder, Process};
use crate::run;

/// The groups whose tests need nothing but an API server and a pod that runs.
const GROUPS: &str = "Watchers|CustomResourceDefinition|CustomResourcePublishOpenAPI|FieldValidation|Namespaces|\
                      OrderedNamespaceDeletion|API chunking|Table transformation|Discovery|server version";
/// Those of them that take under a minute together.
const SHORT_GROUPS: &str = "Watchers|FieldValidation|Table transformation|Discovery|server version";
/// How many tests the groups hold.
const ALL_PASS: usize = 43;

/// The groups of `sig-api-machinery` that are not run, and why.
const OUT_OF_SCOPE: [(&str, &str); 8] = [
    (
        "AdmissionWebhook, ValidatingAdmissionPolicy, MutatingAdmissionPolicy",
        "admission is built in; the tests run a webhook in a pod or need CEL policies",
    ),
    (
        "Aggregator",
        "the tests run an API server in a pod; the embedded API server delegates groups only to services in its own process",
    ),
    (
        "CustomResourceConversionWebhook, CustomResourceFieldSelectors",
        "the tests need a webhook in a pod",
    ),
    ("CustomResourceValidationRules", "CEL rules are not implemented"),
    ("ResourceQuota", "quotas are stored but not enforced"),
    ("API priority and fairness", "not needed for one user on one machine"),
    (
        "Garbage collector",
        "the tests need the ReplicationController, Deployment and Job controllers",
    ),
    ("Watchers: compacted away", "the test waits more than ten minutes for compaction"),
];

/// One test and how it went.
struct Outcome {
    name: String,
    passed: bool,
    seconds: f64,
    message: String,
}

/// Runs the tests against the embedded engine. The full run writes `docs/conformance.md`.
pub fn command(short: bool) -> anyhow::Result<()> {
    let binaries =
        Binaries::build(&[Program::Kubectl, Program::Scheduler, Program::Kwok, Program::E2e])?;
    // The same build as that of the tests, so that nothing is built twice.
    run::cargo(&["test", "--workspace", "--locked", "--quiet", "--no-run"])?;
    let folder = Folder::new()?;
    let engine = Running::start(&binaries, &folder)?;
    let outcomes = judge(&binaries, &folder, &engine, if short { SHORT_GROUPS } else { GROUPS })?;
    drop(engine);
    for outcome in outcomes.iter().filter(|o| !o.passed) {
        eprintln!(
            "FAILED {} ({:.1} s)\n  {}",
            outcome.name,
            outcome.seconds,
            outcome.message.replace('\n', "\n  ")
        );
    }
    let passed = outcomes.iter().filter(|o| o.passed).count();
    eprintln!("conformance: {passed} passed, {} failed", outcomes.len() - passed);
    if !short {
        std::fs::write(run::root().join("docs/conformance.md"), page(&outcomes))?;
    }
    if passed < outcomes.len() || outcomes.is_empty() || (!short && passed < ALL_PASS) {
        bail!("{passed} conformance tests of {} passed", outcomes.len());
    }
    Ok(())
}

/// The embedded engine under test, with a scheduler and KWOK beside it.
struct Running {
    kubeconfig: PathBuf,
    _parts: Vec<Process>,
}

impl Running {
    fn start(binaries: &Binaries, folder: &Folder) -> anyhow::Result<Self> {
        let kubeconfig = folder.join("kubeconfig");
        let mut up = Command::new(run::target().join("debug/plimsoll"));
        up.args([
            "up",
            "--api-only",
            "--ephemeral",
            "--listen",
            "127.0.0.1:0",
            "--write-kubeconfig",
        ])
        .arg(&kubeconfig);
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
        let [scheduler_port, kwok_port] = free_ports()?;
        let mut scheduler = Command::new(binaries.path(Program::Scheduler));
        scheduler.arg("--kubeconfig").arg(&kubeconfig).args([
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            &format!("--secure-port={scheduler_port}"),
            "--kube-api-content-type=application/json",
        ]);
        parts.push(Process::spawn("kube-scheduler", folder.path(), &scheduler)?);
        parts.push(binaries.kwok(folder, &kubeconfig, kwok_port)?);
        let manifest = folder.join("node.yaml");
        std::fs::write(&manifest, node(0))?;
        run::command(kubectl().args(["apply", "--server-side", "-f"]).arg(&manifest))?;
        Ok(Self { kubeconfig, _parts: parts })
    }
}

/// Runs `e2e.test` and reads its report.
fn judge(
    binaries: &Binaries,
    folder: &Folder,
    engine: &Running,
    groups: &str,
) -> anyhow::Result<Vec<Outcome>> {
    let report = folder.join("report.json");
    let mut command = Command::new(binaries.path(Program::E2e));
    command
        .arg("--kubeconfig")
        .arg(&engine.kubeconfig)
        .arg("--kubectl-path")
        .arg(binaries.path(Program::Kubectl));
    command.arg(format!("--ginkgo.json-report={}", report.display())).args([
        "--provider=skeleton",
        "--allowed-not-ready-nodes=-1",
        "--minStartupPods=0",
        "--kube-api-content-type=application/json",
        "--ginkgo.no-color",
        "--ginkgo.timeout=30m",
        &format!("--ginkgo.focus=sig-api-machinery.*({groups}).*Conformance"),
        "--ginkgo.skip=compacted away",
    ]);
    let log = std::fs::File::create(folder.join("e2e.log"))?;
    eprintln!("running Kubernetes' conformance tests: {groups}");
    let status = command
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()
        .context("could not start e2e.test")?;
    let text = std::fs::read_to_string(&report).with_context(|| {
        let log = std::fs::read_to_string(folder.join("e2e.log")).unwrap_or_default();
        format!("e2e.test left no report ({status}):\n{log}")
    })?;
    Ok(read(&serde_json::from_str(&text)?))
}

fn read(report: &Value) -> Vec<Outcome> {
    let specs =
        report.as_array().into_iter().flatten().flat_map(|suite| suite["SpecReports"].as_array());
    let is_run = |spec: &&Value| {
        spec["LeafNodeType"] == "It"
            && !matches!(spec["State"].as_str(), Some("skipped" | "pending"))
    };
    let outcome = |spec: &Value| Outcome {
        name: name(spec),
        passed: spec["State"] == "passed",
        seconds: spec["RunTime"].as_f64().unwrap_or_default() / 1e9,
        message: spec["Failure"]["Message"].as_str().unwrap_or_default().to_owned(),
    };
    specs.flatten().filter(is_run).map(outcome).collect()
}

fn name(spec: &Value) -> String {
    let words = spec["ContainerHierarchyTexts"]
        .as_array()
        .into_iter()
        .flatten()
        .chain([&spec["LeafNodeText"]]);
    words.filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
}

/// Writes the page that people read.
fn page(outcomes: &[Outcome]) -> String {
    let passed = outcomes.iter().filter(|o| o.passed).count();
    let mut out = format!(
        "# Conformance\n\nGenerated by `cargo xtask conformance`, which runs the unmodified Kubernetes `e2e.test` \
         against the embedded API server.\n{passed} of {} tests passed.\n\n| test | result | seconds |\n|---|---|---|\n",
        outcomes.len()
    );
    let mut rows: Vec<&Outcome> = outcomes.iter().collect();
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    for row in rows {
        let result = if row.passed { "passed" } else { "failed" };
        let _ =
            writeln!(out, "| {} | {result} | {:.1} |", row.name.replace('|', "\\|"), row.seconds);
    }
    out.push_str("\n## Not run\n\n| group of `sig-api-machinery` | reason |\n|---|---|\n");
    for (group, why) in OUT_OF_SCOPE {
        let _ = writeln!(out, "| {group} | {why} |");
    }
    out
}
