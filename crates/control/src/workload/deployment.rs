//! Deployments: a ReplicaSet for each template, of which the present one takes over step by step.

mod act;
mod observe;
mod sets;

use std::sync::Arc;

use cluster::{Error, Key, RequeueAt};
use decide::workload::deployment::{self, NewSet, Status};
use decide::workload::{self, Strategy};

use super::Workloads;
use observe::Observation;
pub(super) use observe::amount;

/// Reconciles one Deployment.
pub(super) async fn reconcile(key: Key, workloads: Arc<Workloads>) -> Result<RequeueAt, Error> {
    let Some(deployment) = workloads.deployments.get(&key) else { return Ok(None) };
    let Some(mut observed) = observe::observe(deployment, &workloads).await? else {
        return Ok(None);
    };
    let now = workloads.cx.clock.now();
    if observed.is_being_deleted() {
        let status = observed.count(&observed.status, now);
        act::write_status(&observed, &status, &workloads).await?;
        return Ok(None);
    }
    let mut old = observed.status.clone();
    deployment::note_pause(&observed.spec, &mut old.conditions, now);
    if observed.spec.is_paused || workload::is_scaling(&observed.spec, &observed.sizes()) {
        return scale(observed, old, &workloads).await;
    }
    match observed.spec.strategy {
        Strategy::RollingUpdate { .. } => roll(&mut observed, &mut old, &workloads).await?,
        Strategy::Recreate => recreate(&mut observed, &mut old, &workloads).await?,
    }
    let mut status = observed.count(&old, now);
    let (new, failure) = (observed.new_size(), observed.failure());
    let deadline =
        deployment::report_progress(&observed.spec, &old, &mut status, new.as_ref(), failure, now);
    act::write_status(&observed, &status, &workloads).await?;
    Ok(deadline.map(|at| workloads.cx.clock.timer(at + jiff::SignedDuration::from_secs(1))))
}

/// Resizes the sets, without any step of a rollout.
async fn scale(
    mut observed: Observation,
    old: Status,
    workloads: &Workloads,
) -> Result<RequeueAt, Error> {
    sets::annotate_new(&mut observed, workloads).await?;
    let resized =
        workload::scale(&observed.spec, observed.new_size().as_ref(), &observed.old_sizes());
    sets::resize(&mut observed, &resized, workloads).await?;
    if observed.spec.is_paused {
        sets::delete_expired(&observed, workloads).await?;
    }
    let status = observed.count(&old, workloads.cx.clock.now());
    act::write_status(&observed, &status, workloads).await?;
    Ok(None)
}

/// Takes the next step of a rolling update.
async fn roll(
    observed: &mut Observation,
    old: &mut Status,
    workloads: &Workloads,
) -> Result<(), Error> {
    ensure_new(observed, old, workloads).await?;
    let Some(new) = observed.new_size() else { return Ok(()) };
    let steps = workload::rolling(&observed.spec, &new, &observed.old_sizes());
    if steps.is_empty() && observed.status.is_complete(&observed.spec) {
        sets::delete_expired(observed, workloads).await?;
    }
    sets::resize(observed, &steps, workloads).await
}

/// Takes the next step of a Recreate: the new set appears once no old pod runs.
async fn recreate(
    observed: &mut Observation,
    old: &mut Status,
    workloads: &Workloads,
) -> Result<(), Error> {
    sets::annotate_new(observed, workloads).await?;
    let old_pods_run = observed.old_pods_run(workloads);
    let sizes = observed.old_sizes();
    let steps =
        workload::recreate(&observed.spec, observed.new_size().as_ref(), &sizes, old_pods_run);
    if steps.is_empty() && !old_pods_run {
        ensure_new(observed, old, workloads).await?;
        if observed.status.is_complete(&observed.spec) {
            sets::delete_expired(observed, workloads).await?;
        }
    }
    sets::resize(observed, &steps, workloads).await
}

/// Finds or creates the set of the present template, and notes it in the conditions.
async fn ensure_new(
    observed: &mut Observation,
    old: &mut Status,
    workloads: &Workloads,
) -> Result<(), Error> {
    let now = workloads.cx.clock.now();
    let origin = if observed.new.is_some() { NewSet::Found } else { NewSet::Created };
    let ensured = match origin {
        NewSet::Found => sets::annotate_new(observed, workloads).await,
        NewSet::Created => sets::create_new(observed, workloads).await,
    };
    if let (Err(error), NewSet::Created) = (&ensured, origin)
        && !error.is_conflict()
    {
        deployment::note_failed_create(&observed.spec, &mut old.conditions, &error.message(), now);
        let status = observed.count(old, now);
        act::write_status(observed, &status, workloads).await?;
    }
    ensured?;
    if let Some(new) = observed.new_size() {
        deployment::note_new_set(&observed.spec, &mut old.conditions, (&new.name, origin), now);
    }
    Ok(())
}
