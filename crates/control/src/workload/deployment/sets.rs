//! Creates, annotates, resizes and deletes the sets of a Deployment.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::write::{self, PatchTarget};
use cluster::{Error, EventType, Key};
use decide::workload::{Resize, expired_sets, next_revision, revision_history, size_of_new_set};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use serde_json::json;

use super::super::Workloads;
use super::super::claim::{controller, owner_reference};
use super::super::template;
use super::act;
use super::observe::{
    DESIRED, HASH_LABEL, MAX, Observation, REVISION, annotation, has_template, size,
};

const HISTORY: &str = "deployment.kubernetes.io/revision-history";
const SOURCE: &str = "deployment-controller";
/// The annotations of a Deployment that its sets do not get.
const OWN_ANNOTATIONS: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
];

/// Returns the annotations that a Deployment hands to its new set.
fn handed_down(deployment: &Deployment) -> BTreeMap<String, String> {
    let all = deployment.metadata.annotations.iter().flatten();
    let all = all.filter(|(name, _)| !OWN_ANNOTATIONS.contains(&name.as_str()));
    all.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn size_annotations(observed: &Observation) -> [(String, String); 2] {
    let max = observed.spec.replicas.saturating_add(observed.spec.strategy.max_surge());
    [(DESIRED.to_owned(), observed.spec.replicas.to_string()), (MAX.to_owned(), max.to_string())]
}

fn revision(observed: &Observation) -> u64 {
    let others = observed.old.iter().filter_map(|set| annotation(set, REVISION));
    let present = observed.new.as_deref().and_then(|set| annotation(set, REVISION));
    next_revision(others, present)
}

/// Keeps revision, annotations and `minReadySeconds` of the new set up to date, if there is one.
pub(super) async fn annotate_new(
    observed: &mut Observation,
    workloads: &Workloads,
) -> Result<(), Error> {
    let Some(new) = observed.new.clone() else { return Ok(()) };
    let revision = revision(observed);
    let mut annotations = handed_down(&observed.deployment);
    if let Some(earlier) = annotation::<u64>(&new, REVISION)
        && earlier < revision
    {
        let history: String = annotation(&new, HISTORY).unwrap_or_default();
        annotations.insert(HISTORY.to_owned(), revision_history(&history, earlier));
    }
    annotations.insert(REVISION.to_owned(), revision.to_string());
    let own = new.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|name, value| own.get(name) != Some(value));
    let min_ready = |spec: Option<i32>| spec.unwrap_or_default();
    let wanted =
        min_ready(observed.deployment.spec.as_ref().and_then(|spec| spec.min_ready_seconds));
    let present = min_ready(new.spec.as_ref().and_then(|spec| spec.min_ready_seconds));
    if !annotations.is_empty() || wanted != present {
        let mut change = json!({"metadata": {"annotations": annotations}});
        if wanted != present {
            change["spec"]["minReadySeconds"] = json!(wanted);
        }
        let (client, what) = (&workloads.cx.client, "annotate a ReplicaSet");
        write::patch(client, &workloads.sets, &*new, PatchTarget::Object, change, what).await?;
        observed.refresh(workloads);
    }
    observed.revision = Some(revision);
    Ok(())
}

/// Creates the set of the present template.
pub(super) async fn create_new(
    observed: &mut Observation,
    workloads: &Workloads,
) -> Result<(), Error> {
    let revision = revision(observed);
    let replicas = size_of_new_set(&observed.spec, 0, &observed.old_sizes());
    let Some(set) = new_set(observed, revision, replicas) else { return Ok(()) };
    let key = Key::from_meta(&observed.deployment.metadata);
    let api: Api<ReplicaSet> = write::api(&workloads.cx.client, &key);
    let created =
        api.create(&PostParams::default(), &set).await.map_err(Error::api("create a ReplicaSet"));
    let (created, is_new) = match created {
        Ok(created) => (created, true),
        Err(error) if error.is_conflict() => {
            (existing(observed, &api, &set, error, workloads).await?, false)
        }
        Err(error) => return Err(error),
    };
    workloads.sets.insert(created.clone());
    if is_new && replicas > 0 {
        let note = format!("Scaled up replica set {} from 0 to {replicas}", created.name_any());
        workloads.cx.events.record(
            &*observed.deployment,
            SOURCE,
            EventType::Normal,
            "ScalingReplicaSet",
            note,
        );
    }
    observed.new = Some(Arc::new(created));
    observed.revision = Some(revision);
    Ok(())
}

