//! `plimsoll allocate`: a game server of a fleet, through the Kubernetes API like any other client's request.

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
    let (given, missing) = runtime.block_on(allocate(args))?;
    match args.output {
        Output::Json => print_json(&given)?,
        Output::Text => print_text(&given)?,
    }
    match missing {
        None => Ok(ExitCode::SUCCESS),
        Some(AllocationState::Contention) => {
            eprintln!("plimsoll: other allocators were faster, again and again; try again");
            Ok(ExitCode::FAILURE)
        }
        Some(AllocationState::UnAllocated | AllocationState::Allocated) => {
            let (fleet, wanted) = (&args.fleet, args.count);
            eprintln!(
                "plimsoll: fleet {fleet} gave {} of {wanted}: no other is Ready and fits",
                given.len()
            );
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Asks until there are enough, or no more to be had; then the answer says why.
async fn allocate(
    args: &Allocate,
) -> anyhow::Result<(Vec<GameServerAllocationStatus>, Option<AllocationState>)> {
    let (client, namespace) = kubeconfig::client(args.kubeconfig.as_deref()).await?;
    let namespace = args.namespace.clone().unwrap_or(namespace);
    let mut given = Vec::new();
    while given.len() < args.count {
        let status = ask(&client, &namespace, args).await?;
        match status.state {
            AllocationState::Allocated => given.push(status),
            missing @ (AllocationState::UnAllocated | AllocationState::Contention) => {
                return Ok((given, Some(missing)));
            }
        }
    }
    Ok((given, None))
}

async fn ask(
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
    let answer = allocations.create(&PostParams::default(), &allocation).await;
    let answer = answer.with_context(|| format!("could not allocate from fleet {}", args.fleet))?;
    answer.status.context("the server gave no answer: is the allocator running?")
}

/// Prints what a caller connects to, lined up.
fn print_text(given: &[GameServerAllocationStatus]) -> anyhow::Result<()> {
    let row = |status: &GameServerAllocationStatus| {
        let ports: Vec<String> =
            status.ports.iter().map(|p| format!("{}:{}", p.name, p.port)).collect();
        [status.game_server_name.clone(), status.address.clone(), ports.join(",")]
    };
    let head = ["NAME", "ADDRESS", "PORTS"].map(str::to_owned);
    let rows: Vec<[String; 3]> = std::iter::once(head).chain(given.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (name, address) = (width(0), width(1));
    let mut out = std::io::stdout().lock();
    for [a, b, c] in rows.iter().filter(|_| !given.is_empty()) {
        writeln!(out, "{a:name$}   {b:address$}   {c}")?;
    }
    Ok(())
}

fn print_json(given: &[GameServerAllocationStatus]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    Ok(writeln!(out, "{}", serde_json::to_string_pretty(&json!({"allocations": given}))?)?)
}
