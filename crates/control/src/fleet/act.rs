//! Creates, resizes and deletes the sets of a fleet, and writes its status.

use std::sync::Arc;

use api::Problem;
use api::agones::{FLEET_LABEL, FleetStatus, GameServerSet, GameServerSetSpec};
use cluster::{Error, EventType, Key};
use decide::fleet::{SetPlan, SetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;
use kube::api::{Api, PostParams};
use serde_json::json;

use super::observe::FleetObservation;
use crate::context::Context;
use crate::gameserverset::replace;
use crate::lister::sentence;
use cluster::write::{self, PatchTarget};

const SOURCE: &str = "fleet-controller";

type CachedObservation = FleetObservation<Arc<GameServerSet>>;

/// Carries out the plan for the sets of a fleet.
pub(super) async fn carry_out(
    observed: &CachedObservation,
    plan: &SetPlan,
    cx: &Context,
) -> Result<(), Error> {
    delete(observed, plan, cx).await?;
    resize(observed, plan, cx).await?;
    keep_active(observed, plan, cx).await
}

/// Deletes sets that are empty.
async fn delete(observed: &CachedObservation, plan: &SetPlan, cx: &Context) -> Result<(), Error> {
    for set in plan.delete.iter().map(|index| &observed.sets[*index]) {
        write::delete(&cx.client, &cx.caches.sets, &**set, "delete an empty set").await?;
        let note = format!("Deleting inactive GameServerSet {}", name(set));
        record_event(observed, cx, "DeletingGameServerSet", note);
    }
    Ok(())
}

/// Resizes the sets with an earlier template.
async fn resize(observed: &CachedObservation, plan: &SetPlan, cx: &Context) -> Result<(), Error> {
    for (set, size) in plan.resize.iter().map(|(index, size)| (&observed.sets[*index], *size)) {
        let change = json!({"spec": {"replicas": size}});
        let what = "resize an earlier set";
        write::patch(&cx.client, &cx.caches.sets, &**set, PatchTarget::Object, change, what)
            .await?;
        let (name, from) = (name(set), set.spec.replicas);
        let note = format!("Scaling inactive GameServerSet {name} from {from} to {size}");
        record_event(observed, cx, "ScalingGameServerSet", note);
    }
    Ok(())
}

/// Creates the set with the current template, or updates it.
async fn keep_active(
    observed: &CachedObservation,
    plan: &SetPlan,
    cx: &Context,
) -> Result<(), Error> {
    let size = plan.replicas;
    let Some(set) = plan.active.map(|index| &observed.sets[index]) else {
        return create(observed, size, cx).await;
    };
    let (spec, fleet_spec) = (&set.spec, &observed.fleet.spec);
    let is_moved = spec.replicas != size || spec.scheduling != Some(fleet_spec.scheduling);
    let is_reordered = spec.priorities != fleet_spec.priorities;
    if !is_moved && !is_reordered {
        return Ok(());
    }
    let change = json!({"spec": {
        "replicas": size,
        "scheduling": fleet_spec.scheduling,
        "priorities": fleet_spec.priorities,
    }});
    let what = "change the active set";
    write::patch(&cx.client, &cx.caches.sets, &**set, PatchTarget::Object, change, what).await?;
    if is_moved {
        let (name, from) = (name(set), spec.replicas);
        let note = format!("Scaling active GameServerSet {name} from {from} to {size}");
        record_event(observed, cx, "ScalingGameServerSet", note);
    }
    if is_reordered {
        let note = format!("Updated GameServerSet {} Priorities", name(set));
        record_event(observed, cx, "UpdatingGameServerSet", note);
    }
    Ok(())
}

async fn create(observed: &CachedObservation, size: i32, cx: &Context) -> Result<(), Error> {
    let fleet = &observed.fleet;
    let (Some(fleet_name), Some(owner)) = (&fleet.metadata.name, fleet.controller_owner_ref(&()))
    else {
        return Ok(());
    };
    let template = &fleet.spec.template;
    let mut labels = template.metadata.labels.clone().unwrap_or_default();
    labels.insert(FLEET_LABEL.to_owned(), fleet_name.clone());
    let metadata = ObjectMeta {
        generate_name: Some(format!("{fleet_name}-")),
        namespace: fleet.metadata.namespace.clone(),
        labels: Some(labels),
        annotations: template.metadata.annotations.clone(),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    let spec = GameServerSetSpec {
        replicas: size,
        allocation_overflow: fleet.spec.allocation_overflow.clone(),
        scheduling: Some(fleet.spec.scheduling),
        priorities: fleet.spec.priorities.clone(),
        template: template.clone(),
    };
    let set = GameServerSet { metadata, spec, status: None };
    let sets: Api<GameServerSet> = write::api(&cx.client, &Key::from_meta(&fleet.metadata));
    let made = sets.create(&PostParams::default(), &set).await;
    let made = made.map_err(Error::api("create a set"))?;
    let note = format!("Created GameServerSet {}", name(&made));
    cx.caches.sets.insert(made);
    record_event(observed, cx, "CreatingGameServerSet", note);
    Ok(())
}

/// Adds up the status of the sets, and writes that of the fleet if it has changed.
pub(super) async fn status(observed: &CachedObservation, cx: &Context) -> Result<(), Error> {
    let fleet = &observed.fleet;
    let sets = observed.sets.iter();
    let sums: Vec<SetStatus> =
        sets.map(|set| set.status.clone().unwrap_or_default().sums()).collect();
    let allocations = fleet.status.as_ref().map_or(0, |status| status.allocations);
    let status = FleetStatus::from_sums(&decide::fleet::merge(&sums), allocations);
    if fleet.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let change = json!({"status": replace(&status, fleet.status.as_ref())});
    let what = "write the fleet's status";
    write::patch(&cx.client, &cx.caches.fleets, &**fleet, PatchTarget::Status, change, what).await
}

fn name(set: &GameServerSet) -> &str {
    set.metadata.name.as_deref().unwrap_or_default()
}

/// Reports a fleet that cannot be read. Its sets stay as they are until it changes.
pub(super) fn report_unreadable(observed: &CachedObservation, problems: &[Problem], cx: &Context) {
    let note = format!(
        "Error reading the fleet; its sets stay as they are. Error: {}",
        sentence(problems)
    );
    tracing::warn!(fleet = observed.fleet.metadata.name.as_deref(), note, "fleet cannot be read");
    cx.events.record(&*observed.fleet, SOURCE, EventType::Warning, "Unreadable", note);
}

fn record_event(observed: &CachedObservation, cx: &Context, reason: &str, note: String) {
    cx.events.record(&*observed.fleet, SOURCE, EventType::Normal, reason, note);
}
