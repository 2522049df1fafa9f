//! Fault injection with many callers and two allocator processes.
//!
//! Allocators and controllers are killed, connections are cut on both sides, someone else changes the same servers and makes their
//! fleet smaller all the while. Each request leaves its ticket on the server it gets. Afterwards every answer must be true, no
//! server may have been given twice, none that was given may be shut down, and no ticket may be on a server that its caller was
//! not given in its response, unless that caller got no response at all.
//!
//! `PLIMSOLL_TEST_CHAOS` says how many requests are to be answered on the embedded engine. `cargo xtask test` asks for 2,000, and for
//! 20,000 in continuous integration.

mod breaking;
mod fleet;
mod tickets;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kube::Client;
use kube::config::Kubeconfig;
use plimsoll_serve::proto::allocation::allocation_service_client::AllocationServiceClient;
use serde_json::json;
use tonic::Code;
use tonic::transport::Endpoint;

use super::World;
use super::world::{create_object, ready_server};
use breaking::{Process, Proxy};
use fleet::Controllers;
use tickets::{Book, Kind};

const CALLERS: usize = 128;
/// Servers that many callers share, and how many fit on each.
const SHARED: usize = 40;
const SEATS: usize = 100;
/// By how much the fleet gets smaller each time.
const SMALLER: u8 = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_server_is_given_twice_or_lost_on_the_embedded_engine() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let engine = engine::Engine::open(engine::Settings::in_directory(data)).await.unwrap();
    let listening = engine.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    engine.write_kubeconfig(&kubeconfig, &listening).unwrap();
    let world = World { engine };
    let target = std::env::var("PLIMSOLL_TEST_CHAOS").ok().and_then(|n| n.parse().ok());
    run(&world.engine.client(), &kubeconfig, dir.path(), "default", target.unwrap_or(1_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_server_is_given_twice_or_lost_on_a_real_api_server() {
    let Some(real) = super::real::Real::new().await else { return };
    let dir = tempfile::tempdir().unwrap();
    run(&real.client, &real.kubeconfig, dir.path(), &real.namespace, 2_000).await;
    real.clean_up().await;
}

async fn run(client: &Client, kubeconfig: &Path, dir: &Path, namespace: &str, target: usize) {
    let started = Instant::now();
    // Whatever breaks takes at most half of the callers' answers with it, and their servers.
    let breaks = (target / 100).clamp(15, 100);
    let alone = target + breaks * (CALLERS / 2 + usize::from(SMALLER));
    fill(client, namespace, alone).await;
    eprintln!("{alone} servers after {:.1} s", started.elapsed().as_secs_f32());
    let api = Proxy::to(port_of(kubeconfig)).await;
    let through = through(kubeconfig, dir, api.port);
    let mut controllers = Controllers::start(super::real::connect(&through).await, namespace);
    let mut allocators = Vec::new();
    // One replaces servers and the other patches them: they must get along.
    for replaces in [true, false] {
        let process = Process::start(&through, replaces).await;
        let proxy = Proxy::to(process.port).await;
        allocators.push((process, proxy));
    }
    let book = Arc::new(Book::new(namespace));
    let callers: Vec<_> = (0..CALLERS)
        .map(|index| {
            let port = allocators[index % 2].1.port;
            tokio::spawn(call(port, Arc::clone(&book), target))
        })
        .collect();
    let meddling = tokio::spawn(meddle(client.clone(), namespace.to_owned(), alone));
    let mut kills = 0;
    for round in 1..=breaks {
        book.answers(target * round / breaks, started).await;
        fleet::shrink(client, namespace, SMALLER.into()).await;
        let index = fastrand::usize(..2);
        let (process, proxy) = &mut allocators[index];
        match round % 4 {
            0 => {
                process.kill().await;
                *process = Process::start(&through, index == 0).await;
                proxy.lead_to(process.port);
                kills += 1;
            }
            1 => proxy.cut(),
            2 => controllers.kill().await,
            _ => api.cut(),
        }
    }
    for caller in callers {
        caller.await.unwrap();
    }
    meddling.abort();
    // Writes in flight end with the processes that sent them.
    for (process, _) in &mut allocators {
        process.kill().await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    fleet::settles(client, namespace).await;
    let took = started.elapsed().as_secs_f32();
    eprintln!("{}; {breaks} breaks, {kills} processes killed, {took:.1} s", book.summary());
    book.check(client, alone).await;
}

/// Asks for servers until there are enough answers.
async fn call(port: u16, book: Arc<Book>, target: usize) {
    let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).unwrap();
    let endpoint =
        endpoint.connect_timeout(Duration::from_secs(5)).timeout(Duration::from_secs(60));
    let mut client = AllocationServiceClient::new(endpoint.connect_lazy());
    while book.answered() < target {
        let kind = if fastrand::u8(..10) == 0 { Kind::Shared } else { Kind::Alone };
        let ticket = book.ticket(kind);
        match client.allocate(book.request(kind, &ticket)).await {
            Ok(answer) => book.allocated(&ticket, &answer.into_inner()),
            // A refusal by the allocator itself: it says that nothing was given.
            Err(status) if is_refusal(status.code()) => book.refused(&ticket, status.code()),
            Err(_) => {
                book.heard_nothing(&ticket);
                // The process may be starting again.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

fn is_refusal(code: Code) -> bool {
    matches!(code, Code::ResourceExhausted | Code::Aborted)
}

/// Makes the servers of a fleet: most for one caller each, some for many.
async fn fill(client: &Client, namespace: &str, alone: usize) {
    let of_fleet = fleet::make(client, namespace, alone + SHARED).await;
    let next = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = (0..64)
        .map(|_| {
            let (client, namespace, next) =
                (client.clone(), namespace.to_owned(), Arc::clone(&next));
            let of_fleet = of_fleet.clone();
            tokio::spawn(async move {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= alone + SHARED {
                        return;
                    }
                    let (name, more) = if index < alone {
                        (format!("a{index:05}"), json!({}))
                    } else {
                        let players = json!({"capacity": SEATS, "values": []});
                        (format!("s{index:05}"), json!({"lists": {"players": players}}))
                    };
                    let mut server = ready_server(&namespace, &name, more);
                    let labels = of_fleet["labels"].as_object().unwrap().clone();
                    server["metadata"]["labels"].as_object_mut().unwrap().extend(labels);
                    server["metadata"]["ownerReferences"] = of_fleet["ownerReferences"].clone();
                    create_object(&client, &namespace, server).await;
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
}

/// Changes servers behind the allocators' backs, as SDK servers and controllers do.
async fn meddle(client: Client, namespace: String, alone: usize) {
    let servers: kube::Api<kube::api::DynamicObject> =
        kube::Api::namespaced_with(client, &namespace, &super::world::game_servers());
    for round in 0_u64.. {
        let name = format!("a{:05}", fastrand::usize(..alone));
        let patch = json!({"metadata": {"labels": {"round": round.to_string()}}});
        let _ = servers.patch(&name, &Default::default(), &kube::api::Patch::Merge(patch)).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn port_of(kubeconfig: &Path) -> u16 {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let server = kubeconfig.clusters[0].cluster.as_ref().unwrap().server.clone().unwrap();
    server.rsplit(':').next().unwrap().trim_end_matches('/').parse().unwrap()
}

/// Writes a kubeconfig that leads through a proxy.
fn through(kubeconfig: &Path, dir: &Path, port: u16) -> std::path::PathBuf {
    let text = std::fs::read_to_string(kubeconfig).unwrap();
    let path = dir.join("kubeconfig-through-proxy");
    let (from, to) = (format!(":{}", port_of(kubeconfig)), format!(":{port}"));
    std::fs::write(&path, text.replace(&from, &to)).unwrap();
    path
}
