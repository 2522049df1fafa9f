//! Conditions of workloads, with the time of their last change.

use jiff::Timestamp;

/// A condition in the status of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The type, such as `Available`.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason, as one word.
    pub reason: String,
    /// The reason, in words.
    pub message: String,
    /// When it was last written.
    pub updated_at: Timestamp,
    /// Since when it has its status.
    pub transitioned_at: Timestamp,
}

impl Condition {
    /// Returns a condition that is written now.
    pub fn new(
        kind: &str,
        status: &str,
        reason: &str,
        message: impl Into<String>,
        now: Timestamp,
    ) -> Self {
        Self {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.into(),
            updated_at: now,
            transitioned_at: now,
        }
    }
}

/// Sets a condition. One with the same status and reason is left as it is, and one with the same status keeps its transition time.
pub fn set_condition(conditions: &mut Vec<Condition>, new: Condition) {
    let current = conditions.iter().find(|c| c.kind == new.kind);
    if current.is_none_or(|c| (&c.status, &c.reason) != (&new.status, &new.reason)) {
        set_refreshed(conditions, new);
    }
}

/// Sets a condition, also if only its message or its time changes. One with the same status keeps its transition time.
pub fn set_refreshed(conditions: &mut Vec<Condition>, mut new: Condition) {
    let at = conditions.iter().position(|c| c.kind == new.kind);
    let current = at.map(|at| conditions.remove(at));
    if let Some(current) = current.filter(|current| current.status == new.status) {
        new.transitioned_at = current.transitioned_at;
    }
    conditions.push(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_transition_time_while_its_status_stays() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let new =
            |status, reason, second| Condition::new("Progressing", status, reason, "", at(second));
        for (reason, status, refresh, updated, transitioned) in [
            ("A", "True", false, 1, 1),
            ("A", "True", true, 2, 1),
            ("B", "True", false, 2, 1),
            ("A", "False", false, 2, 2),
        ] {
            let mut all = vec![new("True", "A", 1), Condition::new("Other", "True", "", "", at(1))];
            let set = if refresh { set_refreshed } else { set_condition };
            set(&mut all, new(status, reason, 2));
            let found = all.iter().find(|c| c.kind == "Progressing").unwrap();
            assert_eq!((found.updated_at, found.transitioned_at), (at(updated), at(transitioned)));
            assert_eq!(all.len(), 2);
        }
    }
}
