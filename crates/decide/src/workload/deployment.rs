//! The status of a Deployment: counts, availability and progress.

use jiff::{SignedDuration, Timestamp};

use super::condition::{Condition, set_condition, set_refreshed};
use super::rollout::{SetSize, Strategy};

/// The condition for enough available pods.
const AVAILABLE: &str = "Available";
/// The condition for the progress of a rollout.
const PROGRESSING: &str = "Progressing";
/// The condition for pods that cannot be created.
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// What is desired of a Deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The name.
    pub name: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// The desired pods.
    pub replicas: i32,
    /// How pods are replaced.
    pub strategy: Strategy,
    /// Whether rollouts are paused.
    pub is_paused: bool,
    /// The longest time without progress; `None`: progress is not reported.
    pub progress_deadline_seconds: Option<i32>,
}

/// The status of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The generation that it is about.
    pub observed_generation: i64,
    /// The pods.
    pub replicas: i32,
    /// The pods with the present template.
    pub updated: i32,
    /// The ready pods.
    pub ready: i32,
    /// The available pods.
    pub available: i32,
    /// The missing ones.
    pub unavailable: i32,
    /// The pods being deleted.
    pub terminating: i32,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

impl Status {
    /// Whether everything desired is there, and nothing else.
    pub fn is_complete(&self, spec: &Spec) -> bool {
        [self.updated, self.replicas, self.available].iter().all(|n| *n == spec.replicas)
            && self.observed_generation >= spec.generation
    }

    fn has_progressed_from(&self, old: &Self) -> bool {
        self.updated > old.updated
            || self.replicas - self.updated < old.replicas - old.updated
            || self.ready > old.ready
            || self.available > old.available
    }

    fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
}

/// Something that happened to the set of the present template in this reconciliation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewSet {
    /// It was created.
    Created,
    /// It existed.
    Found,
}

/// Counts the pods of the sets, and determines whether enough are available; `old` is the status that was observed. The set of the present
/// template is `new`.
pub fn count(
    spec: &Spec,
    old: &Status,
    new: Option<&SetSize>,
    others: &[SetSize],
    now: Timestamp,
) -> Status {
    let sum = |of: fn(&SetSize) -> i32| others.iter().chain(new).map(of).sum::<i32>();
    let available = sum(|set| set.available);
    let mut status = Status {
        observed_generation: spec.generation,
        replicas: sum(|set| set.actual),
        updated: new.map_or(0, |set| set.actual),
        ready: sum(|set| set.ready),
        available,
        unavailable: (sum(|set| set.replicas) - available).max(0),
        terminating: sum(|set| set.terminating),
        conditions: old.conditions.clone(),
    };
    let is_available = available >= spec.replicas - spec.strategy.max_unavailable();
    let condition = if is_available {
        let message = "Deployment has minimum availability.";
        Condition::new(AVAILABLE, "True", "MinimumReplicasAvailable", message, now)
    } else {
        let message = "Deployment does not have minimum availability.";
        Condition::new(AVAILABLE, "False", "MinimumReplicasUnavailable", message, now)
    };
    set_condition(&mut status.conditions, condition);
    status
}

/// Notes that a rollout was paused or resumed, so that its deadline does not pass meanwhile.
pub fn note_pause(spec: &Spec, conditions: &mut Vec<Condition>, now: Timestamp) {
    let current = conditions.iter().find(|condition| condition.kind == PROGRESSING);
    let reason = current.map(|condition| condition.reason.as_str());
    if spec.progress_deadline_seconds.is_none() || reason == Some("ProgressDeadlineExceeded") {
        return;
    }
    let (reason, message) = match (spec.is_paused, reason == Some("DeploymentPaused")) {
        (true, false) => ("DeploymentPaused", "Deployment is paused"),
        (false, true) => ("DeploymentResumed", "Deployment is resumed"),
        _ => return,
    };
    set_condition(conditions, Condition::new(PROGRESSING, "Unknown", reason, message, now));
}

/// Notes the set of the present template.
pub fn note_new_set(
    spec: &Spec,
    conditions: &mut Vec<Condition>,
    (name, new): (&str, NewSet),
    now: Timestamp,
) {
    let is_reported = conditions.iter().any(|condition| condition.kind == PROGRESSING);
    let (reason, message) = match new {
        NewSet::Created => ("NewReplicaSetCreated", format!("Created new replica set \"{name}\"")),
        NewSet::Found if !is_reported => {
            ("FoundNewReplicaSet", format!("Found new replica set \"{name}\""))
        }
        NewSet::Found => return,
    };
    if spec.progress_deadline_seconds.is_some() {
        set_condition(conditions, Condition::new(PROGRESSING, "True", reason, message, now));
    }
}

/// Notes that the set of the present template could not be created.
pub fn note_failed_create(
    spec: &Spec,
    conditions: &mut Vec<Condition>,
    message: &str,
    now: Timestamp,
) {
    if spec.progress_deadline_seconds.is_some() {
        let failed = Condition::new(PROGRESSING, "False", "ReplicaSetCreateError", message, now);
        set_condition(conditions, failed);
    }
}

