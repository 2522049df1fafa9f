//! Prints the game servers of all fleets with their addresses, once they are Ready.
//!
//! Until then it shows the progress, and the warning events.

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write as _};
use std::pin::pin;
use std::time::Duration;

use api::agones::{Fleet, GameServer};
use cluster::Undecoded;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, ListParams};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use process::Random;

/// The maximum number of game servers listed per fleet.
const LISTED: usize = 10;
/// The interval at which the status of a fleet is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Shows the progress of all fleets, and lists their game servers once they are Ready.
pub(crate) async fn follow(client: &Client) -> anyhow::Result<()> {
    let fleets: Api<Undecoded<Fleet>> = Api::all(client.clone());
    let fleets = fleets.list(&ListParams::default()).await?.items;
    let all_ready = async {
        for fleet in fleets.iter().filter_map(Undecoded::decode) {
            let namespace = fleet.namespace().unwrap_or_default();
            wait(client, &namespace, &fleet.name_any()).await?;
            list(client, &namespace, &fleet.name_any()).await?;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        done = all_ready => done,
        never = warn(client.clone()) => never,
    }
}

/// Waits until all replicas of a fleet are up.
async fn wait(client: &Client, namespace: &str, name: &str) -> anyhow::Result<()> {
    let fleets: Api<Fleet> = Api::namespaced(client.clone(), namespace);
    let mut progress = Progress::new();
    while let Some(fleet) = fleets.get_opt(name).await? {
        let status = fleet.status.unwrap_or_default();
        let up = status.ready_replicas + status.reserved_replicas + status.allocated_replicas;
        if up >= fleet.spec.replicas && is_running(client, namespace, name).await? {
            break;
        }
        progress.show(&format!("fleet/{name}: {up} of {} game servers Ready", fleet.spec.replicas));
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    progress.clear();
    Ok(())
}

/// Lists the game servers of a fleet. One that cannot be decoded is logged and left out.
async fn servers(
    client: &Client,
    namespace: &str,
    fleet: &str,
) -> Result<Vec<GameServer>, kube::Error> {
    let servers: Api<Undecoded<GameServer>> = Api::namespaced(client.clone(), namespace);
    let of_fleet = ListParams::default().labels(&format!("agones.dev/fleet={fleet}"));
    Ok(servers.list(&of_fleet).await?.iter().filter_map(Undecoded::decode).collect())
}

/// Returns whether every game server of a fleet is up and has a running pod. The fleet's status may still be that of an earlier process.
async fn is_running(client: &Client, namespace: &str, fleet: &str) -> anyhow::Result<bool> {
    let servers = servers(client, namespace, fleet).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let running = ListParams::default().fields("status.phase=Running");
    let running: BTreeSet<String> =
        pods.list_metadata(&running).await?.iter().map(|pod| pod.name_any()).collect();
    let is_up = |server: &GameServer| {
        let state = server.status.as_ref().map(|status| status.state.as_str());
        matches!(state, Some("Ready" | "Reserved" | "Allocated"))
    };
    Ok(servers.iter().all(|server| is_up(server) && running.contains(&server.name_any())))
}

/// Prints the game servers of a fleet with their addresses, and a command to try one.
async fn list(client: &Client, namespace: &str, fleet: &str) -> anyhow::Result<()> {
    let servers = servers(client, namespace, fleet).await?;
    let rows: Vec<[String; 3]> = servers.iter().filter_map(row).collect();
    let width = |column: usize| rows.iter().map(|r| r[column].len()).max().unwrap_or(0);
    let (names, states) = (width(0), width(1));
    let mut out = std::io::stdout();
    writeln!(out, "fleet/{fleet}: {} game servers", servers.len())?;
    for [name, state, address] in rows.iter().take(LISTED) {
        writeln!(out, "  {name:names$}  {state:states$}  {address}")?;
    }
    if rows.len() > LISTED {
        writeln!(out, "  and {} more: kubectl get gameservers", rows.len() - LISTED)?;
    }
    if let Some((host, port)) = rows.first().and_then(|row| row[2].rsplit_once(':')) {
        writeln!(out, "try it: echo hello | nc -u -w1 {host} {port}")?;
    }
    out.flush()?;
    Ok(())
}

fn row(server: &GameServer) -> Option<[String; 3]> {
    let status = server.status.as_ref()?;
    let port = status.ports.as_ref()?.first()?.port;
    Some([server.name_any(), status.state.clone(), format!("{}:{port}", status.address)])
}

/// Prints warning events as they arrive.
async fn warn(client: Client) -> anyhow::Result<()> {
    let events: Api<Undecoded<Event>> = Api::all(client);
    let warnings = watcher::Config::default().fields("type=Warning");
    let mut warnings = pin!(cluster::watch(events, warnings, Random::system()));
    while let Some(event) = warnings.next().await {
        let watcher::Event::Apply(event) = event else { continue };
        let Some(event) = event.decode() else { continue };
        let object = &event.involved_object;
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let kind = text(&object.kind).to_lowercase();
        eprintln!("warning: {kind}/{}: {}", text(&object.name), text(&event.message));
    }
    std::future::pending().await
}

/// A progress line that is overwritten in place; nothing is printed if standard error is not a terminal.
struct Progress {
    is_terminal: bool,
    has_line: bool,
}

impl Progress {
    fn new() -> Self {
        Self { is_terminal: std::io::stderr().is_terminal(), has_line: false }
    }

    fn show(&mut self, line: &str) {
        if self.is_terminal {
            eprint!("\r\x1b[2K{line}");
            self.has_line = true;
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.has_line) {
            eprint!("\r\x1b[2K");
        }
    }
}
