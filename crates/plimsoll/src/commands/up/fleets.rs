//! Which fleets came up, and where are their game servers?
//!
//! After the files are applied a person wants one thing: an address to send a packet to. Until it is there, they see how
//! far it is and what stands in the way.

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write as _};
use std::pin::pin;
use std::time::Duration;

use api::agones::{Fleet, GameServer};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, ListParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};

/// How many game servers of a fleet are listed.
const LISTED: usize = 10;
/// How long a person does not notice.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Shows how the fleets come up, and lists their game servers once they are there.
pub(crate) async fn follow(client: &Client) -> anyhow::Result<()> {
    let fleets = Api::<Fleet>::all(client.clone()).list(&ListParams::default()).await?.items;
    let all_ready = async {
        for fleet in &fleets {
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

/// Waits until a fleet has as many game servers as it should.
async fn wait(client: &Client, namespace: &str, name: &str) -> anyhow::Result<()> {
    let fleets: Api<Fleet> = Api::namespaced(client.clone(), namespace);
    let mut progress = Progress::new();
    while let Some(fleet) = fleets.get_opt(name).await? {
        let status = fleet.status.unwrap_or_default();
        let up = status.ready_replicas + status.reserved_replicas + status.allocated_replicas;
        if up >= fleet.spec.replicas && runs(client, namespace, name).await? {
            break;
        }
        progress.show(&format!("fleet/{name}: {up} of {} game servers ready", fleet.spec.replicas));
        tokio::time::sleep(LOOK_AGAIN_AFTER).await;
    }
    progress.clear();
    Ok(())
}

/// Tells whether every game server of a fleet is up and has a pod that runs: the fleet's status may be that of an earlier process.
async fn runs(client: &Client, namespace: &str, fleet: &str) -> anyhow::Result<bool> {
    let servers: Api<GameServer> = Api::namespaced(client.clone(), namespace);
    let of_fleet = ListParams::default().labels(&format!("agones.dev/fleet={fleet}"));
    let servers = servers.list(&of_fleet).await?.items;
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

/// Lists the game servers of a fleet with their addresses, and says how to reach one.
async fn list(client: &Client, namespace: &str, fleet: &str) -> anyhow::Result<()> {
    let servers: Api<GameServer> = Api::namespaced(client.clone(), namespace);
    let of_fleet = ListParams::default().labels(&format!("agones.dev/fleet={fleet}"));
    let servers = servers.list(&of_fleet).await?.items;
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
        writeln!(out, "talk to one: echo hello | nc -u -w1 {host} {port}")?;
    }
    out.flush()?;
    Ok(())
}

fn row(server: &GameServer) -> Option<[String; 3]> {
    let status = server.status.as_ref()?;
    let port = status.ports.as_ref()?.first()?.port;
    Some([server.name_any(), status.state.clone(), format!("{}:{port}", status.address)])
}

/// Says what goes wrong, as it goes wrong. Ends only when it cannot look.
async fn warn(client: Client) -> anyhow::Result<()> {
    let events: Api<Event> = Api::all(client);
    let warnings = watcher::Config::default().fields("type=Warning");
    let mut warnings = pin!(watcher(events, warnings).default_backoff().applied_objects());
    while let Some(event) = warnings.next().await {
        let Ok(event) = event else { continue };
        let object = &event.involved_object;
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let kind = text(&object.kind).to_lowercase();
        eprintln!("warning: {kind}/{}: {}", text(&object.name), text(&event.message));
    }
    std::future::pending().await
}

/// One line on a terminal that is written over; nothing where nobody looks.
struct Progress {
    is_shown: bool,
    shown: bool,
}

impl Progress {
    fn new() -> Self {
        Self { is_shown: std::io::stderr().is_terminal(), shown: false }
    }

    fn show(&mut self, line: &str) {
        if self.is_shown {
            eprint!("\r\x1b[2K{line}");
            self.shown = true;
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            eprint!("\r\x1b[2K");
        }
    }
}
