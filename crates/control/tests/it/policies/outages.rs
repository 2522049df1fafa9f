//! Policies while the API server comes and goes: at every request, and at random beside deaths and a source that flaps.

use std::time::Duration;

use api::plimsoll::AutoScalePolicy;
use api::plimsoll::scaling_policy::ActionOutcome;
use kube::Client;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::faults::{Sizes, controllers, stepwise};
use super::services::policy;
use super::{World, pass, pass_through, set_replicas};
use crate::client::{self, Connection};
use crate::cluster::{Cluster, until};

#[tokio::test(start_paused = true)]
async fn an_api_server_that_goes_away_at_any_request_loses_and_repeats_no_scaling() {
    for at in (0..30).step_by(if is_long() { 1 } else { 4 }) {
        let world = World::on(Cluster::embedded().await, 2).await;
        let sizes = Sizes::follow(&world.cluster);
        world.load.returns(90.0);
        world.policy("p", stepwise()).await;
        let (client, connection) = client::disconnected(world.cluster.client.clone(), at);
        let _running = controllers(&world.cluster, client);
        drop(tokio::time::timeout(Duration::from_secs(60), connection.lost()).await);
        pass(30).await;
        assert!([&[2][..], &[2, 4]].contains(&&*sizes.all()), "at {at}: {:?}", sizes.all());
        connection.restore();
        world.wants(4).await;
        until("the action is resolved", async || {
            let action = world.status("p").await.last_action;
            action.is_some_and(|action| action.outcome == Some(ActionOutcome::Applied))
        })
        .await;
        pass(10 * 60).await;
        assert_eq!(sizes.all(), [2, 4], "at {at}: the cooldown is an hour");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_during_an_outage_is_found_after_it() {
    let world = World::on(Cluster::embedded().await, 4).await;
    let (client, connection) = client::disconnected(world.cluster.client.clone(), u32::MAX);
    let _running = controllers(&world.cluster, client);
    world.load.returns(4.0);
    world.policy("p", pass_through()).await;
    world.condition("p", ("ScalingActive", "True", "ValidMetricFound")).await;
    connection.lose();
    pass(60).await;
    set_replicas(&world.cluster, "web", 9).await;
    world.cluster.patch::<api::plimsoll::ScalingPolicy>("p", json!({"spec": {"max": 6}})).await;
    world.load.returns(5.0);
    pass(60).await;
    assert_eq!(world.replicas().await, 9);
    connection.restore();
    world.wants(5).await;
    world.until_event("p", "SizeChangedByOthers", "from 4 to 9").await;
}

/// The smallest and the largest size, and the pause after an action.
const MIN: i32 = 2;
const MAX: i32 = 7;
const PAUSE: Duration = Duration::from_secs(60);

/// A replica of the controllers. It dies and is started again, and its connection is lost and restored.
struct Replica {
    connection: Connection,
    _running: JoinSet<()>,
}

impl Replica {
    fn start(world: &World, chance: &mut fastrand::Rng) -> Self {
        let client: Client = world.cluster.client.clone();
        let (client, _) = client::mortal(client, chance.u32(10..400), chance.bool());
        let (client, connection) = client::disconnected(client, u32::MAX);
        Self { connection, _running: controllers(&world.cluster, client) }
    }
}

/// Lets two replicas scale the Deployment for an hour, in which everything else fails at random.
async fn ordeal(world: &World, seed: u64) -> Sizes {
    let sizes = Sizes::follow(&world.cluster);
    let mut chance = fastrand::Rng::with_seed(seed);
    let start = |chance: &mut fastrand::Rng| Replica::start(world, chance);
    let mut replicas = [start(&mut chance), start(&mut chance)];
    let end = Instant::now() + Duration::from_secs(3600);
    while Instant::now() < end {
        let which = chance.usize(0..2);
        match chance.u32(0..10) {
            0 | 1 => replicas[which] = start(&mut chance),
            2 => replicas.iter().for_each(|replica| replica.connection.lose()),
            3 => replicas[which].connection.lose(),
            4 => world.load.returns(10.0),
            5 => world.load.fails(),
            6 => world.load.has_no_data(),
            7 => world.load.is_slow(),
            _ => world.load.returns(90.0),
        }
        pass(chance.u64(1..60)).await;
        if chance.bool() {
            replicas.iter().for_each(|replica| replica.connection.restore());
        }
    }
    world.load.returns(90.0);
    replicas = [start(&mut chance), start(&mut chance)];
    let _last = controllers(&world.cluster, world.cluster.client.clone());
    // Every action of the way up has its pause.
    pass(8 * PAUSE.as_secs()).await;
    assert_eq!(world.replicas().await, MAX, "seed {seed}");
    drop(replicas);
    sizes
}

/// Returns the seeds of the ordeals: a few, or many in the long run of the tests.
fn seeds() -> std::ops::Range<u64> {
    if is_long() { 0..20 } else { 0..2 }
}

/// Whether this is the long run of the tests: `cargo xtask test --all`.
fn is_long() -> bool {
    std::env::var_os("PLIMSOLL_TEST_SLOW").is_some()
}

/// Which actions wait until the pause after the one before is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    All,
    /// All but those that scale out after one that has scaled in.
    AllButOutAfterIn,
}

/// Checks that each action was due, and none was taken twice.
fn check(sizes: &Sizes, waiting: Waiting, seed: u64) {
    let sizes = sizes.with_times();
    assert!(sizes.len() > 4, "seed {seed}: hardly anything happened: {sizes:?}");
    let mut last: Option<(Instant, i32)> = None;
    for pair in sizes.windows(2) {
        let ((_, from), (at, to)) = (pair[0], pair[1]);
        let is_step = to == (from + 2).min(MAX) || to == from - 1;
        assert!(is_step && (MIN..=MAX).contains(&to), "seed {seed}: {from} to {to} of {sizes:?}");
        if let Some((last_at, by)) = last {
            // The pause counts from the decision, which is a moment before the action.
            let has_rested = at - last_at + Duration::from_secs(2) >= PAUSE;
            let is_exempt = waiting == Waiting::AllButOutAfterIn && by < 0 && to > from;
            let pause = at - last_at;
            assert!(has_rested || is_exempt, "seed {seed}: {pause:?} before {to} of {sizes:?}");
        }
        last = Some((at, to - from));
    }
}

#[tokio::test(start_paused = true)]
async fn neither_outages_nor_deaths_nor_a_second_replica_break_the_limits_or_the_cooldown() {
    for seed in seeds() {
        let world = World::on(Cluster::embedded().await, 2).await;
        world.load.returns(90.0);
        let mut spec = stepwise();
        (spec["min"], spec["max"]) = (json!(MIN), json!(MAX));
        spec["cooldown"] = json!("60s");
        let mut low = spec["checks"][0].clone();
        (low["name"], low["group"]) = (json!("low"), json!("load"));
        low["strategy"] =
            json!({"threshold": {"upperBound": 30, "delta": -1, "withinBoundsTrigger": 1}});
        spec["checks"][0]["group"] = json!("load");
        spec["checks"].as_array_mut().unwrap().push(low);
        world.policy("p", spec).await;
        check(&ordeal(&world, seed).await, Waiting::All, seed);
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_holds_for_the_policies_of_a_service() {
    for seed in seeds() {
        let world = World::on(Cluster::embedded().await, 2).await;
        world.load.returns(90.0);
        for (name, action, threshold, amount) in [("up", "up", 75, 2), ("down", "down", 30, 1)] {
            let mut policy = policy(name, action, threshold, amount);
            (policy["spec"]["min"], policy["spec"]["max"]) = (json!(MIN), json!(MAX));
            policy["spec"]["quietPeriod"] = json!(PAUSE.as_secs());
            world.cluster.create::<AutoScalePolicy>(policy).await;
        }
        check(&ordeal(&world, seed).await, Waiting::AllButOutAfterIn, seed);
    }
}
