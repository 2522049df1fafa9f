//! What the books do when things happen in an awkward order.

use std::sync::Arc;

use decide::allocation::{CounterAction, CounterVerb, Request, Selector};
use decide::gameserver::State;
use jiff::Timestamp;
use tokio::sync::oneshot;

use super::super::gate::{Bounds, Gate};
use super::super::server::tests::server;
use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// A claim on anything Ready, and what it will hear.
async fn claim(request: Request) -> (Claim, oneshot::Receiver<Verdict>) {
    let (answer, hears) = oneshot::channel();
    let permit = Gate::new(Bounds::default()).enter(&"default".into()).await.unwrap();
    (Claim { request: Arc::new(request), answer, permit: Arc::new(permit) }, hears)
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

fn books(servers: &[(&str, &str, &str)]) -> Books {
    let mut books = Books::default();
    servers.iter().for_each(|(name, version, state)| books.see(server(name, version, state)));
    books
}

#[tokio::test]
async fn two_requests_never_get_the_same_ready_server() {
    let mut books = books(&[("a", "1", "Ready"), ("b", "2", "Ready")]);
    let mut names = Vec::new();
    for _ in 0..2 {
        let (claim, _hears) = claim(ready()).await;
        let Ok(Some(flown)) = books.claim(claim, 0, NOW) else { panic!("a server is there") };
        names.push(flown.base.name().to_owned());
    }
    assert_eq!(names, ["a", "b"]);
    assert!(books.claim(claim(ready()).await.0, 0, NOW).is_err(), "none is left");
}

#[tokio::test]
async fn who_chooses_a_server_that_is_being_written_shares_the_next_write() {
    let mut books = books(&[("a", "1", "Ready")]);
    let Ok(Some(first)) = books.claim(claim(room()).await.0, 0, NOW) else { panic!() };
    let (second, mut hears) = claim(room()).await;
    assert!(matches!(books.claim(second, 0, NOW), Ok(None)), "it waits");
    assert!(books.claim(claim(room()).await.0, 0, NOW).is_err(), "two rooms, two claims");

    let mut written = server("a", "2", "Allocated");
    written.status.counters.as_mut().unwrap().get_mut("rooms").unwrap().count = 1;
    let (leave, next) = books.land(&first.base, Landing::Seen(written.into()), NOW);
    let next = next.expect("the second claim is written next");
    assert!(leave.is_empty() && next.claims.len() == 1 && next.base.version() == "2");
    assert!(hears.try_recv().is_err(), "and hears nothing before that");
}

#[tokio::test]
async fn who_waited_for_a_server_that_is_not_what_it_asked_for_chooses_again() {
    let mut books = books(&[("a", "1", "Ready")]);
    let Ok(Some(first)) = books.claim(claim(room()).await.0, 0, NOW) else { panic!() };
    let (waits, _hears) = claim(room()).await;
    assert!(matches!(books.claim(waits, 0, NOW), Ok(None)));
    let (leave, next) =
        books.land(&first.base, Landing::Seen(server("a", "9", "Shutdown").into()), NOW);
    assert!(leave.len() == 1 && next.is_none());
}

#[tokio::test]
async fn a_caller_who_left_while_waiting_costs_nothing() {
    let mut books = books(&[("a", "1", "Ready")]);
    let Ok(Some(first)) = books.claim(claim(room()).await.0, 0, NOW) else { panic!() };
    let (waits, hears) = claim(room()).await;
    assert!(matches!(books.claim(waits, 0, NOW), Ok(None)));
    drop(hears);
    let (leave, next) = books.land(&first.base, Landing::NotSent, NOW);
    assert!(leave.is_empty() && next.is_none());
    let server = books.peek(&ready()).expect("nothing was written, so it is Ready");
    assert_eq!(server.version(), "1");
}

#[test]
fn what_is_older_than_what_is_known_is_not_believed() {
    let mut books = books(&[("a", "5", "Allocated")]);
    books.see(server("a", "4", "Ready"));
    assert!(books.peek(&ready()).is_none());
    books.see_gone(server("a", "3", "Ready"));
    books.see(server("a", "6", "Ready"));
    assert!(books.peek(&ready()).is_some());
    books.see_gone(server("a", "7", "Ready"));
    assert!(books.peek(&ready()).is_none());
}

#[tokio::test]
async fn a_server_deleted_while_it_is_written_does_not_come_back() {
    let mut books = books(&[("a", "1", "Ready")]);
    let Ok(Some(flown)) = books.claim(claim(ready()).await.0, 0, NOW) else { panic!() };
    books.see_gone(server("a", "3", "Allocated"));
    books.land(&flown.base, Landing::Seen(server("a", "2", "Allocated").into()), NOW);
    assert!(books.servers.is_empty() && books.index.is_empty());
}

#[tokio::test]
async fn a_new_list_forgets_what_is_not_in_it_and_brings_back_what_was_withheld() {
    let mut books = books(&[("a", "1", "Ready"), ("b", "2", "Ready")]);
    let Ok(Some(flown)) = books.claim(claim(ready()).await.0, 0, NOW) else { panic!() };
    books.land(&flown.base, Landing::Unknown, NOW);
    let chosen = books.peek(&ready()).unwrap();
    assert_eq!(chosen.name(), "b", "nobody knows what became of a");
    books.start_list();
    books.see_listed(server("a", "1", "Ready"));
    assert!(books.peek(&ready()).is_some(), "a list under way forgets nothing");
    books.end_list();
    let chosen = books.peek(&ready()).unwrap();
    assert_eq!((chosen.name(), books.servers.len()), ("a", 1));
}

#[tokio::test]
async fn passing_over_servers_never_passes_over_the_last_one_that_is_as_good() {
    let mut books = books(&[("a", "1", "Ready"), ("b", "2", "Ready"), ("c", "3", "Allocated")]);
    let either = || Request {
        selectors: vec![
            Selector::default(),
            Selector { state: State::Allocated, ..Selector::default() },
        ],
        ..ready()
    };
    for expected in ["b", "a", "c"] {
        let got = books.claim(claim(either()).await.0, 1, NOW);
        let Ok(Some(flown)) = got else { panic!("{expected} is there") };
        assert_eq!(flown.base.name(), expected);
        let version = "10";
        books.land(&flown.base, Landing::Seen(server(expected, version, "Shutdown").into()), NOW);
    }
}

#[tokio::test]
async fn a_server_on_a_node_that_is_not_ready_is_not_given_out_until_it_is() {
    let on = |name: &str, version: &str, state: &str| {
        let mut server = server(name, version, state);
        server.status.node_name = "n".to_owned();
        server
    };
    let mut books = Books::default();
    books.see(on("a", "1", "Ready"));
    books.see(on("b", "2", "Allocated"));
    books.see_node("n", false);
    assert!(books.peek(&ready()).is_none());
    assert!(books.peek(&room()).is_none(), "nor more of one with players");
    books.see(on("c", "3", "Ready"));
    books.see(on("a", "4", "Ready"));
    assert!(books.peek(&ready()).is_none(), "whatever is seen there meanwhile");
    books.see_node("n", true);
    assert!(books.peek(&ready()).is_some());
    let (taken, _hears) = claim(ready()).await;
    let Ok(Some(flown)) = books.claim(taken, 0, NOW) else { panic!("a server is there") };
    books.see_node("n", false);
    books.land(&flown.base, Landing::NotSent, NOW);
    assert!(books.peek(&ready()).is_none(), "not after a write that ended meanwhile");
    books.see_node("n", true);
    assert!(books.peek(&ready()).is_some());
}
