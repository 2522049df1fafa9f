//! Thousands of malformed and hostile requests, while well-behaved clients use the same server.
//!
//! Valid requests are changed at random: depth, size, types, patches, paths, headers; others break HTTP or TLS itself, or send slowly, or nothing.
//! Afterwards the same process serves, its memory is back, nothing that was acknowledged is lost, and a restart after a kill opens the data.
//!
//! `cargo xtask hostile --requests N --seed S` sends as many as are asked for. What each attacker sends follows from the seed; only the order among
//! them does not.

mod api;
mod attacker;
mod body;
mod http2;
mod ledger;
mod target;
mod wire;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::kill::Random;
use attacker::{Attack, Tally};
use ledger::Ledger;
use target::{SdkServer, Up};

const ATTACKERS: usize = 8;
const HONEST: usize = 4;

/// The most memory that may stay behind, in MiB: the history of changes, and what an allocator keeps for later.
const MAY_GROW_BY: u64 = 256;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_clients_neither_stop_the_process_nor_cost_anyone_an_acknowledged_write() {
    let requests = from_env("PLIMSOLL_TEST_HOSTILE", 2000);
    let seed = from_env("PLIMSOLL_TEST_HOSTILE_SEED", 20_261_118);
    eprintln!("hostile: {requests} requests, seed {seed}");
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(dir.path()).await;
    let sdk = SdkServer::start(dir.path()).await;
    up.prepare().await;
    let (ledger, honest) = (Arc::new(Ledger::default()), up.client().await);
    let writers = ledger.write(&honest, HONEST, seed);
    let before = up.memory();

    let began = Instant::now();
    let attack = Arc::new(Attack::new(&up, &sdk, requests));
    let silent = attack.silent_connections(256).await;
    let attackers = (0..ATTACKERS).map(|index| {
        let random = Random::seeded(seed.wrapping_add(index as u64));
        tokio::spawn(attacker::run(Arc::clone(&attack), random))
    });
    let mut tally = Tally::default();
    for attacker in attackers.collect::<Vec<_>>() {
        tally.add(attacker.await.expect("an attacker does not fail"));
    }
    eprintln!("hostile: {tally} in {:.1?}", began.elapsed());
    writers.stop().await;
    drop(silent);

    up.is_the_same_process();
    sdk.is_the_same_process();
    tally.is_acceptable();
    assert!(ledger.len() > 0, "honest clients got something done");
    ledger.check(&up.client().await).await;
    up.works(3).await;
    up.clear().await;
    let grown = settled(|| up.memory().saturating_sub(before)).await;
    eprintln!("hostile: memory grew by {grown} MiB from {before} MiB");
    assert!(grown <= MAY_GROW_BY, "memory grew by {grown} MiB from {before} MiB and stays");

    up.kill();
    let again = Up::start(dir.path()).await;
    ledger.check(&again.client().await).await;
    again.lists_everything().await;
    again.works(5).await;
}

fn from_env(name: &str, usual: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

/// Waits until memory is back within bounds, and gives what it has come to.
async fn settled(grown: impl Fn() -> u64) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(60);
    while grown() > MAY_GROW_BY && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    grown()
}
