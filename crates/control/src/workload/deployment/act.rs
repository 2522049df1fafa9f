//! Writes the status of a Deployment.

use cluster::Error;
use cluster::write::{self, PatchTarget};
use decide::workload::deployment::Status;
use k8s_openapi::api::apps::v1::DeploymentStatus;
use serde_json::json;

use super::super::Workloads;
use super::super::conditions::{nonzero, status_patch, to_deployment};
use super::observe::{Observation, REVISION};

/// Writes the status if it is new, together with the revision: annotations that come with a status do not count as a change of the
/// desired state.
pub(super) async fn write_status(
    observed: &Observation,
    status: &Status,
    workloads: &Workloads,
) -> Result<(), Error> {
    let old = observed.deployment.status.as_ref();
    let new = DeploymentStatus {
        observed_generation: Some(status.observed_generation),
        replicas: nonzero(status.replicas),
        updated_replicas: nonzero(status.updated),
        ready_replicas: nonzero(status.ready),
        available_replicas: nonzero(status.available),
        unavailable_replicas: nonzero(status.unavailable),
        terminating_replicas: Some(status.terminating),
        collision_count: old.and_then(|old| old.collision_count),
        conditions: Some(status.conditions.iter().map(to_deployment).collect()),
    };
    let annotations = observed.deployment.metadata.annotations.as_ref();
    let noted = annotations.and_then(|annotations| annotations.get(REVISION));
    let revision = observed.revision.map(|revision| revision.to_string());
    let revision = revision.filter(|revision| noted != Some(revision));
    let change = status_patch(&new, old);
    if change.is_none() && revision.is_none() {
        return Ok(());
    }
    let mut change = change.unwrap_or_else(|| json!({}));
    if let Some(revision) = revision {
        change["metadata"]["annotations"][REVISION] = json!(revision);
    }
    patch(observed, change, workloads).await
}

/// Counts a collision of two templates' hashes, so that the next hash is another.
pub(super) async fn count_collision(
    observed: &Observation,
    workloads: &Workloads,
) -> Result<(), Error> {
    let count = observed.deployment.status.as_ref().and_then(|status| status.collision_count);
    let change = json!({"status": {"collisionCount": count.unwrap_or_default().saturating_add(1)}});
    patch(observed, change, workloads).await
}

async fn patch(
    observed: &Observation,
    change: serde_json::Value,
    workloads: &Workloads,
) -> Result<(), Error> {
    let (client, cache) = (&workloads.cx.client, &workloads.deployments);
    let what = "write the status";
    write::patch(client, cache, &*observed.deployment, PatchTarget::Status, change, what).await
}
