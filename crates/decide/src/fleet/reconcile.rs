//! Reconciles a set of game servers: which ones are created and deleted in one pass.

use std::borrow::Borrow;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Mode, Scheduling, backoff, deletion_order};
use crate::gameserver::{Event, GameServer, Occupancy, Priority, State};

/// The fields of a GameServerSet that its size depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSet {
    /// `spec.replicas`.
    pub replicas: i32,
    /// `spec.scheduling`.
    pub scheduling: Scheduling,
    /// `spec.priorities`.
    pub priorities: Vec<Priority>,
    /// Whether the set itself is being deleted: then nothing is created.
    pub has_deletion_timestamp: bool,
    /// The compatibility mode of its fleet.
    pub mode: Mode,
}

/// Limits of one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of creations.
    pub creations: u32,
    /// The maximum number of deletions.
    pub deletions: u32,
    /// The maximum number of servers of the set without a running pod.
    pub pending: u32,
}

/// The result of one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciliation {
    /// The number of servers to create.
    pub create: u32,
    /// For the first of them, how many servers failed in a row before it. The others do not replace a failed server.
    pub failed_before: Vec<u32>,
    /// The names of the servers to shut down, in order.
    pub delete: Vec<Arc<str>>,
    /// Failed servers that are retained for a while and replaced later.
    pub retained: Vec<RetainedServer>,
    /// Whether a limit left work for another pass, which follows at once.
    pub is_partial: bool,
    /// The time at which the result could change without any other change.
    pub wake_at: Option<Timestamp>,
}

/// A server that failed soon after its creation, like others before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedServer {
    /// Its name.
    pub name: Arc<str>,
    /// How many servers failed in a row, including this one.
    pub failures: u32,
    /// The time at which it is replaced.
    pub until: Timestamp,
}

impl Reconciliation {
    /// Returns when the next pass follows without a change: at once where a limit left work. Where a limit allows no work at all,
    /// a change has to come first.
    pub fn requeue_at(&self, now: Timestamp) -> Option<Timestamp> {
        let did_something = self.create > 0 || !self.delete.is_empty();
        if self.is_partial && did_something { Some(now) } else { self.wake_at }
    }
}

/// Returns the state that shuts a server down; `None` for one that is in use by now, or terminating already.
pub fn shutdown(server: &GameServer) -> Option<State> {
    let is_free = server.is_deletable() && !server.is_being_deleted();
    server.state.after(Event::SetDeletes).filter(|_| is_free)
}

impl Limits {
    /// The defaults of Agones' installation.
    pub const AGONES: Self = Self { creations: 64, deletions: 64, pending: 5000 };

    /// Our defaults: unlimited, except for the number of pending pods.
    pub const WHOLE: Self = Self { creations: u32::MAX, deletions: u32::MAX, pending: 5000 };

    /// Returns the limits of a mode.
    pub fn for_mode(mode: Mode) -> Self {
        match mode {
            Mode::Repaired => Self::WHOLE,
            Mode::Agones => Self::AGONES,
        }
    }
}

/// How long a server in state Error is retained for inspection.
const ERROR_KEPT_FOR: SignedDuration = SignedDuration::from_secs(30);

/// Returns whether a server is lost: its set deletes and replaces it.
pub(super) fn is_lost(server: &GameServer, now: Timestamp) -> bool {
    lost_at(server).is_some_and(|at| at <= now)
}

/// Returns the time from which a failed server is replaced; `None` for one that did not fail.
fn lost_at(server: &GameServer) -> Option<Timestamp> {
    let retained_until = backoff::retained_until(server);
    match server.state {
        State::Unhealthy => Some(retained_until),
        State::Error => {
            let end = |at: Timestamp| at.saturating_add(ERROR_KEPT_FOR).unwrap_or(Timestamp::MAX);
            Some(server.errored_at.map_or(retained_until, |at| end(at).max(retained_until)))
        }
        State::PortAllocation
        | State::Creating
        | State::Starting
        | State::Scheduled
        | State::RequestReady
        | State::Ready
        | State::Allocated
        | State::Reserved
        | State::Shutdown
        | State::Unknown => None,
    }
}

