//! The observation of a Deployment: the object and its sets, among them the set of the current template.

use std::sync::Arc;

use cluster::Error;
use decide::workload::deployment::{self, Spec, Status};
use decide::workload::{Condition, IntOrPercent, SetSize, Strategy};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::util::intstr;

use super::super::Workloads;
use super::super::claim::{claim, selector};
use super::super::conditions::{from_deployment, from_set};

pub(super) const HASH_LABEL: &str = "pod-template-hash";
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";

/// A Deployment and its sets.
pub(super) struct Observation {
    pub(super) deployment: Arc<Deployment>,
    pub(super) spec: Spec,
    pub(super) status: Status,
    /// The set of the present template.
    pub(super) new: Option<Arc<ReplicaSet>>,
    /// The other sets.
    pub(super) old: Vec<Arc<ReplicaSet>>,
    /// The revision of the present template, once it is known.
    pub(super) revision: Option<u64>,
}

/// Observes a Deployment, after adopting and releasing sets; `None` for one whose selector cannot be read.
pub(super) async fn observe(
    deployment: Arc<Deployment>,
    workloads: &Workloads,
) -> Result<Option<Observation>, Error> {
    let Some(desired) = &deployment.spec else { return Ok(None) };
    let Some(selector) = selector(&desired.selector) else { return Ok(None) };
    let sets = (&workloads.sets, &*workloads.orphan_sets);
    let mut sets = claim(&workloads.cx.client, &*deployment, &selector, sets, |_| true).await?;
    sets.sort_by_key(|set| (set.metadata.creation_timestamp.clone(), set.metadata.name.clone()));
    let new = sets.iter().position(|set| has_template(set, &desired.template));
    let new = new.map(|index| sets.remove(index));
    let (spec, status) = (spec(&deployment, desired), status(&deployment));
    let revision = None;
    Ok(Some(Observation { spec, status, new, old: sets, deployment, revision }))
}

impl Observation {
    pub(super) fn is_being_deleted(&self) -> bool {
        self.deployment.metadata.deletion_timestamp.is_some()
    }

    pub(super) fn new_size(&self) -> Option<SetSize> {
        self.new.as_deref().map(size)
    }

    pub(super) fn old_sizes(&self) -> Vec<SetSize> {
        self.old.iter().map(|set| size(set)).collect()
    }

    pub(super) fn sizes(&self) -> Vec<SetSize> {
        self.old.iter().chain(&self.new).map(|set| size(set)).collect()
    }

    /// Counts the pods of the sets.
    pub(super) fn count(&self, old: &Status, now: Timestamp) -> Status {
        deployment::count(&self.spec, old, self.new_size().as_ref(), &self.old_sizes(), now)
    }

    /// Whether a pod of an old set has not ended.
    pub(super) fn old_pods_run(&self, workloads: &Workloads) -> bool {
        self.old.iter().any(|set| {
            let uid = set.metadata.uid.as_deref().unwrap_or_default();
            workloads.pods.owned(uid, |pod| !pod.view.is_finished()).contains(&true)
        })
    }

    /// Returns why pods cannot be created, in the new set first.
    pub(super) fn failure(&self) -> Option<Condition> {
        let conditions = self.new.iter().chain(&self.old);
        let mut conditions = conditions
            .flat_map(|set| set.status.iter().flat_map(|s| s.conditions.iter().flatten()));
        conditions.find(|condition| condition.type_ == "ReplicaFailure").map(from_set)
    }

    /// Replaces the sets with their last written versions.
    pub(super) fn refresh(&mut self, workloads: &Workloads) {
        for set in self.old.iter_mut().chain(&mut self.new) {
            let key = cluster::Key::from_meta(&set.metadata);
            let written = workloads.sets.get(&key);
            if let Some(written) = written.filter(|w| w.metadata.uid == set.metadata.uid) {
                *set = written;
            }
        }
    }
}

/// Returns a number in an annotation of a set.
pub(super) fn annotation<T: std::str::FromStr>(set: &ReplicaSet, name: &str) -> Option<T> {
    set.metadata.annotations.as_ref()?.get(name)?.parse().ok()
}

/// Returns the fields of a set that decisions use.
pub(super) fn size(set: &ReplicaSet) -> SetSize {
    let status = set.status.clone().unwrap_or_default();
    SetSize {
        name: set.metadata.name.clone().unwrap_or_default(),
        created_at: set.metadata.creation_timestamp.as_ref().map(|at| at.0).unwrap_or_default(),
        replicas: set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
        actual: status.replicas,
        ready: status.ready_replicas.unwrap_or_default(),
        available: status.available_replicas.unwrap_or_default(),
        terminating: status.terminating_replicas.unwrap_or_default(),
        desired: annotation(set, DESIRED),
        max: annotation(set, MAX),
    }
}

/// Whether a set has a template, apart from the hash that it was given.
pub(super) fn has_template(set: &ReplicaSet, template: &PodTemplateSpec) -> bool {
    let without_hash = |template: &PodTemplateSpec| {
        let mut template = template.clone();
        let metadata = template.metadata.get_or_insert_default();
        if let Some(labels) = &mut metadata.labels {
            labels.remove(HASH_LABEL);
        }
        metadata.labels = metadata.labels.take().filter(|labels| !labels.is_empty());
        template
    };
    let own = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
    own.is_some_and(|own| without_hash(own) == without_hash(template))
}

fn spec(deployment: &Deployment, desired: &DeploymentSpec) -> Spec {
    let replicas = desired.replicas.unwrap_or(1);
    let strategy = desired.strategy.as_ref();
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let quarter = IntOrPercent::Percent(25);
    let surge = rolling.and_then(|rolling| amount(rolling.max_surge.as_ref())).unwrap_or(quarter);
    let unavailable =
        rolling.and_then(|rolling| amount(rolling.max_unavailable.as_ref())).unwrap_or(quarter);
    let is_recreate = strategy.is_some_and(|s| s.type_.as_deref() == Some("Recreate"));
    Spec {
        name: deployment.metadata.name.clone().unwrap_or_default(),
        generation: deployment.metadata.generation.unwrap_or_default(),
        replicas,
        strategy: if is_recreate {
            Strategy::Recreate
        } else {
            Strategy::rolling(replicas, surge, unavailable)
        },
        is_paused: desired.paused == Some(true),
        progress_deadline_seconds: desired.progress_deadline_seconds.filter(|s| *s != i32::MAX),
    }
}

/// Reads a number or a percentage.
pub(in crate::workload) fn amount(amount: Option<&intstr::IntOrString>) -> Option<IntOrPercent> {
    match amount? {
        intstr::IntOrString::Int(count) => Some(IntOrPercent::Int(*count)),
        intstr::IntOrString::String(text) => IntOrPercent::parse_percent(text),
    }
}

fn status(deployment: &Deployment) -> Status {
    let status = deployment.status.clone().unwrap_or_default();
    Status {
        observed_generation: status.observed_generation.unwrap_or_default(),
        replicas: status.replicas.unwrap_or_default(),
        updated: status.updated_replicas.unwrap_or_default(),
        ready: status.ready_replicas.unwrap_or_default(),
        available: status.available_replicas.unwrap_or_default(),
        unavailable: status.unavailable_replicas.unwrap_or_default(),
        terminating: status.terminating_replicas.unwrap_or_default(),
        conditions: status.conditions.iter().flatten().map(from_deployment).collect(),
    }
}