/// Returns the existing set if it has the wanted template. Otherwise two templates have the same hash, and the next attempt uses another hash.
async fn existing(
    observed: &Observation,
    api: &Api<ReplicaSet>,
    wanted: &ReplicaSet,
    error: Error,
    workloads: &Workloads,
) -> Result<ReplicaSet, Error> {
    let found = api.get_opt(&wanted.name_any()).await.map_err(Error::api("read a ReplicaSet"))?;
    let Some(found) = found else { return Err(error) };
    let uid = observed.deployment.metadata.uid.as_deref();
    let is_own = controller(&found.metadata).is_some_and(|(_, _, owner)| Some(owner) == uid);
    let template = observed.deployment.spec.as_ref().map(|spec| &spec.template);
    if is_own && template.is_some_and(|template| has_template(&found, template)) {
        return Ok(found);
    }
    act::count_collision(observed, workloads).await?;
    Err(error)
}

fn new_set(observed: &Observation, revision: u64, replicas: i32) -> Option<ReplicaSet> {
    let (deployment, spec) = (&observed.deployment, observed.deployment.spec.as_ref()?);
    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count);
    let hash = template::hash(&spec.template, collisions);
    let hash_label = || (HASH_LABEL.to_owned(), hash.clone());
    let mut template = spec.template.clone();
    let metadata = template.metadata.get_or_insert_default();
    metadata.labels.get_or_insert_default().extend([hash_label()]);
    let labels = metadata.labels.clone();
    let mut selector = spec.selector.clone();
    selector.match_labels.get_or_insert_default().extend([hash_label()]);
    let mut annotations = handed_down(deployment);
    annotations.insert(REVISION.to_owned(), revision.to_string());
    annotations.extend(size_annotations(observed));
    Some(ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", deployment.name_any())),
            namespace: deployment.metadata.namespace.clone(),
            labels,
            annotations: Some(annotations),
            owner_references: Some(vec![owner_reference(&**deployment)?]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(replicas),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        }),
        status: None,
    })
}

/// Resizes sets, and records the desired and the largest size of the Deployment in their annotations.
pub(super) async fn resize(
    observed: &mut Observation,
    resized: &[Resize],
    workloads: &Workloads,
) -> Result<(), Error> {
    let sizes = size_annotations(observed);
    for Resize { name, replicas } in resized {
        let mut sets = observed.old.iter().chain(&observed.new);
        let Some(set) = sets.find(|set| set.metadata.name.as_ref() == Some(name)) else { continue };
        let from = size(set).replicas;
        let own = set.metadata.annotations.clone().unwrap_or_default();
        let is_annotated = sizes.iter().all(|(name, value)| own.get(name) == Some(value));
        if from == *replicas && is_annotated {
            continue;
        }
        let annotations = BTreeMap::from(sizes.clone());
        let change =
            json!({"metadata": {"annotations": annotations}, "spec": {"replicas": replicas}});
        let (client, what) = (&workloads.cx.client, "resize a ReplicaSet");
        write::patch(client, &workloads.sets, &**set, PatchTarget::Object, change, what).await?;
        if from != *replicas {
            let direction = if from < *replicas { "up" } else { "down" };
            let note = format!("Scaled {direction} replica set {name} from {from} to {replicas}");
            workloads.cx.events.record(
                &*observed.deployment,
                SOURCE,
                EventType::Normal,
                "ScalingReplicaSet",
                note,
            );
        }
    }
    observed.refresh(workloads);
    Ok(())
}

/// Deletes the sets beyond the history limit.
pub(super) async fn delete_expired(
    observed: &Observation,
    workloads: &Workloads,
) -> Result<(), Error> {
    let limit = observed.deployment.spec.as_ref().and_then(|spec| spec.revision_history_limit);
    let sets = observed.old.iter().filter(|set| set.metadata.deletion_timestamp.is_none());
    let sets: Vec<_> = sets
        .map(|set| {
            let observed_generation =
                set.status.as_ref().and_then(|status| status.observed_generation);
            (
                annotation(set, REVISION).unwrap_or_default(),
                size(set),
                observed_generation >= set.metadata.generation,
            )
        })
        .collect();
    let candidates =
        sets.iter().map(|(revision, size, is_observed)| (*revision, size, *is_observed));
    for name in expired_sets(candidates, limit) {
        let key =
            Key::new(observed.deployment.metadata.namespace.as_deref().unwrap_or_default(), name);
        if let Some(set) = workloads.sets.get(&key) {
            let what = "delete an old ReplicaSet";
            write::delete(&workloads.cx.client, &workloads.sets, &*set, what).await?;
        }
    }
    Ok(())
}
