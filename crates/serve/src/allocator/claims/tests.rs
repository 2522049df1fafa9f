//! The claim table under concurrent claims, writes and watch events.

use std::sync::Arc;

use cluster::CacheEntry as _;
use decide::allocation::{CounterAction, CounterVerb, Request, Selector};
use decide::gameserver::State;
use jiff::Timestamp;
use tokio::sync::oneshot;

use super::super::answer::tests::{object, server};
use super::super::concurrency::{Bounds, ConcurrencyLimit};
use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// A claim, and the receiver of its outcome.
async fn claim(request: Request) -> (Claim, oneshot::Receiver<ClaimOutcome>) {
    let (answer, outcome) = oneshot::channel();
    let permit = ConcurrencyLimit::new(Bounds::default()).acquire(&"default".into()).await.unwrap();
    (Claim { request: Arc::new(request), answer, permit: Arc::new(permit) }, outcome)
}

fn ready() -> Request {
    Request {
        namespace: "default".into(),
        selectors: vec![Selector::default()],
        ..Request::default()
    }
}

/// One more room, on a server that has players if there is one, else on a Ready one.
fn room() -> Request {
    let bounds = decide::allocation::CounterBounds { min_available: 1, ..Default::default() };
    let free = |state| Selector {
        state,
        counters: [("rooms".into(), bounds)].into(),
        ..Selector::default()
    };
    let one = CounterAction { capacity: None, change: Some((CounterVerb::Increment, 1)) };
    Request {
        selectors: vec![free(State::Allocated), free(State::Ready)],
        counters: [("rooms".into(), one)].into(),
        ..ready()
    }
}

fn table(servers: &[(&str, &str, &str)]) -> ClaimTable {
    let mut table = ClaimTable::default();
    servers.iter().for_each(|(name, version, state)| table.observe(server(name, version, state)));
    table
}

fn version(server: &CachedGameServer) -> u64 {
    resource_version(&server.object.metadata)
}

#[tokio::test]
async fn two_requests_never_get_the_same_ready_server() {
    let mut table = table(&[("a", "1", "Ready"), ("b", "2", "Ready")]);
    let mut names = Vec::new();
    for _ in 0..2 {
        let (claim, _outcome) = claim(ready()).await;
        let Ok(Some(write)) = table.claim(claim, 0, NOW) else { panic!("a server matches") };
        names.push(write.base.view.name.to_string());
    }
    assert_eq!(names, ["a", "b"]);
    assert!(table.claim(claim(ready()).await.0, 0, NOW).is_err(), "none is left");
}

#[tokio::test]
async fn claims_on_a_server_with_a_write_in_flight_share_the_next_write() {
    let mut table = table(&[("a", "1", "Ready")]);
    let Ok(Some(first)) = table.claim(claim(room()).await.0, 0, NOW) else { panic!() };
    let (second, mut outcome) = claim(room()).await;
    assert!(matches!(table.claim(second, 0, NOW), Ok(None)), "it waits");
    assert!(table.claim(claim(room()).await.0, 0, NOW).is_err(), "two rooms, two claims");

    let mut written = object("a", "2", "Allocated");
    let counters = written.status.as_mut().unwrap().counters.as_mut().unwrap();
    counters.get_mut("rooms").unwrap().count = 1;
    let written = Arc::new(CachedGameServer::from_object(written));
    let (leave, next) = table.complete_write(&first.base, WriteOutcome::Observed(written), NOW);
    let next = next.expect("the second claim is written next");
    assert!(leave.is_empty() && next.claims.len() == 1 && version(&next.base) == 2);
    assert!(outcome.try_recv().is_err(), "it has no outcome before that");
}

#[tokio::test]
async fn a_waiting_claim_chooses_again_when_the_server_no_longer_matches() {
    let mut table = table(&[("a", "1", "Ready")]);
    let Ok(Some(first)) = table.claim(claim(room()).await.0, 0, NOW) else { panic!() };
    let (waits, _outcome) = claim(room()).await;
    assert!(matches!(table.claim(waits, 0, NOW), Ok(None)));
    let (leave, next) = table.complete_write(
        &first.base,
        WriteOutcome::Observed(server("a", "9", "Shutdown")),
        NOW,
    );
    assert!(leave.len() == 1 && next.is_none());
}

