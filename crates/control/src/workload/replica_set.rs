//! ReplicaSets: as many pods as desired, and a status that counts them.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::write::{self, PatchTarget};
use cluster::{Error, Key, RequeueAt};
use decide::workload::{PodView, count_replicas, missing_replicas, pods_to_delete};
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::claim::{claim, controller, selector};
use super::conditions::{nonzero, status_patch};
use super::pod::WorkloadPod;
use super::{Workloads, template};
use crate::writes::each;

const SOURCE: &str = "replicaset-controller";

/// Pods could not be created or deleted.
struct ReplicaFailure {
    reason: &'static str,
    error: Error,
}

impl ReplicaFailure {
    fn because(reason: &'static str) -> impl FnOnce(Error) -> Self {
        move |error| Self { reason, error }
    }
}

/// Reconciles one ReplicaSet.
pub(super) async fn reconcile(key: Key, workloads: Arc<Workloads>) -> Result<RequeueAt, Error> {
    let Some(set) = workloads.sets.get(&key) else { return Ok(None) };
    let Some(selector) =
        selector(&set.spec.as_ref().map(|s| s.selector.clone()).unwrap_or_default())
    else {
        return Ok(None);
    };
    let pods = (&workloads.pods, &*workloads.orphan_pods);
    let claimed = claim(&workloads.cx.client, &*set, &selector, pods, |pod| pod.view.is_active());
    let claimed = claimed.await?;
    let managed = match set.metadata.deletion_timestamp {
        Some(_) => Ok(()),
        None => resize(&set, &claimed, &workloads).await,
    };
    let requeue_at = write_status(&set, managed.as_ref().err(), &workloads).await?;
    managed.map(|()| requeue_at).map_err(|failure| failure.error)
}

/// Creates the missing pods, or deletes the excess ones.
async fn resize(
    set: &ReplicaSet,
    claimed: &[Arc<WorkloadPod>],
    workloads: &Workloads,
) -> Result<(), ReplicaFailure> {
    let Some(spec) = &set.spec else { return Ok(()) };
    let active: Vec<&PodView> =
        claimed.iter().map(|pod| &pod.view).filter(|pod| pod.is_active()).collect();
    let missing = missing_replicas(spec.replicas.unwrap_or(1), active.len());
    let limit = workloads.cx.settings.parallel_writes;
    if missing < 0 {
        let related = related(set, workloads);
        let related: Vec<&PodView> = related.iter().map(|pod| &pod.view).collect();
        let now = workloads.cx.clock.now();
        let going = pods_to_delete(&active, &related, missing.unsigned_abs(), now);
        let going: Vec<Arc<str>> = going.iter().map(|pod| Arc::clone(&pod.name)).collect();
        let delete = |name: Arc<str>| async move { workloads.delete_pod(set, SOURCE, &name).await };
        let deleted = each(going, limit, delete).await;
        return deleted.map_err(ReplicaFailure::because("FailedDelete"));
    }
    if missing == 0 {
        return Ok(());
    }
    let pod = template::new_pod(set, &spec.template.clone().unwrap_or_default());
    let pod = serde_json::to_vec(&pod).unwrap_or_default();
    // The first alone: if it is refused, so are the others.
    let created = async {
        workloads.create_pod(set, SOURCE, pod.clone()).await?;
        each(1..missing, limit, |_| workloads.create_pod(set, SOURCE, pod.clone())).await
    };
    created.await.map_err(ReplicaFailure::because("FailedCreate"))
}

/// Returns the pods of all sets with the same owner.
fn related(set: &ReplicaSet, workloads: &Workloads) -> Vec<Arc<WorkloadPod>> {
    let uid = |set: &ReplicaSet| set.metadata.uid.clone().unwrap_or_default();
    let sets = match controller(&set.metadata) {
        Some((_, _, owner)) => workloads.sets.owned(owner, |set| uid(set)),
        None => vec![uid(set)],
    };
    sets.iter().flat_map(|uid| workloads.pods.owned(uid, Arc::clone)).collect()
}

/// Counts the pods as they are now, and writes the sums if they are new.
async fn write_status(
    set: &ReplicaSet,
    failure: Option<&ReplicaFailure>,
    workloads: &Workloads,
) -> Result<RequeueAt, Error> {
    let (Some(spec), clock) = (&set.spec, &workloads.cx.clock) else { return Ok(None) };
    let pods = workloads.pods.owned(set.metadata.uid.as_deref().unwrap_or_default(), Arc::clone);
    let counts = count_replicas(
        pods.iter().map(|pod| &pod.view),
        spec.min_ready_seconds.unwrap_or(0),
        clock.now(),
    );
    let labels = spec.template.as_ref().and_then(|t| t.metadata.as_ref()?.labels.as_ref());
    let empty = BTreeMap::new();
    let is_fully_labeled = |pod: &&Arc<WorkloadPod>| {
        let own = pod.metadata.labels.as_ref().unwrap_or(&empty);
        pod.view.is_active()
            && labels.into_iter().flatten().all(|(key, value)| own.get(key) == Some(value))
    };
    let fully_labeled = pods.iter().filter(is_fully_labeled).count();
    let status = ReplicaSetStatus {
        replicas: counts.replicas,
        fully_labeled_replicas: nonzero(i32::try_from(fully_labeled).unwrap_or(i32::MAX)),
        ready_replicas: nonzero(counts.ready),
        available_replicas: nonzero(counts.available),
        terminating_replicas: Some(counts.terminating),
        observed_generation: set.metadata.generation,
        conditions: conditions(set, failure, workloads),
    };
    if let Some(change) = status_patch(&status, set.status.as_ref()) {
        let (client, target) = (&workloads.cx.client, PatchTarget::Status);
        write::patch(client, &workloads.sets, set, target, change, "write the status").await?;
    }
    Ok(counts.next_available_at.map(|at| clock.timer(at)))
}

/// Sets the condition that pods cannot be created or deleted.
fn conditions(
    set: &ReplicaSet,
    failure: Option<&ReplicaFailure>,
    workloads: &Workloads,
) -> Option<Vec<ReplicaSetCondition>> {
    let old = set.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let (mut own, mut all): (Vec<_>, Vec<_>) =
        old.into_iter().partition(|condition| condition.type_ == "ReplicaFailure");
    if let Some(failure) = failure {
        all.push(own.pop().unwrap_or_else(|| ReplicaSetCondition {
            type_: "ReplicaFailure".to_owned(),
            status: "True".to_owned(),
            reason: Some(failure.reason.to_owned()),
            message: Some(failure.error.message()),
            last_transition_time: Some(Time(workloads.cx.clock.now())),
        }));
    }
    (!all.is_empty()).then_some(all)
}
