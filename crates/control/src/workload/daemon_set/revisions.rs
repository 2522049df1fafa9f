//! The templates of a DaemonSet over time, as ControllerRevisions: `kubectl rollout undo` goes back to one.

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster::write::{self, PatchTarget};
use cluster::{Error, Key};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::super::claim::owner_reference;
use super::super::pod::WorkloadPod;
use super::super::{Workloads, template};
use super::REVISION_LABEL;

/// Returns the hash of the present template, after keeping it as the newest revision.
pub(super) async fn present(set: &DaemonSet, workloads: &Workloads) -> Result<String, Error> {
    let uid = set.metadata.uid.as_deref().unwrap_or_default();
    let all = workloads.revisions.owned(uid, Arc::clone);
    let newest = all.iter().map(|revision| revision.revision).max().unwrap_or_default();
    let desired = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let data = data(&desired);
    if let Some(found) = all.iter().find(|revision| revision.data.as_ref() == Some(&data)) {
        if found.revision < newest {
            let change = json!({"revision": newest + 1});
            let (client, what) = (&workloads.cx.client, "renew a revision");
            write::patch(client, &workloads.revisions, &**found, PatchTarget::Object, change, what)
                .await?;
        }
        return Ok(hash_of(found).cloned().unwrap_or_default());
    }
    let hash = template::hash(&desired, None);
    let Some(revision) = new_revision(set, &desired, (&hash, data), newest + 1) else {
        return Ok(hash);
    };
    let api: Api<ControllerRevision> =
        write::api(&workloads.cx.client, &Key::from_meta(&set.metadata));
    let created = api.create(&PostParams::default(), &revision).await;
    workloads.revisions.insert(created.map_err(Error::api("create a ControllerRevision"))?);
    Ok(hash)
}

fn hash_of(revision: &ControllerRevision) -> Option<&String> {
    revision.metadata.labels.as_ref()?.get(REVISION_LABEL)
}

/// Returns a patch that restores a template.
fn data(template: &PodTemplateSpec) -> RawExtension {
    let mut template = serde_json::to_value(template).unwrap_or_default();
    template["$patch"] = Value::from("replace");
    RawExtension(json!({"spec": {"template": template}}))
}

fn new_revision(
    set: &DaemonSet,
    template: &PodTemplateSpec,
    (hash, data): (&str, RawExtension),
    revision: i64,
) -> Option<ControllerRevision> {
    let labels = template.metadata.as_ref().and_then(|meta| meta.labels.clone());
    let mut labels = labels.unwrap_or_default();
    labels.insert(REVISION_LABEL.to_owned(), hash.to_owned());
    Some(ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", set.name_any())),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: set.metadata.annotations.clone(),
            owner_references: Some(vec![owner_reference(set)?]),
            ..ObjectMeta::default()
        },
        data: Some(data),
        revision,
    })
}

/// Deletes the oldest revisions beyond the limit that no pod has.
pub(super) async fn delete_expired(
    set: &DaemonSet,
    present: &str,
    pods: &[Arc<WorkloadPod>],
    workloads: &Workloads,
) -> Result<(), Error> {
    let limit = set.spec.as_ref().and_then(|spec| spec.revision_history_limit).unwrap_or(10);
    let labels = pods.iter().filter_map(|pod| pod.metadata.labels.as_ref()?.get(REVISION_LABEL));
    let used: BTreeSet<&str> = labels.map(String::as_str).chain([present]).collect();
    let uid = set.metadata.uid.as_deref().unwrap_or_default();
    let mut old = workloads.revisions.owned(uid, Arc::clone);
    old.retain(|revision| hash_of(revision).is_none_or(|hash| !used.contains(hash.as_str())));
    old.sort_by_key(|revision| revision.revision);
    let excess = old.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
    for revision in old.iter().take(excess) {
        let what = "delete an old ControllerRevision";
        write::delete(&workloads.cx.client, &workloads.revisions, &**revision, what).await?;
    }
    Ok(())
}
