//! Runs Kubernetes' own conformance tests against the embedded engine.
//!
//! `e2e.test` is built from the Go modules and run unmodified against `plimsoll up`. No pod runs a program: KWOK simulates the nodes, as it does
//! on the real Kubernetes that the same tests pass on (`--real`).

mod groups;
mod page;
mod place;

use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::kube::{Binaries, Program};
use crate::process::Folder;
use crate::run;
use place::Place;

/// Which tests to run, and where.
#[derive(Debug, Default)]
pub struct Options {
    /// Only those that take under a minute together.
    pub short: bool,
    /// Only those that match this regular expression.
    pub focus: Option<String>,
    /// On a real Kubernetes.
    pub real: bool,
}

/// The outcome of one test.
struct Outcome {
    name: String,
    passed: bool,
    seconds: f64,
    message: String,
}

/// Runs the tests. The full run on the embedded engine writes `docs/conformance.md`.
pub fn command(options: &Options) -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let (binaries, place) = if options.real {
        let binaries = Binaries::build(&[&Program::CLUSTER[..], &[Program::E2e]].concat())?;
        let place = Place::real(&binaries)?;
        (binaries, place)
    } else {
        let binaries = Binaries::build(&[Program::Kubectl, Program::Kwok, Program::E2e])?;
        // The same build as that of the tests, so that nothing is built twice.
        run::cargo(&["test", "--workspace", "--locked", "--quiet", "--no-run"])?;
        let place = Place::embedded(&binaries, &folder)?;
        (binaries, place)
    };
    let outcomes = judge(&binaries, &folder, &place, options)?;
    drop(place);
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
    let is_full = !options.short && options.focus.is_none();
    if is_full && !options.real {
        std::fs::write(run::root().join("docs/conformance.md"), page::render(&outcomes))?;
    }
    if passed < outcomes.len() || outcomes.is_empty() || (is_full && passed < groups::COUNT) {
        bail!("{passed} conformance tests of {} passed", outcomes.len());
    }
    Ok(())
}

/// Runs `e2e.test` and reads its report.
fn judge(
    binaries: &Binaries,
    folder: &Folder,
    place: &Place,
    options: &Options,
) -> anyhow::Result<Vec<Outcome>> {
    let report = folder.join("report.json");
    let mut command = Command::new(binaries.path(Program::E2e));
    command
        .arg("--kubeconfig")
        .arg(&place.kubeconfig)
        .arg("--kubectl-path")
        .arg(binaries.path(Program::Kubectl));
    command.arg(format!("--ginkgo.json-report={}", report.display())).args([
        "--provider=skeleton",
        "--allowed-not-ready-nodes=-1",
        "--minStartupPods=0",
        "--kube-api-content-type=application/json",
        "--ginkgo.no-color",
        "--ginkgo.timeout=3h",
    ]);
    command.arg(match &options.focus {
        Some(focus) => format!("--ginkgo.focus={focus}"),
        None => format!("--ginkgo.focus={}", groups::focus(options.short)),
    });
    if options.focus.is_none() {
        command.arg(format!("--ginkgo.skip={}", groups::skip()));
    }
    let log = std::fs::File::create(folder.join("e2e.log"))?;
    eprintln!("running Kubernetes' conformance tests");
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
