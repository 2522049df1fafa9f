//! `plimsoll evaluate`: what would be decided about the objects in these files?

mod compact;
mod decision;
mod fleets;
mod load;
mod nodes;
mod origin;
mod policies;
mod world;

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use control::Unreadable;
use process::Clock;
use serde_json::json;

use crate::args::{Evaluate, Output};
use decision::Decision;
use world::{Object, World};

/// Reads the files, decides, prints. Exit code 2 means that the input is invalid.
pub(crate) fn run(args: &Evaluate) -> anyhow::Result<ExitCode> {
    let now = args.now.unwrap_or_else(|| Clock::system().now());
    let world = match load::files(&args.files, now) {
        Ok(objects) => World::new(objects, now, args.count),
        Err(faults) => return refuse(faults),
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
        return refuse(unreadable.iter().flat_map(|object| world.faults(object)));
    }
    print(&decisions, args.output)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what is wrong with the input.
fn refuse(faults: impl IntoIterator<Item = impl fmt::Display>) -> anyhow::Result<ExitCode> {
    let mut err = std::io::stderr().lock();
    for fault in faults {
        writeln!(err, "{fault}")?;
    }
    Ok(ExitCode::from(2))
}

/// Decides about one object with the others as its world; `None` where there is nothing to decide.
fn decide(object: &Object, world: &World) -> Result<Option<Decision>, Unreadable> {
    match object.kind.as_str() {
        "AutoScalePolicy" => policies::service(object, world),
        "ScalingPolicy" => policies::scaling(object, world),
        "NodeAutoscaler" => nodes::decide(object, world),
        _ => fleets::decide(object, world),
    }
}

fn print(decisions: &[Decision], output: Output) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match output {
        Output::Json => {
            let all: Vec<_> = decisions.iter().map(|d| &d.json).collect();
            writeln!(out, "{:#}", json!({ "decisions": all }))
        }
        Output::Text => decisions.iter().try_for_each(|d| write!(out, "{d}")),
    }
}