#[tokio::test]
async fn a_caller_that_is_cancelled_while_waiting_causes_no_write() {
    let mut table = table(&[("a", "1", "Ready")]);
    let Ok(Some(first)) = table.claim(claim(room()).await.0, 0, NOW) else { panic!() };
    let (waits, outcome) = claim(room()).await;
    assert!(matches!(table.claim(waits, 0, NOW), Ok(None)));
    drop(outcome);
    let (leave, next) = table.complete_write(&first.base, WriteOutcome::NotSent, NOW);
    assert!(leave.is_empty() && next.is_none());
    let server = table.peek(&ready()).expect("nothing was written, so it is Ready");
    assert_eq!(version(&server), 1);
}

#[test]
fn objects_older_than_the_known_one_are_ignored() {
    let mut table = table(&[("a", "5", "Allocated")]);
    table.observe(server("a", "4", "Ready"));
    assert!(table.peek(&ready()).is_none());
    table.remove(&server("a", "3", "Ready"));
    table.observe(server("a", "6", "Ready"));
    assert!(table.peek(&ready()).is_some());
    table.remove(&server("a", "7", "Ready"));
    assert!(table.peek(&ready()).is_none());
}

#[tokio::test]
async fn a_server_deleted_during_a_write_is_not_added_again() {
    let mut table = table(&[("a", "1", "Ready")]);
    let Ok(Some(write)) = table.claim(claim(ready()).await.0, 0, NOW) else { panic!() };
    table.remove(&server("a", "3", "Allocated"));
    table.complete_write(&write.base, WriteOutcome::Observed(server("a", "2", "Allocated")), NOW);
    assert!(table.servers.is_empty() && table.index.is_empty());
}

#[tokio::test]
async fn a_new_list_removes_missing_servers_and_releases_quarantined_ones() {
    let mut table = table(&[("a", "1", "Ready"), ("b", "2", "Ready")]);
    let Ok(Some(write)) = table.claim(claim(ready()).await.0, 0, NOW) else { panic!() };
    table.complete_write(&write.base, WriteOutcome::Unknown, NOW);
    let chosen = table.peek(&ready()).unwrap();
    assert_eq!(&*chosen.view.name, "b", "the outcome of the write to a is unknown");
    assert!(table.peek(&ready()).is_some(), "the other one is still known");
    // The list has `a` as it was, and no `b`.
    table.remove(&server("b", "2", "Ready"));
    table.release_quarantined();
    let chosen = table.peek(&ready()).unwrap();
    assert_eq!((&*chosen.view.name, table.servers.len()), ("a", 1));
}

#[tokio::test]
async fn skipping_servers_never_skips_the_last_one_of_the_same_selector() {
    let mut table = table(&[("a", "1", "Ready"), ("b", "2", "Ready"), ("c", "3", "Allocated")]);
    let either = || Request {
        selectors: vec![
            Selector::default(),
            Selector { state: State::Allocated, ..Selector::default() },
        ],
        ..ready()
    };
    for expected in ["b", "a", "c"] {
        let got = table.claim(claim(either()).await.0, 1, NOW);
        let Ok(Some(write)) = got else { panic!("{expected} matches") };
        assert_eq!(&*write.base.view.name, expected);
        let version = "10";
        table.complete_write(
            &write.base,
            WriteOutcome::Observed(server(expected, version, "Shutdown")),
            NOW,
        );
    }
}

#[tokio::test]
async fn servers_on_an_unready_node_are_not_chosen_until_it_is_ready() {
    let on = |name: &str, version: &str, state: &str| {
        let mut server = object(name, version, state);
        server.status.as_mut().unwrap().node_name = "n".to_owned();
        Arc::new(CachedGameServer::from_object(server))
    };
    let mut table = ClaimTable::default();
    table.observe(on("a", "1", "Ready"));
    table.observe(on("b", "2", "Allocated"));
    table.set_node_ready("n", false);
    assert!(table.peek(&ready()).is_none());
    assert!(table.peek(&room()).is_none(), "nor an Allocated one with room");
    table.observe(on("c", "3", "Ready"));
    table.observe(on("a", "4", "Ready"));
    assert!(table.peek(&ready()).is_none(), "even after changes of its servers");
    table.set_node_ready("n", true);
    assert!(table.peek(&ready()).is_some());
    let (taken, _outcome) = claim(ready()).await;
    let Ok(Some(write)) = table.claim(taken, 0, NOW) else { panic!("a server matches") };
    table.set_node_ready("n", false);
    table.complete_write(&write.base, WriteOutcome::NotSent, NOW);
    assert!(table.peek(&ready()).is_none(), "not after a write that was completed meanwhile");
    table.set_node_ready("n", true);
    assert!(table.peek(&ready()).is_some());
}