/// Adds the conditions for the progress of the rollout and for pods that cannot be created. Returns when the deadline passes.
pub fn report_progress(
    spec: &Spec,
    old: &Status,
    status: &mut Status,
    new: Option<&SetSize>,
    failure: Option<Condition>,
    now: Timestamp,
) -> Option<Timestamp> {
    match spec.progress_deadline_seconds {
        None => status.conditions.retain(|condition| condition.kind != PROGRESSING),
        Some(deadline) => progress(spec, old, status, new, deadline, now),
    }
    match failure {
        Some(failure) => set_condition(&mut status.conditions, failure),
        None => status.conditions.retain(|condition| condition.kind != REPLICA_FAILURE),
    }
    let current = status.condition(PROGRESSING)?;
    let is_waiting = !status.is_complete(spec) && current.reason != "ProgressDeadlineExceeded";
    spec.progress_deadline_seconds
        .filter(|_| is_waiting)
        .map(|deadline| passes_at(current, deadline))
}

fn progress(
    spec: &Spec,
    old: &Status,
    status: &mut Status,
    new: Option<&SetSize>,
    deadline: i32,
    now: Timestamp,
) {
    let current = old.condition(PROGRESSING);
    let was_complete = current.is_some_and(|c| c.reason == "NewReplicaSetAvailable");
    if was_complete && status.replicas == status.updated {
        return;
    }
    let subject = new.map_or_else(
        || format!("Deployment \"{}\"", spec.name),
        |new| format!("ReplicaSet \"{}\"", new.name),
    );
    let condition = |status, reason, what| {
        Condition::new(PROGRESSING, status, reason, format!("{subject} {what}"), now)
    };
    if status.is_complete(spec) {
        let done = condition("True", "NewReplicaSetAvailable", "has successfully progressed.");
        set_condition(&mut status.conditions, done);
    } else if status.has_progressed_from(old) {
        let moving = condition("True", "ReplicaSetUpdated", "is progressing.");
        set_refreshed(&mut status.conditions, moving);
    } else if current.is_some_and(|current| has_timed_out(current, deadline, now)) {
        let stuck = condition("False", "ProgressDeadlineExceeded", "has timed out progressing.");
        set_condition(&mut status.conditions, stuck);
    }
}

fn has_timed_out(current: &Condition, deadline: i32, now: Timestamp) -> bool {
    match current.reason.as_str() {
        "NewReplicaSetAvailable" => false,
        "ProgressDeadlineExceeded" => true,
        _ => passes_at(current, deadline) < now,
    }
}

fn passes_at(current: &Condition, deadline: i32) -> Timestamp {
    let deadline = SignedDuration::from_secs(i64::from(deadline));
    current.updated_at.saturating_add(deadline).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::testing::{at, rolling, set};

    fn reasons(status: &Status) -> Vec<&str> {
        status.conditions.iter().map(|condition| condition.reason.as_str()).collect()
    }

    fn report(old: &Status, new: &SetSize, others: &[SetSize], second: i64) -> Status {
        let spec = rolling(3, 1, 0);
        let mut status = count(&spec, old, Some(new), others, at(second));
        report_progress(&spec, old, &mut status, Some(new), None, at(second));
        status
    }

    #[test]
    fn a_rollout_is_reported_from_its_start_to_its_end() {
        let spec = rolling(3, 1, 0);
        let mut created = Status::default();
        note_new_set(&spec, &mut created.conditions, ("new", NewSet::Created), at(1));
        let started = SetSize { ready: 0, available: 0, ..set("new", 3) };
        let moving = report(&created, &started, &[], 2);
        assert_eq!(reasons(&moving), ["MinimumReplicasUnavailable", "ReplicaSetUpdated"]);
        assert_eq!((moving.replicas, moving.updated, moving.unavailable), (3, 3, 3));
        let done = report(&moving, &set("new", 3), &[], 3);
        assert_eq!(reasons(&done), ["MinimumReplicasAvailable", "NewReplicaSetAvailable"]);
        assert_eq!(done.conditions[1].transitioned_at, at(1));
        assert_eq!(report(&done, &set("new", 3), &[], 99), done, "nothing changes any more");
        let lost = SetSize { available: 2, ready: 2, ..set("new", 3) };
        let lost = report(&done, &lost, &[], 100);
        assert_eq!(reasons(&lost), ["NewReplicaSetAvailable", "MinimumReplicasUnavailable"]);
    }

    #[test]
    fn a_rollout_without_progress_times_out_once() {
        let spec = rolling(3, 1, 0);
        let stuck = SetSize { ready: 0, available: 0, ..set("new", 1) };
        let old = report(&Status::default(), &stuck, &[set("o", 3)], 10);
        assert_eq!(reasons(&old), ["MinimumReplicasAvailable", "ReplicaSetUpdated"]);
        let mut status = count(&spec, &old, Some(&stuck), &[set("o", 3)], at(20));
        let deadline = report_progress(&spec, &old, &mut status, Some(&stuck), None, at(20));
        assert_eq!((status, deadline), (old.clone(), Some(at(610))));
        let late = report(&old, &stuck, &[set("o", 3)], 611);
        assert_eq!(reasons(&late), ["MinimumReplicasAvailable", "ProgressDeadlineExceeded"]);
        assert_eq!(report(&late, &stuck, &[set("o", 3)], 700), late);
    }

    #[test]
    fn a_pause_stops_the_deadline() {
        let mut spec = rolling(3, 1, 0);
        let mut conditions = Vec::new();
        spec.is_paused = true;
        note_pause(&spec, &mut conditions, at(1));
        note_pause(&spec, &mut conditions, at(2));
        assert_eq!(
            (conditions[0].reason.as_str(), conditions[0].updated_at),
            ("DeploymentPaused", at(1))
        );
        spec.is_paused = false;
        note_pause(&spec, &mut conditions, at(3));
        assert_eq!(
            (conditions[0].reason.as_str(), conditions[0].status.as_str()),
            ("DeploymentResumed", "Unknown")
        );
    }
}
