//! Jobs: pods until enough have succeeded, or too many failed.

use std::sync::Arc;

use cluster::write::{self, PatchTarget};
use cluster::{Cache, Error, EventType, Key, RequeueAt};
use decide::workload::job::{Indexes, JobPlan, JobPod, JobSpec, JobStatus, SuccessRule, plan};
use k8s_openapi::api::batch::v1::{self as batch, Job, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::json;

use super::claim::{claim, controller, selector};
use super::conditions::{from_job, nonzero, status_patch, to_job};
use super::pod::{COMPLETION_INDEX, WorkloadPod};
use super::{Workloads, template};
use crate::writes::each;

const SOURCE: &str = "job-controller";
/// Holds an ended pod until it is counted.
const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// The environment variable with the completion index.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// The longest `generateName` that is not cut off.
const LONGEST_PREFIX: usize = 58;

/// Reconciles one Job.
pub(super) async fn reconcile(key: Key, workloads: Arc<Workloads>) -> Result<RequeueAt, Error> {
    let Some(job) = workloads.jobs.get(&key) else { return Ok(None) };
    let Some(desired) = &job.spec else { return Ok(None) };
    if desired.managed_by.is_some() {
        return Ok(None);
    }
    // Without it a failed index would be tried again and again.
    if desired.backoff_limit_per_index.is_some() {
        let note =
            "backoffLimitPerIndex is not supported by the embedded engine; the Job is not started";
        let (reason, note) = ("NotSupported", note.to_owned());
        workloads.cx.events.record(&*job, SOURCE, EventType::Warning, reason, note);
        return Ok(None);
    }
    let Some(selector) = selector(&desired.selector.clone().unwrap_or_default()) else {
        return Ok(None);
    };
    let pods = (&workloads.pods, &*workloads.orphan_pods);
    let pods =
        claim(&workloads.cx.client, &*job, &selector, pods, |pod| pod.view.is_active()).await?;
    if job.metadata.deletion_timestamp.is_some() {
        let (limit, workloads) = (workloads.cx.settings.parallel_writes, &*workloads);
        each(pods, limit, |pod| async move { untrack(&pod, workloads).await }).await?;
        return Ok(None);
    }
    let mut views = Vec::with_capacity(pods.len());
    for pod in &pods {
        let (is_tracked, index) = (is_tracked(pod), pod.completion_index);
        views.push(JobPod { view: &pod.view, is_tracked, index });
    }
    let spec = spec(desired);
    let plan = plan(&spec, &status(&job, &spec), &views, workloads.cx.clock.now());
    act(&job, &plan, &workloads).await?;
    Ok(plan.wake_at.map(|at| workloads.cx.clock.timer(at)))
}

fn is_tracked(pod: &WorkloadPod) -> bool {
    has_finalizer(&pod.metadata)
}

fn has_finalizer(meta: &ObjectMeta) -> bool {
    meta.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

/// Reports whether a pod holds the finalizer of a Job, and no existing Job controls it.
pub(super) fn is_abandoned(pod: &ObjectMeta, jobs: &Cache<Job>) -> bool {
    let controlled = controller(pod).is_some_and(|(kind, name, uid)| {
        let job = jobs.get(&Key::new(pod.namespace.as_deref().unwrap_or_default(), name));
        kind == "Job" && job.is_some_and(|job| job.metadata.uid.as_deref() == Some(uid))
    });
    has_finalizer(pod) && !controlled
}

/// Removes the finalizer of a pod whose Job no longer exists, so that the pod can be deleted.
pub(super) async fn release_abandoned(
    key: Key,
    workloads: Arc<Workloads>,
) -> Result<RequeueAt, Error> {
    let pod = workloads.pods.get(&key);
    if let Some(pod) = pod.filter(|pod| is_abandoned(&pod.metadata, &workloads.jobs)) {
        untrack(&pod, &workloads).await?;
    }
    Ok(None)
}

/// Carries a plan out, in the order that counts each pod once.
async fn act(job: &Job, plan: &JobPlan, workloads: &Workloads) -> Result<(), Error> {
    let limit = workloads.cx.settings.parallel_writes;
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    let let_go = |name: Arc<str>| async move {
        match workloads.pods.get(&Key::new(namespace, name)) {
            Some(pod) => untrack(&pod, workloads).await,
            None => Ok(()),
        }
    };
    let delete = |name: Arc<str>| async move { workloads.delete_pod(job, SOURCE, &name).await };
    each(plan.withdraw.clone(), limit, let_go).await?;
    each(plan.withdraw.clone(), limit, delete).await?;
    each(plan.abort.clone(), limit, delete).await?;
    let mut created = Ok(());
    if !plan.create.is_empty() {
        let desired = job.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
        let mut pod = template::new_pod(job, &desired);
        pod.metadata.finalizers.get_or_insert_default().push(FINALIZER.to_owned());
        let pods = plan.create.iter().map(|index| match index {
            Some(index) => serde_json::to_vec(&indexed(pod.clone(), *index)),
            None => serde_json::to_vec(&pod),
        });
        let pods: Vec<_> = pods.map(Result::unwrap_or_default).collect();
        created = each(pods, limit, |pod| workloads.create_pod(job, SOURCE, pod)).await;
    }
    if let Some(change) = status_patch(&written(&plan.status), job.status.as_ref()) {
        let (client, what) = (&workloads.cx.client, "write the status");
        write::patch(client, &workloads.jobs, job, PatchTarget::Status, change, what).await?;
        report(job, &plan.status, workloads);
    }
    each(plan.release.clone(), limit, let_go).await?;
    if plan.is_expired {
        let what = "delete a finished Job";
        write::delete(&workloads.cx.client, &workloads.jobs, job, what).await?;
    }
    // Ended pods are counted and released although others cannot be created.
    created
}

/// Sets the completion index of a new pod: in an annotation and a label, in its names, and in the environment.
fn indexed(mut pod: Pod, index: i32) -> Pod {
    let meta = &mut pod.metadata;
    for all in [meta.annotations.get_or_insert_default(), meta.labels.get_or_insert_default()] {
        all.insert(COMPLETION_INDEX.to_owned(), index.to_string());
    }
    // The name of the Job, and a hyphen.
    let mut name = meta.generate_name.take().unwrap_or_default();
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(format!("{name}{index}"));
    let suffix = format!("-{index}-");
    name.truncate((name.len() - 1).min(LONGEST_PREFIX - suffix.len()));
    meta.generate_name = Some(name + &suffix);
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        let variables = container.env.get_or_insert_default();
        if variables.iter().any(|variable| variable.name == INDEX_VARIABLE) {
            continue;
        }
        let field = ObjectFieldSelector {
            field_path: format!("metadata.labels['{COMPLETION_INDEX}']"),
            ..ObjectFieldSelector::default()
        };
        variables.push(EnvVar {
            name: INDEX_VARIABLE.to_owned(),
            value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
            ..EnvVar::default()
        });
    }
    pod
}

/// Removes the finalizer of a pod.
async fn untrack(pod: &Arc<WorkloadPod>, workloads: &Workloads) -> Result<(), Error> {
    if !is_tracked(pod) {
        return Ok(());
    }
    let all = pod.metadata.finalizers.iter().flatten();
    let others: Vec<&String> = all.filter(|finalizer| *finalizer != FINALIZER).collect();
    let others = (!others.is_empty()).then_some(others);
    let change = json!({"metadata": {"finalizers": others}});
    let (client, what) = (&workloads.cx.client, "let go of a pod");
    write::patch(client, &workloads.pods, &**pod, PatchTarget::Object, change, what).await
}

/// Records events for changes of a Job.
fn report(job: &Job, status: &JobStatus, workloads: &Workloads) {
    let old = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_new = |condition: &&decide::workload::Condition| {
        !old.clone().any(|old| old.type_ == condition.kind && old.status == condition.status)
    };
    for condition in status.conditions.iter().filter(is_new) {
        let (kind, reason, message) = match condition.kind.as_str() {
            "Complete" => (EventType::Normal, "Completed", "Job completed"),
            "Failed" => (EventType::Warning, condition.reason.as_str(), condition.message.as_str()),
            "Suspended" if condition.status == "True" => {
                (EventType::Normal, "Suspended", "Job suspended")
            }
            "Suspended" => (EventType::Normal, "Resumed", "Job resumed"),
            _ => continue,
        };
        workloads.cx.events.record(job, SOURCE, kind, reason, message.to_owned());
    }
}

fn spec(desired: &batch::JobSpec) -> JobSpec {
    let completions = desired.completions.unwrap_or_default();
    let rules = desired.success_policy.iter().flat_map(|policy| &policy.rules);
    let rule = |rule: &batch::SuccessPolicyRule| SuccessRule {
        indexes: rule.succeeded_indexes.as_ref().map(|text| Indexes::parse(text, completions)),
        count: rule.succeeded_count,
    };
    let policy = desired.template.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    JobSpec {
        completions: desired.completions,
        parallelism: desired.parallelism.unwrap_or(1),
        backoff_limit: desired.backoff_limit.unwrap_or(6),
        active_deadline_seconds: desired.active_deadline_seconds,
        is_suspended: desired.suspend == Some(true),
        restarts_in_place: policy == Some("OnFailure"),
        ttl_seconds_after_finished: desired.ttl_seconds_after_finished,
        is_indexed: desired.completion_mode.as_deref() == Some("Indexed"),
        success_rules: rules.map(rule).collect(),
    }
}

fn status(job: &Job, spec: &JobSpec) -> JobStatus {
    let status = job.status.clone().unwrap_or_default();
    let uncounted = status.uncounted_terminated_pods.unwrap_or_default();
    let uids = |uids: Option<Vec<String>>| uids.into_iter().flatten().map(Arc::from).collect();
    JobStatus {
        started_at: status.start_time.map(|at| at.0),
        completed_at: status.completion_time.map(|at| at.0),
        active: status.active.unwrap_or_default(),
        ready: status.ready.unwrap_or_default(),
        terminating: status.terminating.unwrap_or_default(),
        succeeded: status.succeeded.unwrap_or_default(),
        failed: status.failed.unwrap_or_default(),
        uncounted_succeeded: uids(uncounted.succeeded),
        uncounted_failed: uids(uncounted.failed),
        completed: Indexes::parse(
            &status.completed_indexes.unwrap_or_default(),
            spec.completions.unwrap_or_default(),
        ),
        conditions: status.conditions.iter().flatten().map(from_job).collect(),
    }
}

fn written(status: &JobStatus) -> batch::JobStatus {
    let uids = |uids: &std::collections::BTreeSet<Arc<str>>| {
        let uids: Vec<String> = uids.iter().map(ToString::to_string).collect();
        (!uids.is_empty()).then_some(uids)
    };
    let conditions: Vec<_> = status.conditions.iter().map(to_job).collect();
    batch::JobStatus {
        active: nonzero(status.active),
        ready: Some(status.ready),
        terminating: Some(status.terminating),
        succeeded: nonzero(status.succeeded),
        failed: nonzero(status.failed),
        start_time: status.started_at.map(Time),
        completed_indexes: (!status.completed.is_empty()).then(|| status.completed.to_string()),
        completion_time: status.completed_at.map(Time),
        conditions: (!conditions.is_empty()).then_some(conditions),
        uncounted_terminated_pods: Some(UncountedTerminatedPods {
            succeeded: uids(&status.uncounted_succeeded),
            failed: uids(&status.uncounted_failed),
        }),
        ..batch::JobStatus::default()
    }
}
