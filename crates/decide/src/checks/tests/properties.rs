//! Property tests of decisions.

use proptest::prelude::*;
use proptest::strategy::Strategy as Generator;

use super::*;

/// A random check: its group, its value (`None`: no data), and its error handling.
type Any = (String, Option<i64>, OnError);

fn any_check() -> impl Generator<Value = Any> {
    let on_error = prop::sample::select(vec![OnError::Hold, OnError::Ignore, OnError::Fail]);
    let group = prop::sample::select(vec!["", "a", "b"]).prop_map(str::to_owned);
    (group, prop::option::weighted(0.8, -5..40_i64), on_error)
}

fn evaluate(
    all: &[Any],
    (min, max): (i64, i64),
    count: i64,
    last_action: Option<LastAction>,
) -> ScalingDecision {
    let checks = all.iter().map(|(group, _, on_error)| reads(group, *on_error)).collect();
    let numbers = all.iter().map(|(_, value, _)| {
        let value = value.map_or(f64::NAN, |v| v as f64);
        Series::even(&[value], SignedDuration::from_secs(1), now())
    });
    let numbers: Vec<Series> = numbers.collect();
    let readings: Vec<Reading<'_>> = numbers.iter().map(Reading::Series).collect();
    decide(
        &policy(min, max, checks),
        &TargetObservation { last_action, ..observed(count, &readings) },
        now(),
    )
}

proptest! {
    #[test]
    fn the_result_is_within_limits(
        all in prop::collection::vec(any_check(), 0..6),
        min in 0..20_i64, more in 0..20_i64, count in 0..60_i64, ago in prop::option::of(0..900_i64),
    ) {
        let last = ago.map(|ago| LastAction {
            at: now() - SignedDuration::from_secs(ago), from: 1, to: 2,
        });
        let decision = evaluate(&all, (min, min + more), count, last);
        prop_assert!((min..=min + more).contains(&decision.to));
        // Cooldown never blocks a correction back into limits.
        if count > min + more {
            prop_assert_eq!(decision.to, min + more);
        } else if count < min {
            prop_assert_eq!(decision.to, min);
        }
    }

    #[test]
    fn missing_data_never_shrinks_a_target_unless_it_is_ignored(
        all in prop::collection::vec(any_check(), 1..6), count in 0..40_i64,
    ) {
        prop_assume!(all.iter().any(|(_, value, on_error)| {
            value.is_none() && *on_error != OnError::Ignore
        }));
        prop_assert!(evaluate(&all, (0, 40), count, None).to >= count);
    }

    #[test]
    fn the_order_of_checks_does_not_matter(
        (all, shuffled) in prop::collection::vec(any_check(), 0..6)
            .prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
        count in 0..40_i64,
    ) {
        let (a, b) = (evaluate(&all, (2, 30), count, None), evaluate(&shuffled, (2, 30), count, None));
        prop_assert_eq!((a.to, a.limited), (b.to, b.limited));
    }

    #[test]
    fn resolving_some_votes_first_changes_nothing(
        values in prop::collection::vec(0..40_i64, 1..6), split in 0..6_usize, count in 0..40_i64,
    ) {
        // Ungrouped votes resolve like their own partial results: the resolution is associative.
        let settle = |values: &[i64]| {
            let checks = values.iter().map(|v| fixed("", *v)).collect();
            decide(&policy(0, 40, checks), &observed(count, &[]), now()).to
        };
        let (left, right) = values.split_at(split.min(values.len()));
        let parts: Vec<i64> =
            [left, right].into_iter().filter(|p| !p.is_empty()).map(settle).collect();
        prop_assert_eq!(settle(&values), settle(&parts));
    }

    #[test]
    fn a_group_of_one_equals_no_group(
        mut all in prop::collection::vec(any_check(), 1..6), count in 0..40_i64,
    ) {
        for check in all.iter_mut().skip(1) {
            check.0.clear();
        }
        all[0].0 = "alone".to_owned();
        let grouped = evaluate(&all, (2, 30), count, None);
        all[0].0.clear();
        let plain = evaluate(&all, (2, 30), count, None);
        prop_assert_eq!((grouped.to, grouped.limited), (plain.to, plain.limited));
    }

    #[test]
    fn decisions_never_panic(
        value in prop::num::f64::ANY, count in prop::num::i64::ANY, target in prop::num::f64::ANY,
        max in 0..i64::MAX,
    ) {
        let numbers = Series::even(&[value], SignedDuration::from_secs(1), now());
        let readings = [Reading::Series(&numbers); 3];
        let steps = Steps { max_up: Some(i64::MAX), max_down: Some(i64::MAX) };
        let checks = vec![
            check("", strategy::Strategy::PassThrough(PassThrough { steps })),
            check("", strategy::Strategy::TargetValue(strategy::TargetValue { target, threshold: 0.01, steps })),
            check("", strategy::Strategy::Threshold(strategy::Threshold {
                bounds: strategy::Bounds { lower: f64::NEG_INFINITY, upper: target },
                trigger: 1,
                to: strategy::To::Percentage(value),
            })),
        ];
        let decision = decide(&policy(0, max, checks), &observed(count, &readings), now());
        prop_assert!((0..=max).contains(&decision.to));
    }
}