/// Reconciles the servers of a set. A server that is Allocated or Reserved is never deleted.
pub fn reconcile(
    set: &ServerSet,
    servers: &[impl Borrow<GameServer>],
    nodes: &Occupancy,
    limits: Limits,
    now: Timestamp,
) -> Reconciliation {
    let (free, in_use): (Vec<&GameServer>, Vec<_>) =
        servers.iter().map(Borrow::borrow).partition(|s| s.is_deletable());
    let free = free.into_iter().filter(|s| !s.is_being_deleted());
    let (lost, candidates): (Vec<_>, Vec<_>) = free.partition(|s| is_lost(s, now));
    // They are replaced like lost ones, but stay until their replacements are there.
    let (evacuating, candidates): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|s| s.is_evacuating && set.mode == Mode::Repaired);
    let target = usize::try_from(set.replicas).unwrap_or(0);
    let retained = target.saturating_sub(in_use.len()).min(candidates.len());
    let up = in_use.len() + retained;
    let is_pending = |s: &&&GameServer| s.state.is_before_pod_runs() || s.state == State::Error;
    let pending = candidates.iter().filter(is_pending).count();

    let mut excess = candidates.len() - retained;
    if set.mode == Mode::Agones {
        // Agones counts a lost server as one less to remove, and finishes in the next pass.
        excess = excess.saturating_sub(lost.len());
    }
    let ranking = set.mode.ranking(nodes);
    let order = |servers| deletion_order(servers, set.scheduling, &set.priorities, &ranking);
    let active = in_use.len() + candidates.iter().filter(|s| s.state.is_active()).count();
    let replaced = (active + evacuating.len()).saturating_sub(target).min(evacuating.len());
    let most = limits.deletions as usize;
    let mut is_partial = lost.len().saturating_add(replaced).saturating_add(excess) > most;
    let lost: Vec<&GameServer> = order(lost).take(most).collect();
    let (wake_at, waiting) = (wake_at(&candidates, now), retained_servers(&candidates, now));
    // Most passes delete nothing and do not need the order.
    let candidates = if excess == 0 { Vec::new() } else { candidates };
    let (failed, well): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|s| s.state == State::Unhealthy);
    let surplus = order(failed).chain(order(well)).take(excess);
    let evacuated = order(if replaced == 0 { Vec::new() } else { evacuating }).take(replaced);
    let all = lost.iter().copied().chain(evacuated).chain(surplus).take(most);
    let delete: Vec<Arc<str>> = all.map(|s| Arc::clone(&s.name)).collect();

    let lacking = if set.has_deletion_timestamp { 0 } else { target.saturating_sub(up) };
    let room = (limits.pending as usize).saturating_sub(pending);
    let create = lacking.min(limits.creations as usize).min(room);
    is_partial |= create < lacking;
    let failed_before = failures_before(&lost, create, now);
    let create = u32::try_from(create).unwrap_or(u32::MAX);
    let retained = if excess == 0 { waiting } else { Vec::new() };
    Reconciliation { create, failed_before, delete, retained, is_partial, wake_at }
}

/// Returns the failure count for each server that replaces one that failed early. The highest come first, so that none is lost
/// where fewer servers are created than deleted.
fn failures_before(lost: &[&GameServer], create: usize, now: Timestamp) -> Vec<u32> {
    let mut failures: Vec<u32> = lost.iter().map(|s| backoff::failures(s, now)).collect();
    failures.sort_unstable_by(|a, b| b.cmp(a));
    failures.truncate(create);
    failures
}

/// Returns failed servers that are not replaced yet.
fn retained_servers(candidates: &[&GameServer], now: Timestamp) -> Vec<RetainedServer> {
    let failed = candidates.iter().filter(|s| s.state == State::Unhealthy);
    let retained = failed.map(|s| RetainedServer {
        name: Arc::clone(&s.name),
        failures: backoff::failures(s, now),
        until: backoff::retained_until(s),
    });
    retained.collect()
}

