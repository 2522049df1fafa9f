//! Jobs: whether one has finished, and the number of pods it needs.
//!
//! Each ended pod is counted exactly once: its uid is noted in the status first, then its finalizer is removed, and only then it moves
//! from the noted ones to the sum. A crash in between repeats a step without counting twice. The successes of an Indexed Job are noted by
//! their completion indexes, which need no sum.

mod indexes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::condition::{Condition, set_condition};
use super::{PodPhase, PodView, pods_to_delete};

pub use indexes::Indexes;

/// The delay before a new pod after the first failure; each further one doubles it.
const FIRST_BACKOFF: SignedDuration = SignedDuration::from_secs(10);
/// The longest delay.
const LONGEST_BACKOFF: SignedDuration = SignedDuration::from_mins(10);
/// The most pods whose uids are noted at a time.
const MOST_UNCOUNTED: usize = 500;
/// The most pods that one reconciliation creates.
const BURST: usize = 500;

/// What is desired of a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSpec {
    /// The successes that complete it; `None`: any one does.
    pub completions: Option<i32>,
    /// The most pods at a time.
    pub parallelism: i32,
    /// The most failures.
    pub backoff_limit: i32,
    /// The longest time that it may run.
    pub active_deadline_seconds: Option<i64>,
    /// Whether it is suspended.
    pub is_suspended: bool,
    /// Whether containers are restarted in place: `restartPolicy: OnFailure`.
    pub restarts_in_place: bool,
    /// How long it is kept after it has finished; `None`: for ever.
    pub ttl_seconds_after_finished: Option<i32>,
    /// Whether each pod has a completion index, of which each has to succeed: `completionMode: Indexed`.
    pub is_indexed: bool,
    /// The rules of `successPolicy`, of which one is enough for an Indexed Job.
    pub success_rules: Vec<SuccessRule>,
}

impl JobSpec {
    /// Whether `index` is one of the completion indexes.
    fn has_index(&self, index: i32) -> bool {
        index < self.completions.unwrap_or_default()
    }
}

/// Which completion indexes have to succeed before the others need not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuccessRule {
    /// The indexes that count; `None`: all.
    pub indexes: Option<Indexes>,
    /// How many of them are enough; `None`: all.
    pub count: Option<i32>,
}

impl SuccessRule {
    fn is_met(&self, succeeded: &Indexes) -> bool {
        match (&self.indexes, self.count) {
            (Some(indexes), _) if indexes.is_empty() => false,
            (Some(indexes), count) => {
                let met = succeeded.intersection(indexes).len();
                met == indexes.len() || count.is_some_and(|count| met >= count)
            }
            (None, count) => count.is_some_and(|count| succeeded.len() >= count),
        }
    }
}

/// The status of a Job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobStatus {
    /// When it started.
    pub started_at: Option<Timestamp>,
    /// When it completed.
    pub completed_at: Option<Timestamp>,
    /// The pods that run or are about to.
    pub active: i32,
    /// The ready pods.
    pub ready: i32,
    /// The pods being deleted.
    pub terminating: i32,
    /// The counted successes.
    pub succeeded: i32,
    /// The counted failures.
    pub failed: i32,
    /// The uids of successful pods that are not counted yet.
    pub uncounted_succeeded: BTreeSet<Arc<str>>,
    /// The uids of failed pods that are not counted yet.
    pub uncounted_failed: BTreeSet<Arc<str>>,
    /// The completion indexes that have succeeded.
    pub completed: Indexes,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

impl JobStatus {
    fn holds(&self, kind: &str) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|condition| condition.kind == kind && condition.status == "True")
    }

    /// Returns when it completed or failed.
    pub fn finished_at(&self) -> Option<Timestamp> {
        let finished = self.holds("Complete").or_else(|| self.holds("Failed"));
        finished.map(|condition| condition.transitioned_at)
    }

    fn all_succeeded(&self) -> i32 {
        self.succeeded.saturating_add(count(self.uncounted_succeeded.len()))
    }

    fn all_failed(&self) -> i32 {
        self.failed.saturating_add(count(self.uncounted_failed.len()))
    }

    fn is_settled(&self) -> bool {
        let is_counted = self.uncounted_succeeded.is_empty() && self.uncounted_failed.is_empty();
        is_counted && self.active == 0 && self.terminating == 0
    }
}

