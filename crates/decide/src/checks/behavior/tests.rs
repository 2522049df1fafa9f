use super::*;

const NOW: i64 = 10_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn secs(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

fn free() -> Direction {
    Direction { window: secs(0), tolerance: 0.0, select: Select::Max, steps: vec![] }
}

fn past(ago: i64, wanted: i64, from: i64, to: i64) -> PastDecision {
    PastDecision { at: at(NOW - ago), wanted, from, to }
}

fn to(behavior: &Behavior, from: i64, wanted: i64, history: &[PastDecision]) -> i64 {
    let decision = ScalingDecision::new(from, wanted, vec![]);
    let held = hold(decision, behavior, history, at(NOW));
    assert_eq!(held.limited, held.to != wanted);
    held.to
}

#[test]
fn the_result_is_stabilized_over_the_window() {
    let behavior = Behavior {
        up: Direction { window: secs(60), ..free() },
        down: Direction { window: secs(300), ..free() },
    };
    for (from, wanted, history, settled) in [
        (5, 9, vec![], 9),
        (5, 9, vec![past(30, 7, 5, 5)], 7),
        (5, 9, vec![past(30, 3, 5, 5)], 5),
        (5, 9, vec![past(60, 3, 5, 5)], 9), // the window's beginning is outside
        (5, 2, vec![past(200, 4, 5, 5)], 4),
        (5, 2, vec![past(200, 8, 5, 5)], 5),
        (5, 2, vec![past(300, 8, 5, 5)], 2),
        (5, 2, vec![past(-10, 8, 5, 5)], 2), // the future is not known
        (5, 5, vec![past(10, 8, 5, 5)], 5),
    ] {
        assert_eq!(
            to(&behavior, from, wanted, &history),
            settled,
            "{from} to {wanted}, {history:?}"
        );
    }
}

#[test]
fn a_change_within_the_tolerance_is_ignored() {
    let behavior = Behavior {
        up: Direction { tolerance: 0.1, ..free() },
        down: Direction { tolerance: 0.2, ..free() },
    };
    for (from, wanted, answer) in
        [(10, 11, 10), (10, 12, 12), (10, 8, 10), (10, 7, 7), (0, 1, 1), (0, 0, 0)]
    {
        assert_eq!(to(&behavior, from, wanted, &[]), answer, "{from} to {wanted}");
    }
}

#[test]
fn steps_limit_the_change_in_a_period() {
    let units = |n, period| Step { change: Change::Units(n), period: secs(period) };
    let percent = |n, period| Step { change: Change::Percent(n), period: secs(period) };
    let rows = [
        (Select::Max, vec![units(4, 15), percent(100, 15)], 10, 90, vec![], 20),
        (Select::Min, vec![units(4, 15), percent(100, 15)], 10, 90, vec![], 14),
        (Select::Max, vec![percent(10, 60)], 5, 90, vec![], 6), // rounded up
        (Select::Max, vec![units(4, 60)], 10, 90, vec![past(30, 0, 7, 10)], 11),
        (Select::Max, vec![units(4, 60)], 10, 90, vec![past(60, 0, 7, 10)], 14),
        (Select::Max, vec![units(4, 60)], 10, 90, vec![past(30, 0, 2, 10)], 10),
        (Select::Max, vec![units(4, 60)], 10, 90, vec![past(30, 0, 12, 10)], 16),
        (Select::Disabled, vec![units(4, 60)], 10, 90, vec![], 10),
        (Select::Max, vec![], 10, 90, vec![], 90),
        (Select::Max, vec![units(4, 60)], 10, 1, vec![], 6),
        (Select::Max, vec![units(4, 60), percent(50, 60)], 10, 1, vec![], 5),
        (Select::Min, vec![units(4, 60), percent(50, 60)], 10, 1, vec![], 6),
        (Select::Max, vec![percent(33, 60)], 10, 1, vec![], 6), // cut to a whole number
        (Select::Max, vec![units(4, 60)], 10, 1, vec![past(30, 0, 15, 10)], 10),
        (Select::Disabled, vec![], 10, 1, vec![], 10),
    ];
    for (select, steps, from, wanted, history, answer) in rows {
        let both = Direction { select, steps: steps.clone(), ..free() };
        let behavior = Behavior { up: both.clone(), down: both };
        let found = to(&behavior, from, wanted, &history);
        assert_eq!(found, answer, "{select:?} {steps:?} {from} to {wanted} after {history:?}");
    }
}
