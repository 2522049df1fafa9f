//! The requests, the responses to them, and a comparison with the stored game servers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kube::api::{Api, DynamicObject};
use kube::{Client, ResourceExt as _};
use plimsoll_serve::proto::allocation::allocation_request::SchedulingStrategy;
use plimsoll_serve::proto::allocation::game_server_selector::GameServerState;
use plimsoll_serve::proto::allocation::{
    AllocationRequest, AllocationResponse, GameServerSelector, ListAction, ListSelector, MetaPatch,
};
use tonic::Code;

use crate::allocator::world::game_servers;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A server of one's own.
    Alone,
    /// A seat on a server that others use.
    Shared,
}

/// What a caller heard.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Heard {
    /// Nothing: it may or may not have happened.
    Nothing,
    /// That it got this server.
    Server(String),
    /// That it got none.
    None(Code),
}

/// Every ticket and what its caller heard.
pub(super) struct Book {
    namespace: String,
    next: AtomicUsize,
    answered: AtomicUsize,
    heard: Mutex<BTreeMap<String, Heard>>,
}

impl Book {
    pub(super) fn new(namespace: &str) -> Self {
        let (next, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { namespace: namespace.to_owned(), next, answered, heard: Mutex::default() }
    }

    pub(super) fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// Waits until so many have got a server.
    pub(super) async fn answers(&self, wanted: usize, started: Instant) {
        while self.answered() < wanted {
            let is_late = started.elapsed() > Duration::from_secs(1200);
            assert!(!is_late, "it gets done: {}", self.summary());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(super) fn ticket(&self, kind: Kind) -> String {
        let ticket = format!("{kind:?}-{}", self.next.fetch_add(1, Ordering::Relaxed));
        self.heard.lock().unwrap().insert(ticket.clone(), Heard::Nothing);
        ticket
    }

    pub(super) fn request(&self, kind: Kind, ticket: &str) -> AllocationRequest {
        let seat = ListSelector { min_available: 1, ..ListSelector::default() };
        let on = |state: GameServerState| GameServerSelector {
            game_server_state: state.into(),
            lists: [("players".to_owned(), seat.clone())].into(),
            ..GameServerSelector::default()
        };
        let action = ListAction { add_values: vec![ticket.to_owned()], ..ListAction::default() };
        let annotations = [("ticket".to_owned(), ticket.to_owned())].into();
        let base = AllocationRequest { namespace: self.namespace.clone(), ..Default::default() };
        match kind {
            Kind::Shared => AllocationRequest {
                game_server_selectors: vec![
                    on(GameServerState::Allocated),
                    on(GameServerState::Ready),
                ],
                lists: [("players".to_owned(), action)].into(),
                ..base
            },
            // Anywhere, so that now and then it is a server that the fleet's controllers are about to shut down.
            Kind::Alone => AllocationRequest {
                scheduling: SchedulingStrategy::Distributed.into(),
                metadata: Some(MetaPatch { annotations, ..MetaPatch::default() }),
                game_server_selectors: vec![GameServerSelector {
                    match_labels: [("kind".to_owned(), "alone".to_owned())].into(),
                    ..GameServerSelector::default()
                }],
                ..base
            },
        }
    }

    pub(super) fn allocated(&self, ticket: &str, answer: &AllocationResponse) {
        let is_shared = answer.lists.contains_key("players");
        let has_ticket = match answer.lists.get("players") {
            Some(players) => players.values.iter().any(|p| p == ticket),
            None => {
                let metadata = answer.metadata.as_ref().unwrap();
                metadata.annotations.get("ticket").is_some_and(|t| t == ticket)
            }
        };
        assert!(has_ticket, "{ticket} (shared: {is_shared}) is not in its own answer: {answer:?}");
        self.note(ticket, Heard::Server(answer.game_server_name.clone()));
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refused(&self, ticket: &str, code: Code) {
        self.note(ticket, Heard::None(code));
    }

    pub(super) fn heard_nothing(&self, ticket: &str) {
        self.note(ticket, Heard::Nothing);
    }

    fn note(&self, ticket: &str, heard: Heard) {
        self.heard.lock().unwrap().insert(ticket.to_owned(), heard);
    }

    pub(super) fn summary(&self) -> String {
        let heard = self.heard.lock().unwrap();
        let count = |is: fn(&Heard) -> bool| heard.values().filter(|h| is(h)).count();
        format!(
            "{} asked: {} got a server, {} none, {} lost to contention, {} heard nothing",
            heard.len(),
            count(|h| matches!(h, Heard::Server(_))),
            count(|h| *h == Heard::None(Code::ResourceExhausted)),
            count(|h| *h == Heard::None(Code::Aborted)),
            count(|h| *h == Heard::Nothing),
        )
    }

    /// Compares the responses with the stored game servers.
    pub(super) async fn check(&self, client: &Client, alone: usize) {
        let servers: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), &self.namespace, &game_servers());
        let all = servers.list(&Default::default()).await.unwrap().items;
        let mut holders: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut remaining = 0;
        for server in &all {
            let name = server.name_any();
            let state = server.data["status"]["state"].as_str().unwrap();
            let tickets = tickets(server);
            assert_eq!(
                state == "Allocated",
                !tickets.is_empty(),
                "{name} is {state} with {tickets:?}"
            );
            remaining += usize::from(name.starts_with('a'));
            tickets
                .into_iter()
                .for_each(|ticket| holders.entry(ticket).or_default().push(name.clone()));
        }
        assert_eq!(remaining, alone, "every server is still there");
        let heard = self.heard.lock().unwrap();
        let mut given = BTreeSet::new();
        for (ticket, heard) in heard.iter() {
            let held = holders.remove(ticket).unwrap_or_default();
            match heard {
                Heard::Server(name) => {
                    assert_eq!(
                        held,
                        std::slice::from_ref(name),
                        "{ticket} got {name} in its response"
                    );
                    let is_new = ticket.starts_with("Shared") || given.insert(name.clone());
                    assert!(is_new, "{name} was given twice");
                }
                Heard::None(code) => {
                    assert!(held.is_empty(), "{ticket} was refused with {code:?} and has {held:?}")
                }
                Heard::Nothing => {
                    assert!(held.len() <= 1, "{ticket} heard nothing and has {held:?}")
                }
            }
        }
        assert!(holders.is_empty(), "no caller has these tickets: {holders:?}");
    }
}

/// Reads the tickets on a server.
fn tickets(server: &DynamicObject) -> Vec<String> {
    if let Some(players) = server.data["status"]["lists"]["players"]["values"].as_array() {
        return players.iter().map(|p| p.as_str().unwrap().to_owned()).collect();
    }
    server.annotations().get("ticket").cloned().into_iter().collect()
}