/// A pod of a Job.
#[derive(Clone, Copy, Debug)]
pub struct JobPod<'a> {
    /// The pod.
    pub view: &'a PodView,
    /// Whether its finalizer holds it until it is counted.
    pub is_tracked: bool,
    /// Its completion index.
    pub index: Option<i32>,
}

/// What to do now, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobPlan {
    /// The pods to delete without counting them as failed, by name: their finalizers are removed first.
    pub withdraw: Vec<Arc<str>>,
    /// The pods to delete because the Job failed, by name.
    pub abort: Vec<Arc<str>>,
    /// The pods to create, by completion index if the Job is Indexed.
    pub create: Vec<Option<i32>>,
    /// The status to write.
    pub status: JobStatus,
    /// The pods whose finalizers are removed once the status is written, by name.
    pub release: Vec<Arc<str>>,
    /// Whether the Job itself is deleted.
    pub is_expired: bool,
    /// When time alone changes the answer.
    pub wake_at: Option<Timestamp>,
}

/// Plans the pods of a Job, and its status.
pub fn plan(spec: &JobSpec, old: &JobStatus, pods: &[JobPod<'_>], now: Timestamp) -> JobPlan {
    if let Some(finished_at) = old.finished_at() {
        return finished(spec, old, pods, finished_at, now);
    }
    let mut plan = JobPlan { status: counted(spec, old, pods), ..JobPlan::default() };
    let running: Vec<JobPod<'_>> = pods.iter().filter(|p| p.view.is_active()).copied().collect();
    let active: Vec<&PodView> = running.iter().map(|pod| pod.view).collect();
    let deadline = start(spec, &mut plan.status, now);
    if let Some((reason, message)) = failure(spec, &plan.status, &active, deadline, now) {
        plan.abort = active.iter().map(|pod| Arc::clone(&pod.name)).collect();
        let target = Condition::new("FailureTarget", "True", &reason, &message, now);
        set_condition(&mut plan.status.conditions, target);
    } else if has_succeeded(spec, &mut plan.status, now) || spec.is_suspended {
        plan.withdraw = active.iter().map(|pod| Arc::clone(&pod.name)).collect();
    } else {
        resize(spec, &mut plan, pods, &running, now);
        plan.wake_at = plan.wake_at.into_iter().chain(deadline).min();
    }
    let removed = plan.withdraw.len() + plan.abort.len();
    plan.status.active = count(active.len() - removed + plan.create.len());
    let going =
        |pod: &&PodView| plan.withdraw.contains(&pod.name) || plan.abort.contains(&pod.name);
    let staying = active.iter().filter(|pod| !going(pod));
    plan.status.ready = count(staying.filter(|pod| pod.ready_at.is_some()).count());
    let terminating = pods.iter().filter(|pod| pod.view.is_terminating && !pod.view.is_finished());
    plan.status.terminating = count(terminating.count() + removed);
    let is_counted = |pod: &&JobPod<'_>| {
        let is_unindexed = spec.is_indexed && pod.index.is_none_or(|index| !spec.has_index(index));
        let is_success = spec.is_indexed && pod.view.phase == PodPhase::Succeeded;
        let has_failed = pod.view.phase == PodPhase::Failed || pod.view.is_terminating;
        is_noted(&plan.status, pod) || is_success || (is_unindexed && has_failed)
    };
    plan.release = pods.iter().filter(|pod| pod.is_tracked).filter(is_counted).map(name).collect();
    conclude(spec, &mut plan, now);
    plan
}

fn name(pod: &JobPod<'_>) -> Arc<str> {
    Arc::clone(&pod.view.name)
}

fn is_noted(status: &JobStatus, pod: &JobPod<'_>) -> bool {
    status.uncounted_succeeded.contains(&pod.view.uid)
        || status.uncounted_failed.contains(&pod.view.uid)
}

