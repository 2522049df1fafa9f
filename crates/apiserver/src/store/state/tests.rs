//! Tests of the retention of changes.

use std::time::Duration;

use serde_json::json;

use super::super::History;
use super::*;

const SECOND: i64 = 1000;
const HOUR: i64 = 3600 * SECOND;

fn add(state: &mut State, size: usize) {
    let version = state.version() + 1;
    let place = (Arc::from("things"), Arc::from(format!("n/{version}")));
    let body = Body::new(&json!({"metadata": {"name": "a"}, "data": "x".repeat(size)}));
    let change = Change::new(0, place, version, Some(body), None).unwrap();
    state.apply(Arc::new(change), 0);
}

fn trim(state: &mut State, history: &History) {
    state.trim(history, |_, _| u64::MAX);
}

fn kept(state: &State) -> u64 {
    state.version() - state.forgotten_to()
}

#[test]
fn changes_are_kept_as_long_as_their_bytes_fit() {
    let history = History { bytes: 100_000, ..History::default() };
    let mut state = State::default();
    for _ in 0..50 {
        add(&mut state, 9_000);
        trim(&mut state, &history);
        assert!(state.bytes <= history.bytes, "{}", state.bytes);
    }
    assert_eq!(kept(&state), 10);
    assert!(state.changes("things", state.forgotten_to(), 100, usize::MAX).is_ok());
    assert!(state.changes("things", state.forgotten_to() - 1, 100, usize::MAX).is_err());
    // What was there before a change is kept with it.
    let version = state.version() + 1;
    let place = (Arc::from("things"), Arc::from("n/a"));
    let large = Body::new(&json!({"metadata": {"name": "a"}, "data": "x".repeat(95_000)}));
    let small = Body::new(&json!({"metadata": {"name": "a"}}));
    let change = Change::new(0, place, version, Some(small), Some(large.at(2))).unwrap();
    state.apply(Arc::new(change), 0);
    trim(&mut state, &history);
    assert_eq!(kept(&state), 1);
}

#[test]
fn a_clock_that_is_set_back_keeps_nothing_for_longer() {
    let history = History { keep_for: Duration::from_secs(300), ..History::default() };
    let mut state = State::default();
    let mut now = 10 * HOUR;
    state.advance(now);
    add(&mut state, 10);
    now -= HOUR;
    for _ in 0..31 {
        state.advance(now);
        trim(&mut state, &history);
        assert_eq!(kept(&state), 1);
        now += 10 * SECOND;
    }
    state.advance(now);
    trim(&mut state, &history);
    assert_eq!(kept(&state), 0);
}

#[test]
fn a_clock_that_is_set_forward_forgets_nothing_at_once() {
    let history = History { keep_for: Duration::from_secs(300), ..History::default() };
    let mut state = State::default();
    state.advance(0);
    add(&mut state, 10);
    state.advance(8 * HOUR);
    trim(&mut state, &history);
    assert_eq!(kept(&state), 1);
}

#[test]
fn the_backlog_of_a_watcher_is_limited() {
    let history = History { at_most: 10, bytes: 100_000, ..History::default() };
    let mut state = State::default();
    let watcher = state.version();
    let read_to = |_: &str, missed: u64| if watcher >= missed { watcher } else { u64::MAX };
    for _ in 0..1000 {
        add(&mut state, 1000);
        state.trim(&history, read_to);
    }
    assert_eq!(kept(&state), 1000);
    let (changes, reached) = state.changes("things", watcher, 100, 5000).unwrap();
    assert_eq!(reached, changes.last().unwrap().version());
    assert!((2..=5).contains(&changes.len()), "no more than fit: {}", changes.len());
    // A watcher that never reads is left behind, and nothing is kept for it any more.
    for _ in 0..200 {
        add(&mut state, 100_000);
        state.trim(&history, read_to);
    }
    assert!(kept(&state) <= 10, "{}", kept(&state));
    assert!(state.changes("things", watcher, 100, 5000).is_err());
}
