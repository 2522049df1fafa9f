//! A day of players, simulated against each policy: limits hold, the buffer is kept, and sizes do not flap.
//!
//! Time is tokio's, and paused: it jumps from one thing that happens to the next.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::agones::{Fleet, GameServer};
use futures::StreamExt as _;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use kube::api::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use process::Clock;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::web::Webhook;
use super::{autoscaler, buffer, cluster_with, make, webhook};
use crate::cluster::{Cluster, fleet, until};

const STEP: Duration = Duration::from_secs(60 * 60);
const STEPS: usize = 24;

/// How many servers are in use through the day: a quiet night, a busy evening, and an unforeseen rush.
fn players(step: usize) -> i32 {
    let hour = f64::from(u32::try_from(step).unwrap());
    let wave = 12.0 - 11.0 * (hour / 24.0 * std::f64::consts::TAU).cos();
    let rush = if (14..16).contains(&step) { 8.0 } else { 0.0 };
    #[expect(clippy::cast_possible_truncation, reason = "a few dozen")]
    let players = (wave + rush).round() as i32;
    players
}

/// Every size of the fleet since the last call of `take`.
struct Sizes {
    sizes: Arc<Mutex<Vec<i32>>>,
    task: JoinHandle<()>,
}

impl Sizes {
    fn follow(cluster: &Cluster) -> Self {
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let (shared, fleets): (_, Api<Fleet>) = (Arc::clone(&sizes), cluster.api());
        let task = tokio::spawn(async move {
            let mut events = watcher(fleets, watcher::Config::default()).applied_objects().boxed();
            while let Some(event) = events.next().await {
                if let Ok(fleet) = event {
                    shared.lock().unwrap().push(fleet.spec.replicas);
                }
            }
        });
        Self { sizes, task }
    }

    fn take(&self) -> Vec<i32> {
        let mut sizes = self.sizes.lock().unwrap();
        let last = sizes.last().copied();
        let taken = std::mem::take(&mut *sizes);
        sizes.extend(last);
        taken
    }
}

