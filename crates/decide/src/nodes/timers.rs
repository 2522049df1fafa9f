//! When may a node that nobody needs go?

use jiff::{SignedDuration, Timestamp};

use super::drain::after;
use super::{GroupOptions, Node, ScaleDownSettings, Status, TO_BE_DELETED_TAINT};

/// What holds all removals back for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// Nodes were added a moment ago.
    Added,
    /// Nodes were removed a moment ago.
    Deleted,
    /// A removal failed a moment ago.
    Failed,
}

/// Says what holds all removals back now, and until when. `adds_now`: whether nodes are being added in this very turn.
pub(super) fn pause(
    settings: &ScaleDownSettings,
    status: &Status,
    adds_now: bool,
    now: Timestamp,
) -> Option<(Pause, Timestamp)> {
    let added_at = if adds_now { Some(now) } else { status.last_scale_up_at };
    [
        (Pause::Added, added_at, settings.delay_after_add),
        (Pause::Deleted, status.last_delete_at, settings.delay_after_delete),
        (Pause::Failed, status.last_delete_failure_at, settings.delay_after_failure),
    ]
    .into_iter()
    .filter_map(|(pause, at, delay)| Some((pause, after(at?, delay))))
    .find(|(_, until)| *until > now)
}

/// Gives how long a node must be unneeded before it goes.
pub(super) fn wait(
    settings: &ScaleDownSettings,
    options: &GroupOptions,
    is_ready: bool,
) -> SignedDuration {
    match is_ready {
        true => options.unneeded_for.unwrap_or(settings.unneeded_for),
        false => options.unready_for.unwrap_or(settings.unready_for),
    }
}

/// Tells whether a node has been unneeded for long enough: for more than `wait`, or at once if there is none.
pub(super) fn is_over(since: Timestamp, wait: SignedDuration, now: Timestamp) -> bool {
    wait.is_zero() || after(since, wait) < now
}

/// How long a node that is being removed may take before it counts again.
const REMOVAL_TAKES_AT_MOST: SignedDuration = SignedDuration::from_mins(5);

/// Tells whether somebody has begun to remove a node, and should not be done with it yet.
pub(super) fn is_going(node: &Node, now: Timestamp) -> bool {
    let taint = node.taints.iter().find(|taint| &*taint.key == TO_BE_DELETED_TAINT);
    taint.is_some_and(|taint| {
        let since = taint.value.parse().ok().and_then(|at| Timestamp::from_second(at).ok());
        // Without a readable moment it is safer to believe the taint.
        since.is_none_or(|since| after(since, REMOVAL_TAKES_AT_MOST) > now)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{Effect, Taint};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_wait_is_over_strictly_after_it_and_without_one_at_once() {
        for (since, wait, is_done) in
            [(400, 600, false), (399, 600, true), (1000, 0, true), (999, 1, false), (998, 1, true)]
        {
            let wait = SignedDuration::from_secs(wait);
            assert_eq!(is_over(at(since), wait, at(1000)), is_done, "{since} {wait:?}");
        }
        assert!(!is_over(at(0), SignedDuration::MAX, at(1000)), "never ends, and never panics");
    }

    #[test]
    fn each_delay_holds_until_its_very_end() {
        let settings = ScaleDownSettings::default();
        let status = |added, deleted, failed| Status {
            last_scale_up_at: added,
            last_delete_at: deleted,
            last_delete_failure_at: failed,
            ..Status::default()
        };
        for (status, adds_now, wanted) in [
            (status(None, None, None), false, None),
            (status(None, None, None), true, Some(Pause::Added)),
            (status(Some(at(9_401)), None, None), false, Some(Pause::Added)),
            (status(Some(at(9_400)), None, None), false, None),
            (status(None, Some(at(10_000)), None), false, None),
            (status(None, None, Some(at(9_821))), false, Some(Pause::Failed)),
            (status(None, None, Some(at(9_820))), false, None),
        ] {
            let found = pause(&settings, &status, adds_now, at(10_000));
            assert_eq!(found.map(|(pause, _)| pause), wanted, "{status:?}");
        }
    }

    #[test]
    fn a_groups_own_waits_go_before_the_common_ones() {
        let settings = ScaleDownSettings::default();
        let own = GroupOptions {
            unneeded_for: Some(SignedDuration::from_secs(1)),
            ..GroupOptions::default()
        };
        assert_eq!(wait(&settings, &own, true), SignedDuration::from_secs(1));
        assert_eq!(wait(&settings, &own, false), SignedDuration::from_mins(20));
    }

    #[test]
    fn a_removal_is_believed_for_five_minutes() {
        for (key, value, wanted) in [
            (TO_BE_DELETED_TAINT, "701", true),
            (TO_BE_DELETED_TAINT, "700", false),
            (TO_BE_DELETED_TAINT, "soon", true),
            ("another", "999", false),
        ] {
            let taint = Taint { key: key.into(), value: value.into(), effect: Effect::NoSchedule };
            let node = Node { taints: [taint].into(), ..Node::default() };
            assert_eq!(is_going(&node, at(1000)), wanted, "{key} {value}");
        }
    }
}
