//! `plimsoll evaluate`: what would be decided about the objects in these files?

mod compact;
mod decision;
mod fleets;
mod load;
mod nodes;
mod policies;
mod world;

use std::io::Write;
use std::process::ExitCode;

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
        Err(problems) => {
            let mut err = std::io::stderr().lock();
            for problem in problems {
                writeln!(err, "{problem}")?;
            }
            return Ok(ExitCode::from(2));
        }
    };
    let decisions: Vec<Decision> =
        world.objects.iter().filter_map(|object| decide(object, &world)).collect();
    print(&decisions, args.output)?;
    Ok(ExitCode::SUCCESS)
}

/// Decides about one object with the others as its world; `None` where there is nothing to decide.
fn decide(object: &Object, world: &World) -> Option<Decision> {
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
