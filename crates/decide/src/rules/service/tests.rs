use super::*;
use crate::checks::Series;

fn now() -> Timestamp {
    Timestamp::from_second(100_000).unwrap()
}

fn ago(seconds: i64) -> Option<Timestamp> {
    Some(Timestamp::from_second(100_000 - seconds).unwrap())
}

fn policy(action: Move, threshold: f64) -> Threshold {
    Threshold {
        threshold,
        limits: Limits::new(1, 10).unwrap(),
        action,
        quiet_for: SignedDuration::from_secs(180),
        last_executed_at: None,
        is_strict: false,
    }
}

fn series(values: &[f64]) -> Series {
    Series::even(values, SignedDuration::from_secs(1), now())
}

fn alone(policy: Threshold, values: &[f64], count: i64) -> Verdict {
    let series = series(values);
    judge(&[(policy, Reading::Series(&series))], count, now()).remove(0)
}

#[test]
fn the_mean_of_a_full_minute_must_cross_the_threshold() {
    let up = policy(Move::Up(1), 80.0);
    let down = policy(Move::Down(1), 40.0);
    let half = |a: f64, b: f64| [vec![a; 30], vec![b; 30]].concat();
    for (policy, values, code) in [
        (up, vec![90.0; 60], "Crossed"),
        (up, vec![80.0; 60], "NotCrossed"),
        (up, vec![90.0; 59], "WindowNotFull"),
        (up, vec![], "NoData"),
        (up, half(100.0, 61.0), "Crossed"),
        (up, half(100.0, 60.0), "NotCrossed"),
        (up, [vec![0.0; 60], vec![90.0; 60]].concat(), "Crossed"),
        (up, [vec![90.0; 2], vec![f64::NAN; 57], vec![90.0]].concat(), "WindowNotFull"),
        (up, [vec![90.0; 30], vec![f64::NAN; 30]].concat(), "Crossed"),
        (down, vec![30.0; 60], "Crossed"),
        (down, vec![40.0; 60], "NotCrossed"),
        (down, vec![90.0; 60], "NotCrossed"),
    ] {
        let verdict = alone(policy, &values, 3);
        assert_eq!(verdict.why.code(), code, "{policy:?} {values:?}");
        assert_eq!(verdict.fires, code == "Crossed");
    }
}

#[test]
fn the_quiet_period_includes_its_end() {
    for (last, fires) in [(ago(179), false), (ago(180), false), (ago(181), true), (None, true)] {
        let policy = Threshold { last_executed_at: last, ..policy(Move::Up(1), 80.0) };
        assert_eq!(alone(policy, &[90.0; 60], 3).fires, fires, "{last:?}");
    }
}

#[test]
fn a_down_policy_also_waits_after_the_newest_scale_up() {
    let low = series(&[10.0; 60]);
    for (last_up, fires) in [(ago(100), false), (ago(181), true)] {
        let up = Threshold { last_executed_at: last_up, ..policy(Move::Up(1), 80.0) };
        let down = policy(Move::Down(1), 40.0);
        let both = [(up, Reading::Series(&low)), (down, Reading::Series(&low))];
        assert_eq!(judge(&both, 5, now())[1].fires, fires);
    }
}

#[test]
fn limits_shorten_or_refuse_a_step() {
    let high = [90.0; 60];
    let strict = |action| Threshold { is_strict: true, ..policy(action, 80.0) };
    for (policy, count, code, to) in [
        (policy(Move::Up(5), 80.0), 8, "Crossed", 10),
        (policy(Move::Up(5), 80.0), 10, "AtLimit", 10),
        (policy(Move::Up(5), 80.0), 12, "AtLimit", 12),
        (policy(Move::Down(5), 95.0), 3, "Crossed", 1),
        (policy(Move::Down(5), 95.0), 0, "AtLimit", 0),
        (strict(Move::Up(5)), 8, "Refused", 8),
        (strict(Move::Up(2)), 8, "Crossed", 10),
    ] {
        let verdict = alone(policy, &high, count);
        assert_eq!((verdict.why.code(), verdict.to), (code, to), "{policy:?} at {count}");
    }
}

#[test]
fn one_of_several_triggered_policies_takes_precedence() {
    let (high, low) = (series(&[90.0; 60]), series(&[10.0; 60]));
    let (cpu, memory) = (Reading::Series(&high), Reading::Series(&low));
    let verdicts = judge(
        &[
            (policy(Move::Down(1), 40.0), memory),
            (policy(Move::Up(1), 80.0), cpu),
            (policy(Move::Up(3), 85.0), cpu),
            (policy(Move::Up(3), 70.0), cpu),
        ],
        5,
        now(),
    );
    let fires: Vec<bool> = verdicts.iter().map(|v| v.fires).collect();
    let to: Vec<i64> = verdicts.iter().map(|v| v.to).collect();
    assert_eq!((fires, to), (vec![false, false, true, false], vec![5, 5, 8, 5]));
}

#[test]
fn a_service_that_another_autoscaler_sizes_is_left_to_it() {
    let high = series(&[90.0; 60]);
    let policies = [(policy(Move::Up(1), 80.0), Reading::Series(&high))];
    assert!(judge(&policies, 5, now())[0].fires);
    let verdicts = hold_shared(&policies, 5, "ScalingPolicy default/web");
    assert_eq!((verdicts[0].fires, verdicts[0].to), (false, 5));
    assert_eq!(verdicts[0].why.code(), "TargetShared");
    assert_eq!(verdicts[0].why.to_string(), "ScalingPolicy default/web sizes the same target");
}
