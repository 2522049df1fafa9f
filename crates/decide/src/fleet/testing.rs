//! Fixtures for the tests of this module.

use jiff::Timestamp;

use super::{
    Fleet, FleetDecision, FleetObservation, FleetStatus, Mode, Policy, Replies, Reply, Scheduling,
    Sizing, Template, merge, size, status,
};
use crate::gameserver::{Counter, GameServer, Occupancy, State};

/// The current time in all tests.
pub(super) const NOW: Timestamp = Timestamp::constant(1_772_366_400, 0);

/// Returns a fleet of `replicas` servers that all exist.
pub(super) fn fleet(replicas: i32) -> Fleet {
    Fleet {
        namespace: "default".into(),
        name: "f".into(),
        replicas,
        scheduling: Scheduling::Packed,
        priorities: Vec::new(),
        template: Template::default(),
        status: FleetStatus { replicas, ready: replicas, ..FleetStatus::default() },
        mode: Mode::Repaired,
    }
}

/// Returns a server on node `n`.
pub(super) fn server(name: &str, state: State) -> GameServer {
    let mut server = GameServer::new("default", name, state);
    server.node = "n".into();
    server
}

/// Returns a server on node `n` with a counter `rooms`.
pub(super) fn rooms(name: &str, state: State, count: i64, capacity: i64) -> GameServer {
    let mut server = server(name, state);
    server.counters.insert("rooms".into(), Counter { count, capacity });
    server
}

/// Returns a fleet with the counter `rooms` in its template, and the status of `servers`.
pub(super) fn fleet_of(servers: &[GameServer], count: i64, capacity: i64, mode: Mode) -> Fleet {
    let counters = [("rooms".into(), Counter { count, capacity })].into();
    let template = Template { counters, ..Template::default() };
    let status = merge([&status(&template, servers)]);
    Fleet { replicas: status.replicas, template, status, mode, ..fleet(0) }
}

/// Decides about a fleet by a policy without webhooks.
pub(super) fn decide(policy: &Policy, fleet: &Fleet, servers: &[GameServer]) -> FleetDecision {
    decide_with(policy, fleet, servers, &Replies::new())
}

/// Decides about a fleet with every reply that the policy needs.
pub(super) fn decide_with(
    policy: &Policy,
    fleet: &Fleet,
    servers: &[GameServer],
    replies: &Replies,
) -> FleetDecision {
    let nodes = Occupancy::from_servers(servers);
    let observed = FleetObservation { fleet, servers, nodes: &nodes, other_owner: None };
    match size(policy, observed, replies, NOW) {
        Sizing::Decided(decision) => decision,
        Sizing::Ask(id) => panic!("the reply `{id}` is missing"),
    }
}

/// Returns the only reply, outside of a chain.
pub(super) fn reply(reply: Reply) -> Replies {
    [("".into(), reply)].into()
}

/// Returns the decided size, and whether it was limited.
pub(super) fn answer(decision: &FleetDecision) -> Option<(i32, bool)> {
    decision.outcome.as_ref().ok().map(|size| (size.to, size.limited))
}
