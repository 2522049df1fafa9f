//! Timers of scale-down.

use jiff::{SignedDuration, Timestamp};

use super::drain::after;
use super::{GroupOptions, LastChanges, Node, ScaleDownSettings, Status, TO_BE_DELETED_TAINT};

/// The reason why removals are held for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// Nodes were added recently.
    Added,
    /// Nodes were removed recently.
    Deleted,
    /// A removal failed recently.
    Failed,
}

/// Returns why removals are held now, and until when. `adds_now`: whether nodes are added in the same evaluation.
pub(super) fn pause(
    settings: &ScaleDownSettings,
    last: &LastChanges,
    adds_now: bool,
    now: Timestamp,
) -> Option<(Pause, Timestamp)> {
    let added_at = if adds_now { Some(now) } else { last.scale_up_at };
    [
        (Pause::Added, added_at, settings.delay_after_add),
        (Pause::Deleted, last.delete_at, settings.delay_after_delete),
        (Pause::Failed, last.delete_failure_at, settings.delay_after_failure),
    ]
    .into_iter()
    .filter_map(|(pause, at, delay)| Some((pause, after(at?, delay))))
    .find(|(_, until)| *until > now)
}

/// Returns how long a node must be unneeded before it is removed.
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

/// Returns whether a node has been unneeded for longer than `wait`; always true if that is zero.
pub(super) fn is_over(since: Timestamp, wait: SignedDuration, now: Timestamp) -> bool {
    wait.is_zero() || after(since, wait) < now
}

/// How long the removal of a node may take before the node counts again.
const REMOVAL_TAKES_AT_MOST: SignedDuration = SignedDuration::from_mins(5);

/// Returns whether the removal of a node is in progress: one that is known to be, or one that has begun and has not timed out.
pub(super) fn is_being_removed(node: &Node, status: &Status, now: Timestamp) -> bool {
    if status.removing.contains(&node.name) {
        return true;
    }
    let taint = node.taints.iter().find(|taint| &*taint.key == TO_BE_DELETED_TAINT);
    taint.is_some_and(|taint| {
        let since = taint.value.parse().ok().and_then(|at| Timestamp::from_second(at).ok());
        // Without a valid timestamp the taint is assumed to be current.
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
    fn a_wait_ends_strictly_after_it_and_a_zero_wait_at_once() {
        for (since, wait, is_done) in
            [(400, 600, false), (399, 600, true), (1000, 0, true), (999, 1, false), (998, 1, true)]
        {
            let wait = SignedDuration::from_secs(wait);
            assert_eq!(is_over(at(since), wait, at(1000)), is_done, "{since} {wait:?}");
        }
        assert!(!is_over(at(0), SignedDuration::MAX, at(1000)), "never ends, and never panics");
    }

    #[test]
    fn each_delay_holds_until_its_end() {
        let settings = ScaleDownSettings::default();
        let last = |scale_up_at, delete_at, delete_failure_at| LastChanges {
            scale_up_at,
            delete_at,
            delete_failure_at,
        };
        for (last, adds_now, wanted) in [
            (last(None, None, None), false, None),
            (last(None, None, None), true, Some(Pause::Added)),
            (last(Some(at(9_401)), None, None), false, Some(Pause::Added)),
            (last(Some(at(9_400)), None, None), false, None),
            (last(None, Some(at(10_000)), None), false, None),
            (last(None, None, Some(at(9_821))), false, Some(Pause::Failed)),
            (last(None, None, Some(at(9_820))), false, None),
        ] {
            let found = pause(&settings, &last, adds_now, at(10_000));
            assert_eq!(found.map(|(pause, _)| pause), wanted, "{last:?}");
        }
    }

    #[test]
    fn a_groups_own_settings_take_precedence() {
        let settings = ScaleDownSettings::default();
        let own = GroupOptions {
            unneeded_for: Some(SignedDuration::from_secs(1)),
            ..GroupOptions::default()
        };
        assert_eq!(wait(&settings, &own, true), SignedDuration::from_secs(1));
        assert_eq!(wait(&settings, &own, false), SignedDuration::from_mins(20));
    }

    #[test]
    fn a_removal_times_out_after_five_minutes_unless_it_is_known_to_be_in_progress() {
        let idle = Status::default();
        let busy = Status { removing: ["n".into()].into(), ..Status::default() };
        for (key, value, status, wanted) in [
            (TO_BE_DELETED_TAINT, "701", &idle, true),
            (TO_BE_DELETED_TAINT, "700", &idle, false),
            (TO_BE_DELETED_TAINT, "700", &busy, true),
            (TO_BE_DELETED_TAINT, "soon", &idle, true),
            ("another", "999", &idle, false),
            ("another", "999", &busy, true),
        ] {
            let taint = Taint { key: key.into(), value: value.into(), effect: Effect::NoSchedule };
            let node = Node { name: "n".into(), taints: [taint].into(), ..Node::default() };
            assert_eq!(is_being_removed(&node, status, at(1000)), wanted, "{key} {value}");
        }
    }
}
