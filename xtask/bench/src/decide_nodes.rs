//! Measures how long decisions about nodes take, and how well they pack.
//!
//! Every case runs in a process of its own, so that its peak of memory is its own too.

mod cases;
mod ffd;
mod measure;
mod objects;
mod world;

use std::process::Command;

use anyhow::Context;
use serde::de::DeserializeOwned;

use crate::report::Report;
use measure::Figures;

/// Runs every case or, in a child, the one it was started for: its evaluation, or only the conversion of its objects.
pub(crate) fn run(case: Option<usize>, converts: bool) -> anyhow::Result<Option<Report>> {
    let cases = cases::all();
    if let Some(number) = case {
        let case = cases.get(number).context("there is no such case")?;
        match converts {
            true => serde_json::to_writer(std::io::stdout(), &case.convert())?,
            false => serde_json::to_writer(std::io::stdout(), &case.measure())?,
        }
        return Ok(None);
    }
    let mut report = Report::new(
        "Nodes",
        &[
            "case",
            "timed",
            "peer",
            "aim",
            "ours",
            "conversion",
            "grouping",
            "looking",
            "planning",
            "nodes",
            "FFD",
            "bound",
            "pods placed",
            "objects MiB",
            "peak MiB",
        ],
    );
    for (number, case) in cases.iter().enumerate() {
        let figures: Figures = in_a_child(number, false)?;
        let conversion: f64 = in_a_child(number, true)?;
        report.row(&row(case, &figures, conversion).iter().map(String::as_str).collect::<Vec<_>>());
    }
    report.note(
        "Time on one core's CPU (not waiting for it), the best of several runs, one process per case. An evaluation starts from the objects that the autoscaler keeps in memory, each read once when \
         it arrives (conversion: reading all of them anew from Kubernetes' types), and contains all other phases: grouping (classes, counters, the snapshot), looking (groups, templates, pods that fit after \
         all), planning. Packing is the planning alone; predicate is one search over all nodes. Peers were measured \
         on two cores with CA 1.36.1 (in brackets with its fast path) and Karpenter of 2026-08, by their own benchmarks. FFD is \
         first fit decreasing, pod by pod, for the pods and the group that the plan chose; the bound is what no packing of \
         all pods into that group's nodes can go below, and what forces it. Memory is the process's: its objects, and the \
         peak of the evaluation with them.",
    );
    Ok(Some(report))
}

fn in_a_child<T: DeserializeOwned>(number: usize, converts: bool) -> anyhow::Result<T> {
    let program = std::env::current_exe()?;
    let number = number.to_string();
    let convert: &[&str] = if converts { &["--convert"] } else { &[] };
    let done =
        Command::new(program).args(["decide-nodes", "--case", &number]).args(convert).output()?;
    anyhow::ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Ok(serde_json::from_slice(&done.stdout)?)
}

fn row(case: &cases::Case, figures: &Figures, conversion: f64) -> Vec<String> {
    let timed = match case.timed {
        cases::Timed::Evaluation => figures.evaluation(),
        cases::Timed::Packing => figures.planning,
        cases::Timed::Predicate => figures.planning,
    };
    vec![
        case.name.to_owned(),
        case.timed.to_string(),
        case.peer.to_owned(),
        case.aim.to_owned(),
        millis(timed),
        millis(conversion),
        millis(figures.grouping),
        millis(figures.evaluating),
        millis(figures.planning),
        figures.nodes.clone(),
        figures.ffd.map_or_else(|| "-".to_owned(), |n| n.to_string()),
        figures.bound.clone(),
        figures.placed.clone(),
        figures.objects_mib.to_string(),
        figures.peak_mib.to_string(),
    ]
}

fn millis(seconds: f64) -> String {
    match seconds * 1000.0 {
        ms if ms < 1.0 => format!("{ms:.3} ms"),
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms => format!("{ms:.0} ms"),
    }
}
