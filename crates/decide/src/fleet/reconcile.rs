//! What one pass over a set of game servers creates and deletes.

use std::borrow::Borrow;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Mode, Scheduling, backoff, deletion_order};
use crate::gameserver::{Event, GameServer, Occupancy, Priority, State};

/// A GameServerSet, as far as its size is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSet {
    /// `spec.replicas`.
    pub replicas: i32,
    /// `spec.scheduling`.
    pub scheduling: Scheduling,
    /// `spec.priorities`.
    pub priorities: Vec<Priority>,
    /// Whether the set itself is being deleted: then nothing is created.
    pub has_deletion_mark: bool,
    /// Whose results its fleet gets.
    pub mode: Mode,
}

/// How much one pass may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most servers created in a pass.
    pub creations: u32,
    /// The most servers deleted in a pass.
    pub deletions: u32,
    /// The most servers of the set that wait for their pod.
    pub pending: u32,
}

/// What one pass does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciliation {
    /// How many servers to create.
    pub create: u32,
    /// For the first of them, how many in a row failed before it took their place. The others replace nothing that failed.
    pub failed_before: Vec<u32>,
    /// The names of the servers to tell to shut down, in order.
    pub delete: Vec<Arc<str>>,
    /// The servers that failed and are kept for a while, with a replacement to follow.
    pub kept: Vec<Kept>,
    /// Whether a limit left something for another pass, to follow at once.
    pub is_partial: bool,
    /// The moment at which time alone could change the answer.
    pub wake_at: Option<Timestamp>,
}

/// A server that failed soon after it was made, like others before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its name.
    pub name: Arc<str>,
    /// How many in a row have failed, with this one.
    pub failures: u32,
    /// The moment at which it is replaced.
    pub until: Timestamp,
}

impl Reconciliation {
    /// Returns when the next pass follows though nothing changes: at once where a limit left something to do. Where a limit
    /// leaves nothing to do at all, a change has to come first.
    pub fn requeue_at(&self, now: Timestamp) -> Option<Timestamp> {
        let did_something = self.create > 0 || !self.delete.is_empty();
        if self.is_partial && did_something { Some(now) } else { self.wake_at }
    }
}

/// Returns the state that tells a server of a set to shut down; `None` for one that is in use by now, or goes already.
pub fn shutdown(server: &GameServer) -> Option<State> {
    let is_free = server.is_deletable() && !server.is_being_deleted();
    server.state.after(Event::SetDeletes).filter(|_| is_free)
}

impl Limits {
    /// What upstream's default installation sets.
    pub const AGONES: Self = Self { creations: 64, deletions: 64, pending: 5000 };

    /// Ours: as much as there is to do, but not more pods than that waiting for a node.
    pub const WHOLE: Self = Self { creations: u32::MAX, deletions: u32::MAX, pending: 5000 };

    /// Gives the limits that go with whose results are wanted.
    pub fn of(mode: Mode) -> Self {
        match mode {
            Mode::Repaired => Self::WHOLE,
            Mode::Agones => Self::AGONES,
        }
    }
}

/// How long a server in state Error is kept, so that someone may look at it.
const ERROR_KEPT_FOR: SignedDuration = SignedDuration::from_secs(30);

/// Whether a server is lost: its set deletes it and makes another.
pub(super) fn is_written_off(server: &GameServer, now: Timestamp) -> bool {
    written_off_at(server).is_some_and(|at| at <= now)
}

