//! DaemonSets: one pod on each eligible node.

mod pods;
mod revisions;

use std::sync::{Arc, PoisonError};

use cluster::write::{self, PatchTarget};
use cluster::{Error, EventType, Key, RequeueAt};
use decide::workload::IntOrPercent;
use decide::workload::daemon::{self, DaemonNode, DaemonPlan, DaemonPod, Fit, UpdateStrategy};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetStatus};

use super::Workloads;
use super::claim::{claim, selector};
use super::conditions::{nonzero, status_patch};
use super::deployment::amount;
use super::pod::WorkloadPod;
use crate::writes::each;

const SOURCE: &str = "daemonset-controller";
const REVISION_LABEL: &str = "controller-revision-hash";
/// How long failures of a node's pods are kept.
const REMEMBERED_FOR: SignedDuration = SignedDuration::from_mins(30);

/// Reconciles one DaemonSet.
pub(super) async fn reconcile(key: Key, workloads: Arc<Workloads>) -> Result<RequeueAt, Error> {
    let Some(set) = workloads.daemon_sets.get(&key) else { return Ok(None) };
    let Some(desired) = &set.spec else { return Ok(None) };
    let Some(selector) = selector(&desired.selector) else { return Ok(None) };
    if set.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    let pods = (&workloads.pods, &*workloads.orphan_pods);
    let pods =
        claim(&workloads.cx.client, &*set, &selector, pods, |pod| pod.view.is_active()).await?;
    let hash = revisions::present(&set, &workloads).await?;
    let nodes = nodes(desired, &workloads);
    let now = workloads.cx.clock.now();
    let plan = plan(&set, desired, &nodes, (&pods, &hash), now, &workloads);
    act(&set, &plan, &hash, &workloads).await?;
    revisions::delete_expired(&set, &hash, &pods, &workloads).await?;
    write_status(&set, &plan, &workloads).await?;
    Ok(plan.wake_at.map(|at| workloads.cx.clock.timer(at)))
}

/// Returns the nodes, and whether each is eligible for the set.
fn nodes(desired: &DaemonSetSpec, workloads: &Workloads) -> Vec<(DaemonNode, Fit)> {
    let pod = pods::with_tolerations(desired.template.spec.clone().unwrap_or_default());
    let placement = api::nodes::daemon_placement(&pod);
    let mut nodes = workloads.cx.caches.nodes.all();
    nodes.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let nodes = nodes.iter().map(|node| {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        api::nodes::daemon_node(name, node.metadata.labels.as_ref(), &node.spec.taints)
    });
    nodes.map(|node| (node.clone(), daemon::fit(&placement, &node))).collect()
}

fn plan(
    set: &DaemonSet,
    desired: &DaemonSetSpec,
    nodes: &[(DaemonNode, Fit)],
    (pods, hash): (&[Arc<WorkloadPod>], &str),
    now: Timestamp,
    workloads: &Workloads,
) -> DaemonPlan {
    let pods: Vec<DaemonPod<'_>> = pods
        .iter()
        .map(|pod| {
            let revision =
                pod.metadata.labels.as_ref().and_then(|labels| labels.get(REVISION_LABEL));
            DaemonPod { view: &pod.view, is_current: revision.is_some_and(|own| own == hash) }
        })
        .collect();
    let wanted = nodes.iter().filter(|(_, fit)| *fit == Fit::Run).count();
    let strategy = strategy(desired, i32::try_from(wanted).unwrap_or(i32::MAX));
    let min_ready = desired.min_ready_seconds.unwrap_or_default();
    let uid = set.metadata.uid.clone().unwrap_or_default();
    let mut failures = workloads.daemon_failures.lock().unwrap_or_else(PoisonError::into_inner);
    let own = failures.entry(uid.clone()).or_default();
    own.retain(|_, (_, at)| now.duration_since(*at) < REMEMBERED_FOR);
    let plan = daemon::plan(nodes, &pods, (strategy, min_ready), own, now);
    for (_, node) in &plan.failed {
        let (count, at) = own.entry(Arc::clone(node)).or_insert((0, now));
        (*count, *at) = (count.saturating_add(1), now);
    }
    if own.is_empty() {
        failures.remove(&uid);
    }
    plan
}

fn strategy(desired: &DaemonSetSpec, nodes: i32) -> UpdateStrategy {
    let strategy = desired.update_strategy.as_ref();
    if strategy.is_some_and(|strategy| strategy.type_.as_deref() == Some("OnDelete")) {
        return UpdateStrategy::OnDelete;
    }
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let unavailable = rolling.and_then(|rolling| amount(rolling.max_unavailable.as_ref()));
    let unavailable = unavailable.unwrap_or(IntOrPercent::Int(1)).rounded_up(nodes);
    // With surge alone, which is not followed here, one node at a time is updated.
    UpdateStrategy::RollingUpdate { max_unavailable: unavailable.max(1) }
}

/// Deletes and creates pods.
async fn act(
    set: &DaemonSet,
    plan: &DaemonPlan,
    hash: &str,
    workloads: &Workloads,
) -> Result<(), Error> {
    let limit = workloads.cx.settings.parallel_writes;
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    for (pod, node) in &plan.failed {
        let note = format!(
            "Found failed daemon pod {namespace}/{pod} on node {node}, will try to kill it"
        );
        workloads.cx.events.record(set, SOURCE, EventType::Warning, "FailedDaemonPod", note);
    }
    let delete = |name: Arc<str>| async move { workloads.delete_pod(set, SOURCE, &name).await };
    each(plan.delete.clone(), limit, delete).await?;
    let create = |node: Arc<str>| async move {
        let pod = serde_json::to_vec(&pods::for_node(set, &node, hash)).unwrap_or_default();
        workloads.create_pod(set, SOURCE, pod).await
    };
    each(plan.create.clone(), limit, create).await
}

async fn write_status(
    set: &DaemonSet,
    plan: &DaemonPlan,
    workloads: &Workloads,
) -> Result<(), Error> {
    let counts = plan.counts;
    let old = set.status.as_ref();
    let status = DaemonSetStatus {
        observed_generation: set.metadata.generation,
        desired_number_scheduled: counts.desired,
        current_number_scheduled: counts.current,
        number_misscheduled: counts.misscheduled,
        number_ready: counts.ready,
        updated_number_scheduled: nonzero(counts.updated),
        number_available: nonzero(counts.available),
        number_unavailable: nonzero(counts.desired - counts.available),
        collision_count: old.and_then(|old| old.collision_count),
        conditions: old.and_then(|old| old.conditions.clone()),
    };
    let Some(change) = status_patch(&status, old) else { return Ok(()) };
    let (client, what) = (&workloads.cx.client, "write the status");
    write::patch(client, &workloads.daemon_sets, set, PatchTarget::Status, change, what).await
}
