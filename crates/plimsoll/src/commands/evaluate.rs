//! `plimsoll evaluate`: prints the decisions about the objects in files.

mod compact;
mod fleets;
mod load;
mod nodes;
mod origin;
mod policies;
mod replay;
mod world;

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use control::{Description, Unreadable};
use process::Clock;
use serde_json::json;

use crate::args::{Evaluate, Output};
use world::{Object, World};

/// Reads the files, and prints the decisions. Exit code 2 means that the input is invalid.
pub(crate) fn run(args: &Evaluate) -> anyhow::Result<ExitCode> {
    let now = args.now.unwrap_or_else(|| Clock::system().now());
    let world = match load::files(&args.files, now) {
        Ok(objects) => World::new(objects, now, args.count),
        Err(faults) => return report(faults),
    };
    let (mut decisions, mut unreadable) = (Vec::new(), Vec::new());
    for object in &world.objects {
        match decide(object, &world) {
            Ok(decision) => decisions.extend(decision),
            Err(problem) if unreadable.contains(&problem) => {}
            Err(problem) => unreadable.push(problem),
        }
    }
    if !unreadable.is_empty() {
        return report(unreadable.iter().flat_map(|object| world.faults(object)));
    }
    print(&decisions, args.output)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the problems of the input.
fn report(faults: impl IntoIterator<Item = impl fmt::Display>) -> anyhow::Result<ExitCode> {
    let mut err = std::io::stderr().lock();
    for fault in faults {
        writeln!(err, "{fault}")?;
    }
    Ok(ExitCode::from(2))
}

/// Decides about one object, given all others; `None` for kinds without decisions.
fn decide(object: &Object, world: &World) -> Result<Option<Description>, Unreadable> {
    match object.kind.as_str() {
        "Decision" => replay::decide(object),
        "AutoScalePolicy" => policies::service(object, world),
        "ScalingPolicy" => policies::scaling(object, world),
        "NodeAutoscaler" => nodes::decide(object, world),
        _ => fleets::decide(object, world),
    }
}

fn print(decisions: &[Description], output: Output) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match output {
        Output::Json => {
            let all: Vec<_> = decisions.iter().map(|d| &d.json).collect();
            writeln!(out, "{:#}", json!({ "decisions": all }))
        }
        Output::Text => decisions.iter().try_for_each(|d| write!(out, "{d}")),
    }
}
