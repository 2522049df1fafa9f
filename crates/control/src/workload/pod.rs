//! The cached part of a workload's pod.

use decide::workload::{PodPhase, PodView};
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use cluster::CacheEntry;

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// The annotation and the label of a pod of an Indexed Job.
pub(super) const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// A pod, with what its controller needs.
pub(super) struct WorkloadPod {
    pub(super) metadata: ObjectMeta,
    pub(super) view: PodView,
    /// The completion index that a Job set it up for.
    pub(super) completion_index: Option<i32>,
}

/// The fields of a pod that are decoded.
#[derive(Clone, Debug, Default, Serialize, Deserialize, kube::Resource)]
#[resource(inherit = v1::Pod)]
pub(super) struct DecodedPod {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: DecodedSpec,
    #[serde(default)]
    status: DecodedStatus,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DecodedSpec {
    node_name: Option<String>,
    affinity: Option<v1::Affinity>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DecodedStatus {
    phase: Option<String>,
    conditions: Option<Vec<v1::PodCondition>>,
    init_container_statuses: Option<Vec<v1::ContainerStatus>>,
    container_statuses: Option<Vec<v1::ContainerStatus>>,
}

impl CacheEntry for WorkloadPod {
    type Object = DecodedPod;

    fn from_object(object: DecodedPod) -> Self {
        let view = view(&object);
        let mut metadata = object.metadata;
        metadata.managed_fields = None;
        let index = metadata.annotations.take().and_then(|mut all| all.remove(COMPLETION_INDEX));
        let index = index.and_then(|index| index.parse().ok()).filter(|index| *index >= 0);
        Self { metadata, view, completion_index: index }
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

fn view(pod: &DecodedPod) -> PodView {
    let (meta, status) = (&pod.metadata, &pod.status);
    let bound_to = pod.spec.node_name.as_deref().filter(|name| !name.is_empty());
    let created_at = meta.creation_timestamp.as_ref().map(|at| at.0).unwrap_or_default();
    let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
    let turned_at = ready.and_then(|ready| ready.last_transition_time.as_ref()).map(|at| at.0);
    let is_ready = ready.is_some_and(|ready| ready.status == "True");
    let phase = phase(status.phase.as_deref());
    let containers = status.container_statuses.iter().flatten();
    let restarts = || {
        let all = status.init_container_statuses.iter().chain(&status.container_statuses);
        all.flatten().map(|container| container.restart_count)
    };
    let ended_at = containers.filter_map(|container| {
        container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref().map(|at| at.0)
    });
    let cost = meta.annotations.as_ref().and_then(|annotations| annotations.get(DELETION_COST));
    let has_ended = matches!(phase, PodPhase::Succeeded | PodPhase::Failed);
    PodView {
        name: meta.name.as_deref().unwrap_or_default().into(),
        uid: meta.uid.as_deref().unwrap_or_default().into(),
        node: bound_to.or_else(|| meant_for(pod.spec.affinity.as_ref())).map(Into::into),
        is_bound: bound_to.is_some(),
        phase,
        ready_at: is_ready.then(|| turned_at.unwrap_or(created_at)),
        created_at,
        finished_at: has_ended.then(|| ended_at.max().or(turned_at).unwrap_or(created_at)),
        is_terminating: meta.deletion_timestamp.is_some(),
        deletion_cost: cost.and_then(|cost| cost.parse().ok()).unwrap_or_default(),
        most_restarts: restarts().max().unwrap_or_default(),
        restarts: restarts().fold(0, i32::saturating_add),
    }
}

fn phase(phase: Option<&str>) -> PodPhase {
    match phase {
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        Some("Unknown") => PodPhase::Unknown,
        _ => PodPhase::Pending,
    }
}

/// Returns the node that the affinity of a DaemonSet's pod names.
fn meant_for(affinity: Option<&v1::Affinity>) -> Option<&str> {
    let affinity = affinity?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let fields = required.node_selector_terms.iter().flat_map(|t| t.match_fields.iter().flatten());
    let mut named = fields.filter(|field| field.key == "metadata.name" && field.operator == "In");
    match named.next()?.values.as_deref()? {
        [name] => Some(name),
        _ => None,
    }
}