impl Drop for Sizes {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Simulates the day. `wanted` returns the expected fleet size for a number of servers in use at a moment, and `used` is the status of a
/// server in use.
async fn run_day(
    cluster: &Cluster,
    limits: (i32, i32),
    used: Value,
    wanted: impl Fn(i32, Timestamp) -> i32,
) {
    let sizes = Sizes::follow(cluster);
    for step in 0..STEPS {
        let players = players(step);
        serve(cluster, players, &used).await;
        let wanted = wanted(players, cluster.clock.now());
        until(&format!("{wanted} servers for {players} in use, at step {step}"), async || {
            let fleet = cluster.fleet("f").await;
            let status = fleet.status.unwrap_or_default();
            fleet.spec.replicas == wanted
                && status.allocated_replicas == players
                && status.ready_replicas == wanted - players
        })
        .await;
        let taken = sizes.take();
        assert!(
            taken.iter().all(|size| (limits.0..=limits.1).contains(size)),
            "outside of its limits at step {step}: {taken:?}"
        );
        let is_monotone = taken.is_sorted() || taken.iter().rev().is_sorted();
        assert!(is_monotone, "it went up and down at step {step}: {taken:?}");
        tokio::time::sleep(STEP).await;
        let quiet = sizes.take();
        let is_quiet = quiet.iter().all(|size| *size == wanted);
        assert!(is_quiet, "nothing happened after step {step}, but the size moved: {quiet:?}");
    }
}

/// Brings the number of servers in use to `players`, as matches begin and end.
async fn serve(cluster: &Cluster, players: i32, used: &Value) {
    until("everyone has a server", async || {
        let in_use = cluster.in_state("Allocated").await;
        let count = i32::try_from(in_use.len()).unwrap();
        for server in in_use.iter().take(usize::try_from(count - players).unwrap_or(0)) {
            let name = server.metadata.name.as_deref().unwrap();
            cluster.patch::<GameServer>(name, json!({"status": {"state": "Shutdown"}})).await;
        }
        let ready = cluster.in_state("Ready").await;
        for server in ready.iter().take(usize::try_from(players - count).unwrap_or(0)) {
            let name = server.metadata.name.as_deref().unwrap();
            cluster.patch::<GameServer>(name, json!({"status": used})).await;
        }
        count == players
    })
    .await;
}

fn in_use() -> Value {
    json!({"state": "Allocated"})
}

/// An autoscaler with the usual interval.
fn usual(policy: Value) -> Value {
    let mut made = autoscaler("a", "f", policy);
    made["spec"].as_object_mut().unwrap().remove("sync");
    made
}

#[tokio::test(start_paused = true)]
async fn a_buffer_follows_the_day() {
    let cluster = cluster_with(fleet("f", 6)).await;
    make(&cluster, usual(buffer(5, 6, 32))).await;
    run_day(&cluster, (6, 32), in_use(), |players, _| (players + 5).clamp(6, 32)).await;
}

#[tokio::test(start_paused = true)]
async fn a_buffer_that_is_a_share_follows_the_day() {
    let cluster = cluster_with(fleet("f", 4)).await;
    let policy = json!({"bufferSize": "20%", "minReplicas": 4, "maxReplicas": 36});
    make(&cluster, usual(json!({"type": "Buffer", "buffer": policy}))).await;
    let wanted = |players: i32, _| ((players * 100 + 79) / 80).clamp(4, 36);
    run_day(&cluster, (4, 36), in_use(), wanted).await;
}

#[tokio::test(start_paused = true)]
async fn a_counter_follows_the_day() {
    let mut lobby = fleet("f", 4);
    lobby["spec"]["template"]["spec"]["counters"] = json!({"rooms": {"count": 0, "capacity": 10}});
    let cluster = cluster_with(lobby).await;
    let policy = json!({"key": "rooms", "bufferSize": 30, "minCapacity": 40, "maxCapacity": 320});
    make(&cluster, usual(json!({"type": "Counter", "counter": policy}))).await;
    let full = json!({"state": "Allocated", "counters": {"rooms": {"count": 10}}});
    run_day(&cluster, (4, 32), full, |players, _| (players + 3).clamp(4, 32)).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_follows_the_day() {
    let mut rooms = fleet("f", 4);
    rooms["spec"]["template"]["spec"]["lists"] = json!({"players": {"capacity": 2, "values": []}});
    let cluster = cluster_with(rooms).await;
    let policy = json!({"key": "players", "bufferSize": 6, "minCapacity": 8, "maxCapacity": 64});
    make(&cluster, usual(json!({"type": "List", "list": policy}))).await;
    let full = json!({"state": "Allocated", "lists": {"players": {"values": ["a", "b"]}}});
    run_day(&cluster, (4, 32), full, |players, _| (players + 3).clamp(4, 32)).await;
}

#[tokio::test(start_paused = true)]
async fn a_webhook_follows_the_day() {
    let cluster = cluster_with(fleet("f", 4)).await;
    let sizer = Webhook::start().await;
    sizer.adds(4);
    make(&cluster, usual(webhook(&sizer.url))).await;
    run_day(&cluster, (4, 60), in_use(), |players, _| players + 4).await;
}

#[tokio::test(start_paused = true)]
async fn a_wasm_module_follows_the_day() {
    let cluster = cluster_with(fleet("f", 4)).await;
    let server = Webhook::start().await;
    let wasm = json!({"from": {"url": {"url": format!("{}spare.wasm", server.url)}}});
    make(&cluster, usual(json!({"type": "Wasm", "wasm": wasm}))).await;
    run_day(&cluster, (4, 60), in_use(), |players, _| players + 4).await;
}

#[tokio::test(start_paused = true)]
async fn a_schedule_follows_the_day_until_it_ends_and_then_leaves_the_fleet_as_it_is() {
    let cluster = cluster_with(fleet("f", 6)).await;
    // It began a quarter of an hour ago, for this once, and ends at a quarter past a step.
    let begun_at = cluster.clock.now().to_zoned(TimeZone::UTC) - 15.minutes();
    let (minute, hour) = (begun_at.minute(), begun_at.hour());
    let cron = format!("{minute} {hour} {} {} *", begun_at.day(), begun_at.month());
    let schedule = json!({
        "activePeriod": {"startCron": cron, "duration": "20h30m", "timezone": "UTC"},
        "policy": buffer(5, 6, 40),
    });
    make(&cluster, usual(json!({"type": "Schedule", "schedule": schedule}))).await;
    let ends_at = (begun_at + 20.hours() + 30.minutes()).timestamp();
    let wanted = |in_use: i32, now| {
        let in_use = if now < ends_at { in_use } else { players(20) };
        (in_use + 5).clamp(6, 40)
    };
    run_day(&cluster, (6, 40), in_use(), wanted).await;
}

#[tokio::test(start_paused = true)]
async fn a_chain_keeps_more_in_the_evening() {
    let cluster = cluster_with(fleet("f", 3)).await;
    // The evening begins two and a quarter hours from now, so that no step falls on its edges.
    let begins_at = cluster.clock.now().to_zoned(TimeZone::UTC) + 2.hours() + 15.minutes();
    let cron = format!("{} {} * * *", begins_at.minute(), begins_at.hour());
    let evening = json!({
        "id": "evening", "type": "Schedule",
        "schedule": {
            "activePeriod": {"startCron": cron, "duration": "4h", "timezone": "UTC"},
            "policy": buffer(9, 0, 40),
        },
    });
    let mut usually = buffer(3, 0, 40);
    usually["id"] = json!("usually");
    make(&cluster, usual(json!({"type": "Chain", "chain": [evening, usually]}))).await;
    let begins_at = begins_at.timestamp();
    play_chain(&cluster, |now| {
        let since = now.duration_since(begins_at).as_secs().rem_euclid(24 * 3600);
        since < 4 * 3600
    })
    .await;
}

/// Simulates the day where the size also changes with time: after each step it must have the value for that moment.
async fn play_chain(cluster: &Cluster, is_evening: impl Fn(Timestamp) -> bool) {
    for step in 0..STEPS {
        let players = players(step);
        serve(cluster, players, &in_use()).await;
        tokio::time::sleep(STEP).await;
        let spare = if is_evening(cluster.clock.now()) { 9 } else { 3 };
        until(&format!("{spare} spare at step {step}"), async || {
            cluster.fleet("f").await.spec.replicas == players + spare
        })
        .await;
    }
}

/// A chain that wants seven servers from `later` on for ten hours, and two otherwise.
fn rush(later: &jiff::Zoned) -> Value {
    let cron = format!("{} {} * * *", later.minute(), later.hour());
    let rush = json!({
        "id": "rush", "type": "Schedule",
        "schedule": {
            "activePeriod": {"startCron": cron, "duration": "10h", "timezone": "UTC"},
            "policy": buffer(7, 0, 40),
        },
    });
    let mut usually = buffer(2, 0, 40);
    usually["id"] = json!("usually");
    json!({"type": "Chain", "chain": [rush, usually]})
}

#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_is_set_leads_soon_to_what_the_new_time_wants() {
    let (running, offset) = (Clock::virtual_at(Timestamp::now()), Arc::new(AtomicI64::new(0)));
    let seconds = Arc::clone(&offset);
    let clock = Clock::from_fn(move || {
        running.now() + SignedDuration::from_secs(seconds.load(Ordering::Relaxed))
    });
    let cluster = Cluster::start_at(clock.clone()).await;
    cluster.create::<Fleet>(fleet("f", 2)).await;
    let later = clock.now().to_zoned(TimeZone::UTC) + 5.hours();
    // The sync interval is an hour: whatever it does earlier follows from a change of time.
    make(&cluster, autoscaler("a", "f", rush(&later))).await;
    super::wanted(&cluster, "f", 2).await;
    let began_at = tokio::time::Instant::now();
    // The machine slept for eight hours: timers stood still, and the wall clock did not.
    offset.store(8 * 3600, Ordering::Relaxed);
    super::wanted(&cluster, "f", 7).await;
    // Somebody sets the clock back.
    offset.store(0, Ordering::Relaxed);
    super::wanted(&cluster, "f", 2).await;
    offset.store(6 * 3600, Ordering::Relaxed);
    super::wanted(&cluster, "f", 7).await;
    assert!(began_at.elapsed() < Duration::from_secs(1800), "it took {:?}", began_at.elapsed());
}