/// Returns the moment from which a server that failed is replaced; `None` for one that did not fail.
fn written_off_at(server: &GameServer) -> Option<Timestamp> {
    let kept_until = backoff::kept_until(server);
    match server.state {
        State::Unhealthy => Some(kept_until),
        State::Error => {
            let end = |at: Timestamp| at.saturating_add(ERROR_KEPT_FOR).unwrap_or(Timestamp::MAX);
            Some(server.errored_at.map_or(kept_until, |at| end(at).max(kept_until)))
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

/// Decides what one pass over the servers of a set does. A server that is Allocated or Reserved is never named.
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
    let (lost, candidates): (Vec<_>, Vec<_>) = free.partition(|s| is_written_off(s, now));
    let target = usize::try_from(set.replicas).unwrap_or(0);
    let kept = target.saturating_sub(in_use.len()).min(candidates.len());
    let up = in_use.len() + kept;
    let is_pending = |s: &&&GameServer| s.state.is_before_pod_runs() || s.state == State::Error;
    let pending = candidates.iter().filter(is_pending).count();

    let mut excess = candidates.len() - kept;
    if set.mode == Mode::Agones {
        // Upstream counts a lost server as one less to remove, and finishes in the next pass.
        excess = excess.saturating_sub(lost.len());
    }
    let order = |servers| deletion_order(servers, set.scheduling, &set.priorities, nodes);
    let most = limits.deletions as usize;
    let mut is_partial = lost.len().saturating_add(excess) > most;
    let lost: Vec<&GameServer> = order(lost).take(most).collect();
    let (wake_at, waiting) = (wake_at(&candidates, now), kept_ones(&candidates, now));
    // Most passes remove nothing, and then the order is of no interest.
    let candidates = if excess == 0 { Vec::new() } else { candidates };
    let (failed, well): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|s| s.state == State::Unhealthy);
    let surplus = order(failed).chain(order(well)).take(excess);
    let all = lost.iter().copied().chain(surplus).take(most);
    let delete: Vec<Arc<str>> = all.map(|s| Arc::clone(&s.name)).collect();

    let lacking = if set.has_deletion_mark { 0 } else { target.saturating_sub(up) };
    let room = (limits.pending as usize).saturating_sub(pending);
    let create = lacking.min(limits.creations as usize).min(room);
    is_partial |= create < lacking;
    let failed_before = replaced(&lost, create, now);
    let create = u32::try_from(create).unwrap_or(u32::MAX);
    let kept = if excess == 0 { waiting } else { Vec::new() };
    Reconciliation { create, failed_before, delete, kept, is_partial, wake_at }
}

/// Says for each server that takes the place of one that failed young how many failed before it. The worst come first, so that none is
/// forgotten where fewer are made than went.
fn replaced(lost: &[&GameServer], create: usize, now: Timestamp) -> Vec<u32> {
    let mut failures: Vec<u32> = lost.iter().map(|s| backoff::failures(s, now)).collect();
    failures.sort_unstable_by(|a, b| b.cmp(a));
    failures.truncate(create);
    failures
}

/// Lists the servers that failed and are not replaced yet.
fn kept_ones(candidates: &[&GameServer], now: Timestamp) -> Vec<Kept> {
    let failed = candidates.iter().filter(|s| s.state == State::Unhealthy);
    let kept = failed.map(|s| Kept {
        name: Arc::clone(&s.name),
        failures: backoff::failures(s, now),
        until: backoff::kept_until(s),
    });
    kept.collect()
}

/// Finds the moment at which the first of those that are kept for now is written off.
fn wake_at(candidates: &[&GameServer], now: Timestamp) -> Option<Timestamp> {
    candidates.iter().filter_map(|server| written_off_at(server)).filter(|at| *at > now).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::testing::{NOW, server};

    fn set(replicas: i32, mode: Mode) -> ServerSet {
        let priorities = Vec::new();
        let scheduling = Scheduling::Packed;
        ServerSet { replicas, scheduling, priorities, has_deletion_mark: false, mode }
    }

    fn pass(set: &ServerSet, servers: &[GameServer]) -> (u32, String, bool) {
        let nodes = Occupancy::of(servers);
        let done = reconcile(set, servers, &nodes, Limits::of(set.mode), NOW);
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
    fn another_pass_follows_at_once_only_where_this_one_did_something() {
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
    fn a_server_that_is_in_use_or_goes_already_is_not_told_to_shut_down() {
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
            server.has_deletion_mark = is_marked;
            assert_eq!(shutdown(&server), wanted, "{state} {is_marked}");
        }
    }

    #[test]
    fn a_set_is_filled_up_and_cut_down() {
        let servers = many(3, State::Ready);
        for mode in [Mode::Agones, Mode::Repaired] {
            assert_eq!(pass(&set(5, mode), &servers), (2, String::new(), false));
            assert_eq!(pass(&set(3, mode), &servers), (0, String::new(), false));
            assert_eq!(pass(&set(1, mode), &servers), (0, "s0000 s0001".into(), false));
        }
    }

    #[test]
    fn servers_in_use_are_never_named_and_count_towards_the_target() {
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
    fn servers_on_their_way_out_count_nowhere() {
        let mut marked = server("m", State::Allocated);
        marked.has_deletion_mark = true;
        let servers = [marked, server("s", State::Shutdown), server("r", State::Ready)];
        assert_eq!(pass(&set(2, Mode::Repaired), &servers), (1, String::new(), false));
    }

    #[test]
    fn lost_servers_are_replaced_and_errors_are_kept_for_a_while() {
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
    fn a_server_that_failed_young_like_others_before_it_is_kept_and_replaced_later() {
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
        assert_eq!(pass.kept, [Kept { name: "third".into(), failures: 3, until }]);
        assert_eq!(pass.wake_at, Some(until));
    }

    #[test]
    fn what_failed_goes_first_when_there_are_too_many() {
        let mut failed = server("z", State::Unhealthy);
        (failed.created_at, failed.failed_before) = (NOW, 3);
        let servers = [server("a", State::Ready), server("b", State::Ready), failed];
        assert_eq!(pass(&set(2, Mode::Repaired), &servers), (0, "z".into(), false));
        assert_eq!(pass(&set(5, Mode::Repaired), &servers), (2, String::new(), false));
    }

    #[test]
    fn upstream_removes_too_few_beside_lost_servers_and_ours_removes_all() {
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
    fn a_set_that_goes_creates_nothing() {
        let mut going = set(5, Mode::Repaired);
        going.has_deletion_mark = true;
        let lost = [server("u", State::Unhealthy)];
        assert_eq!(pass(&going, &lost), (0, "u".into(), false));
    }
}