/// A finished Job only releases its pods, and is deleted when its TTL has expired.
fn finished(
    spec: &JobSpec,
    old: &JobStatus,
    pods: &[JobPod<'_>],
    finished_at: Timestamp,
    now: Timestamp,
) -> JobPlan {
    let ttl = spec.ttl_seconds_after_finished.map(|ttl| SignedDuration::from_secs(i64::from(ttl)));
    let ends_at = ttl.map(|ttl| finished_at.saturating_add(ttl).unwrap_or(Timestamp::MAX));
    JobPlan {
        status: old.clone(),
        release: pods.iter().filter(|pod| pod.is_tracked).map(name).collect(),
        is_expired: ends_at.is_some_and(|at| at <= now),
        wake_at: ends_at.filter(|at| *at > now),
        ..JobPlan::default()
    }
}

/// Moves noted pods that were let go to the sums, and notes those that have ended since.
fn counted(spec: &JobSpec, old: &JobStatus, pods: &[JobPod<'_>]) -> JobStatus {
    let tracked: BTreeSet<&str> =
        pods.iter().filter(|pod| pod.is_tracked).map(|pod| &*pod.view.uid).collect();
    let mut status = old.clone();
    for (uids, sum) in [
        (&mut status.uncounted_succeeded, &mut status.succeeded),
        (&mut status.uncounted_failed, &mut status.failed),
    ] {
        let before = uids.len();
        uids.retain(|uid| tracked.contains(&**uid));
        *sum = sum.saturating_add(count(before - uids.len()));
    }
    if spec.is_indexed {
        let is_new = |pod: &&JobPod<'_>| {
            let has_succeeded = pod.view.phase == PodPhase::Succeeded;
            pod.is_tracked && has_succeeded && !is_noted(&status, pod)
        };
        let succeeded = pods.iter().filter(is_new).filter_map(|pod| pod.index);
        let succeeded = succeeded.filter(|index| spec.has_index(*index));
        status.completed = old.completed.with(succeeded);
        status.succeeded = status.completed.len();
    }
    for pod in pods.iter().filter(|pod| pod.is_tracked) {
        let is_success = pod.view.phase == PodPhase::Succeeded;
        if spec.is_indexed && (is_success || pod.index.is_none_or(|index| !spec.has_index(index))) {
            continue;
        }
        if is_noted(&status, pod)
            || status.uncounted_succeeded.len() + status.uncounted_failed.len() >= MOST_UNCOUNTED
        {
            continue;
        }
        let uid = Arc::clone(&pod.view.uid);
        if is_success {
            status.uncounted_succeeded.insert(uid);
        } else if pod.view.phase == PodPhase::Failed || pod.view.is_terminating {
            status.uncounted_failed.insert(uid);
        }
    }
    status
}

/// Notes that the Job starts, is suspended or resumed. Returns when its time is over.
fn start(spec: &JobSpec, status: &mut JobStatus, now: Timestamp) -> Option<Timestamp> {
    let is_resumed = status.holds("Suspended").is_some() && !spec.is_suspended;
    if spec.is_suspended {
        let suspended = Condition::new("Suspended", "True", "JobSuspended", "Job suspended", now);
        set_condition(&mut status.conditions, suspended);
        status.started_at = None;
    } else if is_resumed {
        let resumed = Condition::new("Suspended", "False", "JobResumed", "Job resumed", now);
        set_condition(&mut status.conditions, resumed);
    }
    if !spec.is_suspended && (is_resumed || status.started_at.is_none()) {
        status.started_at = Some(now);
    }
    let deadline = SignedDuration::from_secs(spec.active_deadline_seconds?);
    status.started_at?.saturating_add(deadline).ok()
}

/// Returns why the Job has failed: reason and message.
fn failure(
    spec: &JobSpec,
    status: &JobStatus,
    active: &[&PodView],
    deadline: Option<Timestamp>,
    now: Timestamp,
) -> Option<(String, String)> {
    if let Some(target) = status.holds("FailureTarget") {
        return Some((target.reason.clone(), target.message.clone()));
    }
    if status.holds("SuccessCriteriaMet").is_some() {
        return None;
    }
    let started =
        active.iter().filter(|p| matches!(p.phase, PodPhase::Running | PodPhase::Pending));
    let restarts = started.fold(0_i32, |sum, pod| sum.saturating_add(pod.restarts));
    let restarts_too_often =
        spec.restarts_in_place && restarts > 0 && restarts >= spec.backoff_limit;
    let reason = if status.all_failed() > spec.backoff_limit || restarts_too_often {
        ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    } else if deadline.is_some_and(|at| at <= now) {
        ("DeadlineExceeded", "Job was active longer than specified deadline")
    } else {
        return None;
    };
    Some((reason.0.to_owned(), reason.1.to_owned()))
}

/// Whether the Job succeeds although indexes may be left, as its success policy allows. Notes it.
fn has_succeeded(spec: &JobSpec, status: &mut JobStatus, now: Timestamp) -> bool {
    if status.holds("SuccessCriteriaMet").is_some() {
        return true;
    }
    let met = spec.success_rules.iter().position(|rule| rule.is_met(&status.completed));
    let Some(rule) = met.filter(|_| spec.is_indexed) else { return false };
    let message = format!("Matched rules at index {rule}");
    let met = Condition::new("SuccessCriteriaMet", "True", "SuccessPolicy", message, now);
    set_condition(&mut status.conditions, met);
    true
}

/// Decides how many pods are created or withdrawn. New ones wait a while after failures.
fn resize(
    spec: &JobSpec,
    plan: &mut JobPlan,
    pods: &[JobPod<'_>],
    active: &[JobPod<'_>],
    now: Timestamp,
) {
    let succeeded = plan.status.all_succeeded();
    let present = count(active.len());
    let wanted = match spec.completions {
        None if succeeded > 0 => present,
        None => spec.parallelism,
        Some(completions) => (completions - succeeded).clamp(0, spec.parallelism.max(0)),
    };
    let excess = usize::try_from(present - wanted).unwrap_or_default();
    let going = excess_pods(spec, active, excess, now);
    if !going.is_empty() {
        plan.withdraw = going.into_iter().map(|pod| Arc::clone(&pod.name)).collect();
        return;
    }
    let missing = usize::try_from(wanted - present).unwrap_or_default().min(BURST);
    match retry_at(pods).filter(|at| missing > 0 && *at > now) {
        Some(at) => plan.wake_at = Some(at),
        None if spec.is_indexed => {
            let taken = plan.status.completed.with(active.iter().filter_map(|pod| pod.index));
            let indexes = taken.first_missing(missing, spec.completions.unwrap_or_default());
            plan.create = indexes.into_iter().map(Some).collect();
        }
        None => plan.create = vec![None; missing],
    }
}

/// Returns the pods that are too many: first those of an Indexed Job whose index is none or another's, of equals all but the last to delete.
fn excess_pods<'a>(
    spec: &JobSpec,
    active: &[JobPod<'a>],
    excess: usize,
    now: Timestamp,
) -> Vec<&'a PodView> {
    let mut going: Vec<&PodView> = Vec::new();
    let mut staying: BTreeMap<i32, Vec<&PodView>> = BTreeMap::new();
    if !spec.is_indexed {
        let views: Vec<&PodView> = active.iter().map(|pod| pod.view).collect();
        return pods_to_delete(&views, &views, excess, now);
    }
    for pod in active {
        match pod.index.filter(|index| spec.has_index(*index)) {
            Some(index) => staying.entry(index).or_default().push(pod.view),
            None => going.push(pod.view),
        }
    }
    for equals in staying.values_mut() {
        let duplicates = pods_to_delete(equals, equals, equals.len() - 1, now);
        equals.retain(|pod| !duplicates.iter().any(|going| going.uid == pod.uid));
        going.extend(duplicates);
    }
    let left: Vec<&PodView> = staying.into_values().flatten().collect();
    let more = excess.saturating_sub(going.len());
    going.extend(pods_to_delete(&left, &left, more, now));
    going
}

/// Returns when a new pod may follow the failures since the last success.
fn retry_at(pods: &[JobPod<'_>]) -> Option<Timestamp> {
    let ended = |phase| {
        let of_phase = pods.iter().filter(move |pod| pod.view.phase == phase);
        of_phase.filter_map(|pod| pod.view.finished_at)
    };
    let last_success = ended(PodPhase::Succeeded).max();
    let failures =
        || ended(PodPhase::Failed).filter(|at| last_success.is_none_or(|last| *at > last));
    let doublings = u32::try_from(failures().count()).unwrap_or(u32::MAX).checked_sub(1)?;
    let delay = FIRST_BACKOFF.checked_mul(1 << doublings.min(10));
    let delay = delay.map_or(LONGEST_BACKOFF, |delay| delay.min(LONGEST_BACKOFF));
    failures().max()?.saturating_add(delay).ok()
}

/// Notes that the Job completes or fails: first the intention, and the end once every pod has ended and is counted.
fn conclude(spec: &JobSpec, plan: &mut JobPlan, now: Timestamp) {
    // The successes of an Indexed Job are noted at once, and its pods let go of afterwards.
    let is_settled = plan.status.is_settled() && plan.release.is_empty();
    let status = &mut plan.status;
    if let Some(target) = status.holds("FailureTarget") {
        let failed = Condition::new("Failed", "True", &target.reason, &*target.message, now);
        if is_settled {
            set_condition(&mut status.conditions, failed);
        }
        return;
    }
    let is_complete = match spec.completions {
        None => status.all_succeeded() > 0 && status.active == 0,
        Some(completions) => status.all_succeeded() >= completions && status.active == 0,
    };
    if is_complete && !spec.is_suspended && status.holds("SuccessCriteriaMet").is_none() {
        let (reason, message) = ("CompletionsReached", "Reached expected number of succeeded pods");
        let met = Condition::new("SuccessCriteriaMet", "True", reason, message, now);
        set_condition(&mut status.conditions, met);
    }
    if let Some(met) = status.holds("SuccessCriteriaMet").filter(|_| is_settled) {
        let complete = Condition::new("Complete", "True", &met.reason, &*met.message, now);
        set_condition(&mut status.conditions, complete);
        status.completed_at = Some(now);
    }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::testing::{at, pod};

    fn spec(completions: i32, parallelism: i32) -> JobSpec {
        JobSpec {
            completions: Some(completions),
            parallelism,
            backoff_limit: 2,
            active_deadline_seconds: None,
            is_suspended: false,
            restarts_in_place: false,
            ttl_seconds_after_finished: None,
            is_indexed: false,
            success_rules: Vec::new(),
        }
    }

    fn indexed(completions: i32, parallelism: i32) -> JobSpec {
        JobSpec { is_indexed: true, ..spec(completions, parallelism) }
    }

    fn with_indexes<'a>(pods: &'a [PodView], indexes: &[i32]) -> Vec<JobPod<'a>> {
        let index = |(view, index): (&'a PodView, &i32)| JobPod {
            view,
            is_tracked: true,
            index: Some(*index),
        };
        pods.iter().zip(indexes).map(index).collect()
    }

    fn ended(name: &str, phase: PodPhase, second: i64) -> PodView {
        PodView { phase, ready_at: None, finished_at: Some(at(second)), ..pod(name) }
    }

    fn tracked(pods: &[PodView]) -> Vec<JobPod<'_>> {
        pods.iter().map(|view| JobPod { view, is_tracked: true, index: None }).collect()
    }

    fn kinds(status: &JobStatus) -> Vec<(&str, &str)> {
        status.conditions.iter().map(|c| (c.kind.as_str(), c.reason.as_str())).collect()
    }

    #[test]
    fn a_job_has_as_many_pods_as_it_still_needs() {
        for (completions, parallelism, succeeded, running, create, withdraw) in [
            (3, 2, 0, 0, 2, 0),
            (3, 2, 2, 0, 1, 0),
            (3, 2, 0, 2, 0, 0),
            (3, 1, 0, 2, 0, 1),
            (5, 10, 0, 2, 3, 0),
        ] {
            let pods: Vec<PodView> = (0..running).map(|n| pod(&n.to_string())).collect();
            let old = JobStatus { succeeded, ..JobStatus::default() };
            let plan = plan(&spec(completions, parallelism), &old, &tracked(&pods), at(200));
            assert_eq!((plan.create.len(), plan.withdraw.len()), (create, withdraw));
        }
    }

    #[test]
    fn an_ended_pod_is_counted_once_on_its_way_to_completion() {
        let spec = spec(1, 1);
        let pods = [ended("a", PodPhase::Succeeded, 100)];
        let noted = plan(&spec, &JobStatus::default(), &tracked(&pods), at(200));
        assert_eq!((noted.status.succeeded, noted.status.uncounted_succeeded.len()), (0, 1));
        assert_eq!((noted.release.len(), noted.create.len()), (1, 0));
        assert_eq!(kinds(&noted.status), [("SuccessCriteriaMet", "CompletionsReached")]);
        assert_eq!(plan(&spec, &noted.status, &tracked(&pods), at(201)).status, noted.status);
        let released = [JobPod { view: &pods[0], is_tracked: false, index: None }];
        let done = plan(&spec, &noted.status, &released, at(202));
        assert_eq!((done.status.succeeded, done.status.completed_at), (1, Some(at(202))));
        assert_eq!(done.status.conditions[1].kind, "Complete");
        assert_eq!(plan(&spec, &done.status, &released, at(300)).status, done.status);
    }

    #[test]
    fn failures_delay_new_pods_until_the_limit_is_reached() {
        let spec = spec(1, 1);
        let mut pods = vec![ended("a", PodPhase::Failed, 100)];
        let waiting = plan(&spec, &JobStatus::default(), &tracked(&pods), at(105));
        assert_eq!((waiting.create.len(), waiting.wake_at), (0, Some(at(110))));
        assert_eq!(plan(&spec, &JobStatus::default(), &tracked(&pods), at(110)).create, [None]);
        pods.push(ended("b", PodPhase::Failed, 120));
        assert_eq!(
            plan(&spec, &JobStatus::default(), &tracked(&pods), at(121)).wake_at,
            Some(at(140))
        );
        pods.push(ended("c", PodPhase::Failed, 150));
        let failing = plan(&spec, &JobStatus::default(), &tracked(&pods), at(151));
        assert_eq!(kinds(&failing.status), [("FailureTarget", "BackoffLimitExceeded")]);
        let released = |view| JobPod { view, is_tracked: false, index: None };
        let released: Vec<_> = pods.iter().map(released).collect();
        let failed = plan(&spec, &failing.status, &released, at(152)).status;
        assert_eq!((failed.failed, failed.conditions[1].kind.as_str()), (3, "Failed"));
    }

    #[test]
    fn a_job_that_is_too_slow_or_suspended_loses_its_pods() {
        let pods = [pod("a")];
        let old = JobStatus { started_at: Some(at(100)), ..JobStatus::default() };
        let slow = JobSpec { active_deadline_seconds: Some(60), ..spec(1, 1) };
        assert_eq!(plan(&slow, &old, &tracked(&pods), at(159)).wake_at, Some(at(160)));
        let failing = plan(&slow, &old, &tracked(&pods), at(160));
        assert_eq!(kinds(&failing.status), [("FailureTarget", "DeadlineExceeded")]);
        assert_eq!(
            (failing.abort.len(), failing.status.active, failing.status.terminating),
            (1, 0, 1)
        );
        let suspended = JobSpec { is_suspended: true, ..spec(1, 1) };
        let held = plan(&suspended, &old, &tracked(&pods), at(160));
        assert_eq!((held.withdraw.len(), held.status.started_at), (1, None));
        assert_eq!(kinds(&held.status), [("Suspended", "JobSuspended")]);
        let resumed = plan(&spec(1, 1), &held.status, &[], at(170));
        assert_eq!((resumed.create.len(), resumed.status.started_at), (1, Some(at(170))));
        assert_eq!(kinds(&resumed.status), [("Suspended", "JobResumed")]);
    }

    #[test]
    fn restarts_in_place_count_towards_the_limit() {
        let restarted = PodView { restarts: 2, ..pod("a") };
        let spec = JobSpec { restarts_in_place: true, ..spec(1, 1) };
        let plan = plan(&spec, &JobStatus::default(), &tracked(&[restarted]), at(200));
        assert_eq!(kinds(&plan.status), [("FailureTarget", "BackoffLimitExceeded")]);
    }

    #[test]
    fn a_finished_job_ends_when_its_time_has_come() {
        let spec = JobSpec { ttl_seconds_after_finished: Some(10), ..spec(1, 1) };
        let done = Condition::new("Complete", "True", "", "", at(100));
        let old = JobStatus { conditions: vec![done], ..JobStatus::default() };
        assert_eq!(plan(&spec, &old, &[], at(109)).wake_at, Some(at(110)));
        assert!(plan(&spec, &old, &[], at(110)).is_expired);
    }

    #[test]
    fn an_indexed_job_has_a_pod_for_each_index_that_is_left() {
        let spec = indexed(4, 2);
        let first = plan(&spec, &JobStatus::default(), &[], at(200));
        assert_eq!((first.create, first.status.active), (vec![Some(0), Some(1)], 2));
        let pods = [ended("a", PodPhase::Succeeded, 100), pod("b")];
        let next = plan(&spec, &JobStatus::default(), &with_indexes(&pods, &[0, 1]), at(200));
        assert_eq!((next.create, next.release), (vec![Some(2)], vec!["a".into()]));
        assert_eq!((next.status.succeeded, next.status.completed.to_string()), (1, "0".to_owned()));
        assert!(next.status.uncounted_succeeded.is_empty());
    }

    #[test]
    fn a_failed_index_is_tried_again_after_a_while() {
        let spec = indexed(2, 2);
        let pods = [pod("a"), ended("b", PodPhase::Failed, 100)];
        let pods = with_indexes(&pods, &[0, 1]);
        let failing = plan(&spec, &JobStatus::default(), &pods, at(105));
        assert_eq!((failing.create, failing.wake_at), (vec![], Some(at(110))));
        assert_eq!(failing.status.uncounted_failed.len(), 1);
        assert_eq!(plan(&spec, &failing.status, &pods, at(110)).create, [Some(1)]);
    }

    #[test]
    fn pods_without_an_index_of_their_own_are_withdrawn() {
        let young = PodView { created_at: at(150), ready_at: None, ..pod("young") };
        let pods = [pod("a"), young, pod("beyond")];
        let plan =
            plan(&indexed(2, 3), &JobStatus::default(), &with_indexes(&pods, &[0, 0, 2]), at(200));
        assert_eq!(plan.withdraw, ["beyond".into(), "young".into()]);
        assert!(plan.create.is_empty());
    }

    #[test]
    fn an_indexed_job_completes_once_its_pods_are_let_go_of() {
        let spec = indexed(1, 1);
        let pods = [ended("a", PodPhase::Succeeded, 100)];
        let noted = plan(&spec, &JobStatus::default(), &with_indexes(&pods, &[0]), at(200));
        assert_eq!(kinds(&noted.status), [("SuccessCriteriaMet", "CompletionsReached")]);
        let released = [JobPod { view: &pods[0], is_tracked: false, index: Some(0) }];
        let done = plan(&spec, &noted.status, &released, at(201)).status;
        assert_eq!((done.succeeded, done.conditions[1].kind.as_str()), (1, "Complete"));
    }

    #[test]
    fn a_success_policy_ends_a_job_before_all_indexes_have_succeeded() {
        let rule = |indexes: Option<&str>, count| SuccessRule {
            indexes: indexes.map(|text| Indexes::parse(text, 4)),
            count,
        };
        for (rule, is_met) in [
            (rule(None, Some(2)), true),
            (rule(None, Some(3)), false),
            (rule(Some("0,2"), None), true),
            (rule(Some("0,1"), None), false),
            (rule(Some("0,1"), Some(1)), true),
            (rule(Some("1,3"), Some(1)), false),
            (rule(Some("7"), None), false),
        ] {
            let spec = JobSpec { success_rules: vec![rule.clone()], ..indexed(4, 4) };
            let pods = [
                ended("a", PodPhase::Succeeded, 100),
                pod("b"),
                ended("c", PodPhase::Succeeded, 100),
            ];
            let pods = with_indexes(&pods, &[0, 1, 2]);
            let plan = plan(&spec, &JobStatus::default(), &pods, at(200));
            assert_eq!(!plan.withdraw.is_empty(), is_met, "{rule:?}");
            let expected: &[_] =
                if is_met { &[("SuccessCriteriaMet", "SuccessPolicy")] } else { &[] };
            assert_eq!(kinds(&plan.status), expected, "{rule:?}");
            assert_eq!(plan.create.is_empty(), is_met, "{rule:?}");
        }
    }

    #[test]
    fn a_job_completes_for_the_reason_of_its_success_policy() {
        let rule = SuccessRule { indexes: None, count: Some(1) };
        let spec = JobSpec { success_rules: vec![rule], ..indexed(2, 1) };
        let pods = [ended("a", PodPhase::Succeeded, 100)];
        let met = plan(&spec, &JobStatus::default(), &with_indexes(&pods, &[0]), at(200)).status;
        let done = plan(&spec, &met, &[], at(201));
        assert_eq!(done.create, []);
        let expected = [("SuccessCriteriaMet", "SuccessPolicy"), ("Complete", "SuccessPolicy")];
        assert_eq!(kinds(&done.status), expected);
    }
}