/// Returns the time at which the first of the retained servers is lost.
fn wake_at(candidates: &[&GameServer], now: Timestamp) -> Option<Timestamp> {
    candidates.iter().filter_map(|server| lost_at(server)).filter(|at| *at > now).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::testing::{NOW, server};

    fn set(replicas: i32, mode: Mode) -> ServerSet {
        let priorities = Vec::new();
        let scheduling = Scheduling::Packed;
        ServerSet { replicas, scheduling, priorities, has_deletion_timestamp: false, mode }
    }

    fn pass(set: &ServerSet, servers: &[GameServer]) -> (u32, String, bool) {
        let nodes = Occupancy::from_servers(servers);
        let done = reconcile(set, servers, &nodes, Limits::for_mode(set.mode), NOW);
        (done.create, done.delete.join(" "), done.is_partial)
    }

    fn many(count: usize, state: State) -> Vec<GameServer> {
        (0..count).map(|n| server(&format!("s{n:04}"), state)).collect()
    }

    fn errored(name: &str, seconds_ago: i64) -> GameServer {
        let mut server = server(name, State::Error);
        server.errored_at = Some(NOW - SignedDuration::from_secs(seconds_ago));
        server
    }

    #[test]
    fn another_pass_follows_at_once_only_after_progress() {
        let later = NOW + SignedDuration::from_secs(9);
        for (create, delete, is_partial, wanted) in [
            (0, 0, false, Some(later)),
            (3, 1, false, Some(later)),
            (3, 0, true, Some(NOW)),
            (0, 1, true, Some(NOW)),
            (0, 0, true, Some(later)),
        ] {
            let delete = vec![Arc::from("a"); delete];
            let wake_at = Some(later);
            let pass = Reconciliation { create, delete, is_partial, wake_at, ..Default::default() };
            assert_eq!(pass.requeue_at(NOW), wanted, "{pass:?}");
        }
    }

    #[test]
    fn a_server_in_use_or_terminating_is_not_shut_down() {
        for (state, is_marked, wanted) in [
            (State::Ready, false, Some(State::Shutdown)),
            (State::Starting, false, Some(State::Shutdown)),
            (State::Unhealthy, false, Some(State::Shutdown)),
            (State::Allocated, false, None),
            (State::Reserved, false, None),
            (State::Shutdown, false, None),
            (State::Ready, true, None),
            (State::Allocated, true, None),
        ] {
            let mut server = server("a", state);
            server.has_deletion_timestamp = is_marked;
            assert_eq!(shutdown(&server), wanted, "{state} {is_marked}");
        }
    }

    #[test]
    fn a_set_is_scaled_up_and_down() {
        let servers = many(3, State::Ready);
        for mode in [Mode::Agones, Mode::Repaired] {
            assert_eq!(pass(&set(5, mode), &servers), (2, String::new(), false));
            assert_eq!(pass(&set(3, mode), &servers), (0, String::new(), false));
            assert_eq!(pass(&set(1, mode), &servers), (0, "s0000 s0001".into(), false));
        }
    }

    #[test]
    fn servers_in_use_are_never_deleted_and_count_towards_the_target() {
        let servers = [
            server("a", State::Allocated),
            server("r", State::Reserved),
            server("x", State::Ready),
            server("y", State::Ready),
        ];
        for mode in [Mode::Agones, Mode::Repaired] {
            assert_eq!(pass(&set(3, mode), &servers), (0, "x".into(), false));
            assert_eq!(pass(&set(0, mode), &servers), (0, "x y".into(), false));
        }
    }

    #[test]
    fn terminating_servers_are_not_counted() {
        let mut marked = server("m", State::Allocated);
        marked.has_deletion_timestamp = true;
        let servers = [marked, server("s", State::Shutdown), server("r", State::Ready)];
        assert_eq!(pass(&set(2, Mode::Repaired), &servers), (1, String::new(), false));
    }

    #[test]
    fn lost_servers_are_replaced_and_errors_retained_for_a_while() {
        let servers = [
            server("u", State::Unhealthy),
            errored("old", 30),
            errored("new", 29),
            server("e", State::Error),
        ];
        let (create, delete, _) = pass(&set(4, Mode::Repaired), &servers);
        assert_eq!((create, delete.as_str()), (3, "e old u"));
        let set = set(4, Mode::Repaired);
        let pass = reconcile(&set, &servers, &Occupancy::default(), Limits::WHOLE, NOW);
        assert_eq!(pass.wake_at, Some(NOW + SignedDuration::from_secs(1)), "then `new` is old");
    }

    #[test]
    fn a_repeated_early_failure_is_retained_and_replaced_later() {
        let young = |name: &str, seconds_ago: i64, failed_before: u32| {
            let mut server = server(name, State::Unhealthy);
            server.created_at = NOW - SignedDuration::from_secs(seconds_ago);
            server.failed_before = failed_before;
            server
        };
        let servers = [young("first", 1, 0), young("third", 3, 2), young("late", 20, 3)];
        let wanted = set(3, Mode::Repaired);
        let pass = reconcile(&wanted, &servers, &Occupancy::default(), Limits::WHOLE, NOW);
        assert_eq!((pass.create, pass.delete.join(" ").as_str()), (2, "first late"));
        assert_eq!(pass.failed_before, [4, 1]);
        let until = NOW + SignedDuration::from_secs(7);
        assert_eq!(pass.retained, [RetainedServer { name: "third".into(), failures: 3, until }]);
        assert_eq!(pass.wake_at, Some(until));
    }

    #[test]
    fn failed_servers_are_deleted_first() {
        let mut failed = server("z", State::Unhealthy);
        (failed.created_at, failed.failed_before) = (NOW, 3);
        let servers = [server("a", State::Ready), server("b", State::Ready), failed];
        assert_eq!(pass(&set(2, Mode::Repaired), &servers), (0, "z".into(), false));
        assert_eq!(pass(&set(5, Mode::Repaired), &servers), (2, String::new(), false));
    }

    #[test]
    fn agones_deletes_too_few_beside_lost_servers_and_ours_deletes_all() {
        let mut servers = many(4, State::Ready);
        servers.push(server("u", State::Unhealthy));
        assert_eq!(pass(&set(2, Mode::Agones), &servers).1, "u s0000");
        assert_eq!(pass(&set(2, Mode::Repaired), &servers).1, "u s0000 s0001");
    }

    #[test]
    fn a_pass_keeps_to_its_limits() {
        let servers = many(200, State::Ready);
        let (_, delete, is_partial) = pass(&set(0, Mode::Agones), &servers);
        assert_eq!((delete.split(' ').count(), is_partial), (64, true));
        let (_, delete, is_partial) = pass(&set(0, Mode::Repaired), &servers);
        assert_eq!((delete.split(' ').count(), is_partial), (200, false));
        assert_eq!(pass(&set(100, Mode::Agones), &[]), (64, String::new(), true));
        assert_eq!(pass(&set(100, Mode::Repaired), &[]), (100, String::new(), false));
        let pending = many(4990, State::Starting);
        assert_eq!(pass(&set(5100, Mode::Repaired), &pending), (10, String::new(), true));
        assert_eq!(pass(&set(5100, Mode::Agones), &pending), (10, String::new(), true));
    }

    #[test]
    fn a_server_on_a_node_that_is_emptied_is_replaced_first_and_then_deleted() {
        use State::{Allocated, Ready, Starting};
        let evacuating = |name: &str, state| {
            let mut server = server(name, state);
            server.is_evacuating = true;
            server
        };
        let three = || vec![server("a", Ready), server("b", Allocated), evacuating("m", Ready)];
        let with = |more: Vec<GameServer>| [three(), more].concat();
        for (what, replicas, servers, wanted) in [
            ("a replacement is created", 3, three(), (1, "")),
            ("it starts", 3, with(vec![server("n", Starting)]), (0, "")),
            ("it is Ready", 3, with(vec![server("n", Ready)]), (0, "m")),
            ("the fleet shrinks meanwhile", 2, three(), (0, "m")),
            ("and even more", 1, three(), (0, "m a")),
            ("it grows meanwhile", 4, with(vec![server("n", Ready)]), (1, "")),
            (
                "an allocation came first, so the replacement is one too many",
                2,
                vec![server("a", Ready), evacuating("m", Allocated), server("n", Ready)],
                (0, "a"),
            ),
            (
                "two at once, one replaced",
                2,
                vec![evacuating("k", Ready), evacuating("m", Ready), server("n", Ready)],
                (1, "k"),
            ),
        ] {
            let (create, delete, _) = pass(&set(replicas, Mode::Repaired), &servers);
            assert_eq!((create, delete.as_str()), wanted, "{what}");
        }
        assert_eq!(pass(&set(3, Mode::Agones), &three()), (0, String::new(), false));
    }

    #[test]
    fn a_set_being_deleted_creates_nothing() {
        let mut going = set(5, Mode::Repaired);
        going.has_deletion_timestamp = true;
        let lost = [server("u", State::Unhealthy)];
        assert_eq!(pass(&going, &lost), (0, "u".into(), false));
    }
}
