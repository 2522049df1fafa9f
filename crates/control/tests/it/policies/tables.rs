//! The tables of Nomad Autoscaler's and Rancher's designs, live: every row with its outcome.

use serde_json::{Value, json};

use super::source::Source;
use super::{World, create_source, pass, rules_of_the_seed, set_replicas};

/// A check that scales out above 75 and in below 30, by one source.
fn both_ways(name: &str, source: &str, group: &str) -> [Value; 2] {
    let check = |which: &str, strategy: Value| {
        json!({
            "name": format!("{name}-{which}"), "group": group, "source": source, "query": name,
            "window": "instant", "strategy": {"threshold": strategy},
        })
    };
    let high = json!({"lowerBound": 75, "delta": 2, "withinBoundsTrigger": 1});
    let low = json!({"upperBound": 30, "delta": -1, "withinBoundsTrigger": 1});
    [check("high", high), check("low", low)]
}

const HIGH: f64 = 90.0;
const LOW: f64 = 10.0;
const MIDDLE: f64 = 50.0;

/// Sets both sources and the size, and returns the size after an evaluation.
async fn outcome(world: &World, other: &Source, (first, second): (f64, f64)) -> i32 {
    // The size is set last, so that the evaluation that it triggers has both values.
    world.load.returns(MIDDLE);
    other.returns(MIDDLE);
    pass(20).await;
    set_replicas(&world.cluster, "web", 5).await;
    pass(20).await;
    assert_eq!(world.replicas().await, 5, "in the middle nothing moves");
    world.load.returns(first);
    other.returns(second);
    pass(15).await;
    world.replicas().await
}

async fn world_with(checks: Vec<Value>) -> (World, Source) {
    let world = World::start(5).await;
    let other = Source::start().await;
    create_source(&world.cluster, "other", &other.url).await;
    let spec = json!({
        "target": {"kind": "Deployment", "name": "web"}, "min": 1, "max": 10,
        // Longer than a row is watched, shorter than the pause between two rows.
        "cooldown": "16s", "checks": checks,
    });
    world.policy("p", spec).await;
    (world, other)
}

#[tokio::test(start_paused = true)]
async fn two_checks_resolve_to_the_safest_action() {
    let [high, _] = both_ways("a", "load", "");
    let [_, low] = both_ways("b", "other", "");
    let (world, other) = world_with(vec![high, low]).await;
    for (values, to, row) in [
        ((HIGH, LOW), 7, "out and in: out"),
        ((HIGH, MIDDLE), 7, "out and none: out"),
        ((MIDDLE, LOW), 5, "in and none: none"),
        ((MIDDLE, MIDDLE), 5, "none and none: none"),
    ] {
        assert_eq!(outcome(&world, &other, values).await, to, "{row}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_checks_of_the_same_direction_take_the_larger_count() {
    let by = |name: &str, source: &str| {
        json!({"name": name, "source": source, "query": name, "window": "instant",
               "strategy": {"passThrough": {}}})
    };
    let (world, other) = world_with(vec![by("a", "load"), by("b", "other")]).await;
    for ((a, b), to) in [((10.0, 9.0), 10), ((3.0, 4.0), 4)] {
        world.load.returns(5.0);
        other.returns(5.0);
        set_replicas(&world.cluster, "web", 5).await;
        pass(30).await;
        world.load.returns(a);
        other.returns(b);
        world.wants(to).await;
    }
}

#[tokio::test(start_paused = true)]
async fn grouped_checks_resolve_within_their_group_first() {
    let [high, low] = both_ways("memory", "load", "memory");
    let [cpu_high, cpu_low] = both_ways("cpu", "other", "cpu");
    let (world, other) = world_with(vec![high, low]).await;
    for (value, to, row) in [
        (HIGH, 7, "out and none: out"),
        (LOW, 4, "in and none: in"),
        (MIDDLE, 5, "none and none: none"),
    ] {
        assert_eq!(outcome(&world, &other, (value, MIDDLE)).await, to, "{row}");
    }
    let four: Vec<Value> = {
        let [high, low] = both_ways("memory", "load", "memory");
        vec![high, low, cpu_high, cpu_low]
    };
    let change = json!({"spec": {"checks": four}});
    world.cluster.patch::<api::plimsoll::ScalingPolicy>("p", change).await;
    for (values, to, row) in [
        ((HIGH, LOW), 7, "out in one group, in in the other: out"),
        ((LOW, LOW), 4, "in in both groups: in"),
        ((LOW, MIDDLE), 5, "in in one group, none in the other: none"),
    ] {
        assert_eq!(outcome(&world, &other, values).await, to, "{row}");
    }
}

#[tokio::test(start_paused = true)]
async fn in_one_group_out_beats_in_and_of_two_outs_the_larger_count_wins() {
    let [high, _] = both_ways("a", "load", "both");
    let [_, low] = both_ways("b", "other", "both");
    let [mut larger, _] = both_ways("c", "other", "both");
    larger["strategy"]["threshold"]["delta"] = json!(3);
    let (world, other) = world_with(vec![high, low, larger]).await;
    for (values, to, row) in [
        ((HIGH, LOW), 7, "out and in: out"),
        ((HIGH, HIGH), 8, "out by two and out by three: the larger count"),
        ((MIDDLE, LOW), 4, "none and in: in"),
    ] {
        assert_eq!(outcome(&world, &other, values).await, to, "{row}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_three_rules_of_the_seed_scale_a_service_by_how_long_its_load_lasts() {
    let world = World::start(4).await;
    // The target's own source, measured by the stand-in.
    create_source(&world.cluster, "kubernetes", &world.load.url).await;
    let spec = json!({
        "target": {"kind": "Deployment", "name": "web"}, "min": 1, "max": 20, "cooldown": "10m",
        "rules": rules_of_the_seed(),
    });
    world.load.returns(70.0);
    world.policy("p", spec).await;
    pass(9 * 60).await;
    assert_eq!(world.replicas().await, 4, "not yet ten minutes");
    pass(90).await;
    assert_eq!(world.replicas().await, 5, "60 % for ten minutes: one more");
    world.load.returns(90.0);
    pass(4 * 60).await;
    assert_eq!(world.replicas().await, 5, "cooling down");
    pass(7 * 60).await;
    assert_eq!(world.replicas().await, 8, "85 % for five minutes: three more");
    world.load.returns(20.0);
    pass(24 * 60).await;
    assert_eq!(world.replicas().await, 8, "not yet 25 minutes");
    pass(2 * 60).await;
    assert_eq!(world.replicas().await, 6, "40 % for 25 minutes: two fewer");
}
