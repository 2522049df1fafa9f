//! Backoff for replacing failed servers.
//!
//! A server that fails soon after its creation will probably fail again. So each replacement knows how many failed in a row before
//! it, and the more there were, the later it is replaced itself: until then it is retained, so that its pod can be inspected. The
//! first failure is replaced at once, and a server that ran for long enough resets the count. The count is stored in the servers
//! themselves, so that it survives a restart of the controller.

use jiff::{SignedDuration, Timestamp};

use crate::gameserver::GameServer;

/// The delay after the second failure in a row; each further one doubles it.
const FIRST: SignedDuration = SignedDuration::from_secs(5);
/// The longest delay.
const LONGEST: SignedDuration = SignedDuration::from_secs(60);
/// A server that ran for this long resets the count. It is longer than any retention, which must not count as running.
const WELL_AFTER: SignedDuration = SignedDuration::from_secs(120);

/// Returns the time until which a failed server is retained.
pub(super) fn retained_until(server: &GameServer) -> Timestamp {
    server.created_at.saturating_add(delay(server.failed_before)).unwrap_or(Timestamp::MAX)
}

/// Returns how many servers failed in a row, including this one, when it is replaced at `now`.
pub(super) fn failures(server: &GameServer, now: Timestamp) -> u32 {
    let is_young = now.duration_since(server.created_at) < WELL_AFTER;
    if is_young { server.failed_before.saturating_add(1) } else { 0 }
}

fn delay(failed_before: u32) -> SignedDuration {
    match failed_before.checked_sub(1) {
        None => SignedDuration::ZERO,
        Some(doublings) => FIRST.saturating_mul(1 << doublings.min(16)).min(LONGEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::testing::{NOW, server};
    use crate::fleet::{Limits, Mode, Scheduling, ServerSet, reconcile};
    use crate::gameserver::{Occupancy, State};

    fn seconds(seconds: i64) -> SignedDuration {
        SignedDuration::from_secs(seconds)
    }

    #[test]
    fn each_failure_in_a_row_waits_twice_as_long_up_to_a_minute() {
        let waits = [0, 1, 2, 3, 4, 5, 6, 1000].map(|failed| delay(failed).as_secs());
        assert_eq!(waits, [0, 5, 10, 20, 40, 60, 60, 60]);
        assert_eq!(delay(u32::MAX), LONGEST);
    }

    #[test]
    fn a_server_that_ran_long_enough_resets_the_count() {
        for (age, before, failures_now) in [(0, 0, 1), (60, 5, 6), (119, 2, 3), (120, 9, 0)] {
            let mut failed = server("s", State::Unhealthy);
            failed.created_at = NOW - seconds(age);
            failed.failed_before = before;
            assert_eq!(failures(&failed, NOW), failures_now, "{age} {before}");
        }
    }

    /// Simulates a set whose servers fail `lives_for` after their creation, for ten minutes, and returns the number of created servers.
    fn play(replicas: i32, lives_for: i64, mode: Mode) -> usize {
        let set = ServerSet {
            replicas,
            scheduling: Scheduling::Packed,
            priorities: Vec::new(),
            has_deletion_timestamp: false,
            mode,
        };
        let (mut servers, mut made) = (Vec::new(), 0);
        for second in 0..600 {
            let now = NOW + seconds(second);
            let fail = |s: &mut GameServer| {
                let is_over = now.duration_since(s.created_at) >= seconds(lives_for);
                s.state = if is_over { State::Unhealthy } else { State::Ready };
            };
            servers.iter_mut().for_each(fail);
            let nodes = Occupancy::from_servers(&servers);
            let pass = reconcile(&set, &servers, &nodes, Limits::for_mode(mode), now);
            servers.retain(|s| !pass.delete.contains(&s.name));
            for index in 0..pass.create as usize {
                let mut new = server(&format!("s{made:05}"), State::Ready);
                new.created_at = now;
                new.failed_before = pass.failed_before.get(index).copied().unwrap_or_default();
                servers.push(new);
                made += 1;
            }
            assert!(
                servers.len() <= usize::try_from(replicas).unwrap(),
                "never more than asked for"
            );
        }
        made
    }

    #[test]
    fn a_crash_looping_set_creates_fewer_and_fewer_servers() {
        for mode in [Mode::Repaired, Mode::Agones] {
            for lives_for in [0, 1, 4] {
                let made = play(2, lives_for, mode);
                assert!((20..=30).contains(&made), "{made} servers of two in ten minutes");
            }
            assert!(play(500, 1, mode) <= 500 * 15, "as few of each in a large one");
        }
    }

    #[test]
    fn servers_that_run_for_minutes_are_replaced_at_once() {
        assert_eq!(play(2, 120, Mode::Repaired), 10, "at 0, 120, 240, 360 and 480 s");
        assert_eq!(play(3, 600, Mode::Repaired), 3);
    }
}
