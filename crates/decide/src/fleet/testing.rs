//! Small worlds for the tests of this folder.

use jiff::Timestamp;

use super::{
    Decision, Fleet, FleetStatus, Mode, Observation, Policy, Replies, Reply, Scheduling, Sizing,
    Template, merge, size, status,
};
use crate::gameserver::{Counter, GameServer, Occupancy, State};

/// The moment at which every test looks.
pub(super) const NOW: Timestamp = Timestamp::constant(1_772_366_400, 0);

/// A fleet of `replicas` servers that are all there.
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

/// A server on node `n`.
pub(super) fn server(name: &str, state: State) -> GameServer {
    let mut server = GameServer::new("default", name, state);
    server.node = "n".into();
    server
}

/// A server on node `n` with a counter `rooms`.
pub(super) fn rooms(name: &str, state: State, count: i64, capacity: i64) -> GameServer {
    let mut server = server(name, state);
    server.counters.insert("rooms".into(), Counter { count, capacity });
    server
}

/// A fleet whose new servers have the counter `rooms`, and whose status says what `servers` say.
pub(super) fn fleet_of(servers: &[GameServer], count: i64, capacity: i64, mode: Mode) -> Fleet {
    let counters = [("rooms".into(), Counter { count, capacity })].into();
    let template = Template { counters, ..Template::default() };
    let status = merge([&status(&template, servers)]);
    Fleet { replicas: status.replicas, template, status, mode, ..fleet(0) }
}

/// Decides about a fleet and its servers by a policy that asks nothing.
pub(super) fn decide(policy: &Policy, fleet: &Fleet, servers: &[GameServer]) -> Decision {
    decide_with(policy, fleet, servers, &Replies::new())
}

/// Decides about a fleet and its servers with every reply that the policy needs.
pub(super) fn decide_with(
    policy: &Policy,
    fleet: &Fleet,
    servers: &[GameServer],
    replies: &Replies,
) -> Decision {
    let nodes = Occupancy::of(servers);
    let seen = Observation { fleet, servers, nodes: &nodes, rival: None };
    match size(policy, seen, replies, NOW) {
        Sizing::Decided(decision) => decision,
        Sizing::Ask(id) => panic!("the reply `{id}` is missing"),
    }
}

/// The reply of the only one who is asked, outside of a chain.
pub(super) fn reply(reply: Reply) -> Replies {
    [("".into(), reply)].into()
}

/// The size that was decided, and whether it was limited.
pub(super) fn answer(decision: &Decision) -> Option<(i32, bool)> {
    decision.outcome.as_ref().ok().map(|size| (size.to, size.limited))
}
