//! Measures how long policies with checks take to decide.

use std::hint::black_box;
use std::time::{Duration, Instant};

use decide::checks::strategy::{Bounds, PassThrough, Steps, TargetValue, Threshold, To};
use decide::checks::{
    Check, Cooldown, Limits, OnError, Policy, Reading, Series, Strategy, TargetObservation, Window,
    decide,
};
use jiff::{SignedDuration, Timestamp};

use crate::report::Report;

const POLICIES: usize = 10_000;
const POINTS: usize = 360;
/// The share of a second that the whole of it may take.
const LIMIT: Duration = Duration::from_millis(100);
const ROUNDS: usize = 15;

/// Decides 10,000 policies of four checks, each over a series of its own of 360 points, on one core.
pub(crate) fn run() -> Report {
    let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24);
    let policies: Vec<Policy> = (0..POLICIES).map(policy).collect();
    let numbers: Vec<[Series; 4]> = (0..POLICIES).map(|index| numbers(index, now)).collect();
    let ran_before = on_cpu();
    let mut rounds: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for (policy, numbers) in policies.iter().zip(&numbers) {
                black_box(size(black_box(policy), numbers, now));
            }
            start.elapsed()
        })
        .collect();
    let ran = on_cpu().zip(ran_before).map(|(after, before)| (after - before) / ROUNDS as u32);
    rounds.sort_unstable();
    let (fastest, median, slowest) = (rounds[0], rounds[ROUNDS / 2], rounds[ROUNDS - 1]);
    let mut report = Report::new("Policies", &["10,000 policies, 4 checks, 360 points", "time"]);
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
    if let Some(ran) = ran {
        report.row(&["on the CPU, mean of 15 rounds", &ms(ran)]);
    }
    report.row(&["by the clock, fastest", &ms(fastest)]);
    report.row(&["by the clock, median", &ms(median)]);
    report.row(&["by the clock, slowest", &ms(slowest)]);
    report.row(&["limit", &ms(LIMIT)]);
    let median = ran.unwrap_or(median);
    let points = (POLICIES * 4 * POINTS) as f64;
    report.note(format!(
        "One core; {:.1} ns a policy, {:.2} ns a point. Two checks are thresholds over all points in one group, one keeps a \
         target, one passes a number through. Every check has a series of its own, so nothing is shared in memory.",
        median.as_nanos() as f64 / POLICIES as f64,
        median.as_nanos() as f64 / points
    ));
    report
}

/// Returns the CPU time of this thread, where the kernel has it: on a shared machine the clock also counts other programs.
fn on_cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

fn size(policy: &Policy, numbers: &[Series; 4], now: Timestamp) -> i64 {
    let readings = numbers.each_ref().map(Reading::Series);
    let observation = TargetObservation {
        count: 12,
        checks: &readings,
        rules: &[],
        last_action: None,
        original_count: None,
        history: &[],
        shared_with: None,
    };
    decide(policy, &observation, now).to
}

fn policy(index: usize) -> Policy {
    let window = Window {
        length: Some(SignedDuration::from_secs(POINTS as i64 * 10)),
        offset: SignedDuration::ZERO,
    };
    let check = |group: &str, strategy| Check {
        group: group.to_owned(),
        window,
        schedule: None,
        on_error: OnError::Hold,
        strategy,
    };
    let bounds = |lower, upper, delta| {
        let to = To::Delta(delta);
        Strategy::Threshold(Threshold { bounds: Bounds { lower, upper }, trigger: 50, to })
    };
    let target = 50.0 + (index % 40) as f64;
    let pause = SignedDuration::from_mins(5);
    Policy {
        enabled: true,
        limits: Limits::new(1, 100).expect("1 is less than 100"),
        schedule: None,
        cooldown: Cooldown { after_up: pause, after_down: pause },
        checks: vec![
            check("memory", bounds(80.0, f64::INFINITY, 2)),
            check("memory", bounds(f64::NEG_INFINITY, 20.0, -1)),
            check(
                "",
                Strategy::TargetValue(TargetValue {
                    target,
                    threshold: 0.01,
                    steps: Steps::default(),
                }),
            ),
            check("", Strategy::PassThrough(PassThrough { steps: Steps::default() })),
        ],
        rules: Vec::new(),
        on_rule_error: OnError::Hold,
        behavior: None,
    }
}

/// Four series of numbers between 0 and 100 that differ from policy to policy.
fn numbers(index: usize, now: Timestamp) -> [Series; 4] {
    let mut state = index as u64 + 1;
    [(); 4].map(|()| {
        let values: Vec<f64> = (0..POINTS)
            .map(|_| {
                // A linear congruential generator: the same numbers in every run.
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as f64 / (1_u64 << 31) as f64 * 100.0
            })
            .collect();
        Series::even(&values, SignedDuration::from_secs(10), now)
    })
}
