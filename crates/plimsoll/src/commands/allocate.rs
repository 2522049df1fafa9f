//! `plimsoll allocate`: allocates game servers of a fleet through the Kubernetes API.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use api::allocation::{AllocationState, GameServerAllocation, GameServerAllocationStatus};
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::args::{Allocate, Output};
use crate::kubeconfig;

pub(crate) fn run(args: &Allocate) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (allocated, failure) = runtime.block_on(allocate(args))?;
    match args.output {
        Output::Json => print_json(&allocated)?,
        Output::Text => print_text(&allocated)?,
    }
    let (fleet, requested, count) = (&args.fleet, args.count, allocated.len());
    match failure {
        None => Ok(ExitCode::SUCCESS),
        Some(AllocationState::Contention) => {
            eprintln!(
                "plimsoll: fleet {fleet}: allocated {count} of {requested}; too many conflicts with other allocators, try again"
            );
            Ok(ExitCode::FAILURE)
        }
        Some(AllocationState::UnAllocated | AllocationState::Allocated) => {
            eprintln!(
                "plimsoll: fleet {fleet}: allocated {count} of {requested}; no other matching game server is Ready"
            );
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Allocates until the requested count is reached. Returns the state of the first allocation that failed, if any.
async fn allocate(
    args: &Allocate,
) -> anyhow::Result<(Vec<GameServerAllocationStatus>, Option<AllocationState>)> {
    let (client, namespace) = kubeconfig::client(args.kubeconfig.as_deref()).await?;
    let namespace = args.namespace.clone().unwrap_or(namespace);
    let mut allocated = Vec::new();
    while allocated.len() < args.count {
        let status = allocate_one(&client, &namespace, args).await?;
        match status.state {
            AllocationState::Allocated => allocated.push(status),
            failure @ (AllocationState::UnAllocated | AllocationState::Contention) => {
                return Ok((allocated, Some(failure)));
            }
        }
    }
    Ok((allocated, None))
}

async fn allocate_one(
    client: &Client,
    namespace: &str,
    args: &Allocate,
) -> anyhow::Result<GameServerAllocationStatus> {
    let mut labels = serde_json::Map::new();
    for (key, value) in args.selector.iter().flat_map(|labels| &labels.0) {
        labels.insert(key.clone(), json!(value));
    }
    labels.insert(api::agones::FLEET_LABEL.to_owned(), json!(args.fleet));
    let allocation = json!({
        "apiVersion": "allocation.agones.dev/v1", "kind": "GameServerAllocation",
        "metadata": {"namespace": namespace}, "spec": {"selectors": [{"matchLabels": labels}]},
    });
    let allocations: Api<GameServerAllocation> = Api::namespaced(client.clone(), namespace);
    let allocation: GameServerAllocation = serde_json::from_value(allocation)?;
    let response = allocations.create(&PostParams::default(), &allocation).await;
    let fleet = &args.fleet;
    let response = response.with_context(|| format!("could not allocate from fleet {fleet}"))?;
    response.status.with_context(|| {
        format!("could not allocate from fleet {fleet}: the response has no status; is the allocator running?")
    })
}

/// Prints the names, addresses and ports as a table.
fn print_text(allocated: &[GameServerAllocationStatus]) -> anyhow::Result<()> {
    let row = |status: &GameServerAllocationStatus| {
        let ports: Vec<String> =
            status.ports.iter().map(|p| format!("{}:{}", p.name, p.port)).collect();
        [status.game_server_name.clone(), status.address.clone(), ports.join(",")]
    };
    let head = ["NAME", "ADDRESS", "PORTS"].map(str::to_owned);
    let rows: Vec<[String; 3]> = std::iter::once(head).chain(allocated.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (name, address) = (width(0), width(1));
    let mut out = std::io::stdout().lock();
    for [a, b, c] in rows.iter().filter(|_| !allocated.is_empty()) {
        writeln!(out, "{a:name$}   {b:address$}   {c}")?;
    }
    Ok(())
}

fn print_json(allocated: &[GameServerAllocationStatus]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    Ok(writeln!(out, "{}", serde_json::to_string_pretty(&json!({"allocations": allocated}))?)?)
}
