//! CapacityBuffers: room that nodes keep free. The pods that a buffer asks room for are virtual: nodes are added for them and kept for
//! them, as for pods that wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::quantity::Quantity;
use cluster::error::{api_message, status_code};
use cluster::{
    CachedObject, CapacityBuffer, CapacityBufferStatus, Key, LocalRef, NodeCaches, ScalableRef,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::NodeController;
use super::observe::Observation;
use super::plan::Plan;
use super::record::{condition, difference};
use super::virtual_pods::virtual_pods;

/// The strategy of buffers whose room nodes keep free. Others belong to other controllers.
const ACTIVE_CAPACITY: &str = "buffer.x-k8s.io/active-capacity";
/// The most pods of one buffer.
const MAX_PODS: i64 = 1000;

/// What a buffer asks room for.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    pub(super) pods: Vec<Pod>,
    /// The PodTemplate, if it refers to one, and its generation.
    template: Option<(String, Option<i64>)>,
}

/// The buffers, each with what it asks room for, or why that is not known.
pub(super) type Buffers = Vec<(Arc<CachedObject<CapacityBuffer>>, Result<Demand, String>)>;

/// Reads what all buffers ask room for.
pub(super) fn read(caches: &NodeCaches) -> Buffers {
    let is_ours = |buffer: &Arc<CachedObject<CapacityBuffer>>| {
        let strategy = buffer.spec.provisioning_strategy.as_deref();
        strategy.is_none_or(|strategy| strategy.is_empty() || strategy == ACTIVE_CAPACITY)
            && buffer.metadata.deletion_timestamp.is_none()
    };
    let mut all: Buffers = Vec::new();
    for buffer in caches.buffers.all().into_iter().filter(is_ours) {
        let demand = demand(&buffer.0, caches);
        all.push((buffer, demand));
    }
    all.sort_by_key(|(buffer, _)| Key::from_meta(&buffer.metadata));
    all
}

fn demand(buffer: &CapacityBuffer, caches: &NodeCaches) -> Result<Demand, String> {
    let (namespace, name) = (buffer.namespace().unwrap_or_default(), buffer.name_any());
    let spec = &buffer.spec;
    let (template, replicas, reference) = match (&spec.pod_template_ref, &spec.scalable_ref) {
        (Some(LocalRef { name }), None) => {
            let found = caches.pod_templates.get(&Key::new(&*namespace, &**name));
            let found = found.ok_or_else(|| format!("there is no PodTemplate {name}"))?;
            let template = found.template.clone().unwrap_or_default();
            (template, None, Some((name.clone(), found.metadata.generation)))
        }
        (None, Some(scalable)) => {
            let (template, replicas) = scaled(&namespace, scalable, caches)?;
            (template, Some(replicas), None)
        }
        (Some(_), Some(_)) => {
            return Err("only one of podTemplateRef and scalableRef may be given".to_owned());
        }
        (None, None) => {
            return Err("one of podTemplateRef and scalableRef must be given".to_owned());
        }
    };
    let count = count(buffer, &template, replicas)?;
    let stands_for = format!("CapacityBuffer {namespace}/{name}");
    let template = json!({"metadata": template.metadata, "spec": template.spec});
    let name = format!("buffer-{name}");
    let pods = virtual_pods((&namespace, &name), &stands_for, template, count);
    Ok(Demand { pods, template: reference })
}

/// Returns the template and the number of pods of a controller.
fn scaled(
    namespace: &str,
    scalable: &ScalableRef,
    caches: &NodeCaches,
) -> Result<(PodTemplateSpec, i32), String> {
    let ScalableRef { kind, name, .. } = scalable;
    let key = Key::new(namespace, &**name);
    let found = match &**kind {
        "Deployment" => caches.deployments.get(&key).and_then(|found| {
            let spec = found.spec.as_ref()?;
            Some((spec.template.clone(), spec.replicas))
        }),
        "ReplicaSet" => caches.replica_sets.get(&key).and_then(|found| {
            let spec = found.spec.as_ref()?;
            Some((spec.template.clone()?, spec.replicas))
        }),
        "StatefulSet" => caches.stateful_sets.get(&key).and_then(|found| {
            let spec = found.spec.as_ref()?;
            Some((spec.template.clone(), spec.replicas))
        }),
        "ReplicationController" => caches.replication_controllers.get(&key).and_then(|found| {
            let spec = found.spec.as_ref()?;
            Some((spec.template.clone()?, spec.replicas))
        }),
        "Job" => caches.jobs.get(&key).and_then(|found| {
            let spec = found.spec.as_ref()?;
            Some((spec.template.clone(), spec.parallelism))
        }),
        _ => {
            return Err(format!(
                "scalableRef: {kind} is not one of Deployment, ReplicaSet, StatefulSet, ReplicationController and Job"
            ));
        }
    };
    let (template, replicas) = found.ok_or_else(|| format!("there is no {kind} {name}"))?;
    // The API server fills in 1.
    Ok((template, replicas.unwrap_or(1)))
}

/// Returns for how many pods there is to be room: the larger of the number and the percentage, and at most what the limits allow.
fn count(
    buffer: &CapacityBuffer,
    template: &PodTemplateSpec,
    replicas: Option<i32>,
) -> Result<usize, String> {
    let spec = &buffer.spec;
    let share = match (spec.percentage, replicas) {
        (Some(percent), Some(replicas)) => {
            let product = i64::from(percent.max(0)) * i64::from(replicas.max(0));
            Some((product + 99) / 100)
        }
        (Some(_), None) => return Err("percentage needs a scalableRef".to_owned()),
        (None, _) => None,
    };
    let wanted = spec.replicas.map(|count| i64::from(count.max(0))).max(share);
    let allowed = allowed(spec.limits.as_ref(), template)?;
    let count = match (wanted, allowed) {
        (Some(wanted), Some(allowed)) => wanted.min(allowed),
        (Some(count), None) | (None, Some(count)) => count,
        (None, None) => {
            return Err("one of replicas, percentage and limits must be given".to_owned());
        }
    };
    Ok(usize::try_from(count.min(MAX_PODS)).unwrap_or(0))
}

/// Returns how many pods of a template the limits allow; `None`: the pods request none of what is limited.
fn allowed(
    limits: Option<&BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>,
    template: &PodTemplateSpec,
) -> Result<Option<i64>, String> {
    let pod = Pod { spec: template.spec.clone(), ..Pod::default() };
    let requests = api::nodes::pod(&pod, &api::nodes::Volumes::default()).spec.requests.clone();
    let mut least = None;
    for (name, limit) in limits.into_iter().flatten() {
        let request = requests.get(name);
        if request <= 0 {
            continue;
        }
        let quantity = Quantity::parse_with_hint(&limit.0);
        let quantity = quantity.map_err(|problem| format!("limits.{name}: {problem}"))?;
        let limit = if name == "cpu" { quantity.milli_value() } else { quantity.value() };
        let fitting = (limit / request).max(0);
        least = Some(least.map_or(fitting, |least: i64| least.min(fitting)));
    }
    Ok(least)
}

impl NodeController {
    /// Reads the buffers, and adds the pods that they ask room for.
    pub(super) fn read_buffers(&mut self) -> Buffers {
        let buffers = read(&self.cx.caches.node_scaling);
        let pods = buffers.iter().filter_map(|(_, demand)| demand.as_ref().ok());
        let pods = pods.flat_map(|demand| &demand.pods).cloned();
        let pods = pods.map(|pod| Arc::new(CachedObject(pod))).collect();
        Arc::make_mut(&mut self.additions).virtual_pods = pods;
        buffers
    }

    /// Writes what is known about the buffers to their status. A cluster may not allow that.
    pub(super) async fn write_buffers(
        &self,
        buffers: &Buffers,
        observed: &Observation,
        plan: &Plan,
    ) {
        if buffers.is_empty() {
            return;
        }
        let now = self.cx.clock.now();
        let added = plan.added.resizes.iter().flat_map(|resize| resize.nodes.iter().flatten());
        let refused = plan.added.unschedulable.iter().map(|waiting| &waiting.pod);
        let name = |pod: &usize| observed.cluster.pods[*pod].full_name();
        let waiting: BTreeSet<String> = added.chain(refused).map(name).collect();
        let waiting = &waiting;
        for (buffer, demand) in buffers {
            let old = buffer.status.clone().unwrap_or_default();
            let new = status(&old, demand, waiting, now);
            let change = difference(&json!(old), &json!(new));
            if change.is_empty() {
                continue;
            }
            let (namespace, name) = (buffer.namespace().unwrap_or_default(), buffer.name_any());
            let api: Api<CapacityBuffer> = Api::namespaced(self.cx.client.clone(), &namespace);
            let patch = Patch::Merge(json!({"status": change}));
            match api.patch_status(&name, &PatchParams::default(), &patch).await {
                Ok(written) => self.cx.caches.node_scaling.buffers.insert(written),
                Err(error) if status_code(&error) == Some(404) => {}
                Err(error) => {
                    let error = api_message(&error);
                    tracing::debug!(namespace, name, error, "could not write a buffer's status");
                }
            }
        }
    }
}

/// Returns the status of a buffer. `waiting`: the pods that have no place yet.
fn status(
    old: &CapacityBufferStatus,
    demand: &Result<Demand, String>,
    waiting: &BTreeSet<String>,
    now: Timestamp,
) -> CapacityBufferStatus {
    let condition = |kind: &str, is_true, reason: &str, message: &str| {
        condition(&old.conditions, kind, is_true, (reason, message), now)
    };
    let is_ours = |kind: &str| matches!(kind, "ReadyForProvisioning" | "Provisioning");
    let mut conditions = match demand {
        Ok(demand) => {
            let name =
                |pod: &Pod| format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
            let missing = demand.pods.iter().filter(|pod| waiting.contains(&name(pod))).count();
            let text = format!("{missing} of {} pods have no place yet", demand.pods.len());
            vec![
                condition("ReadyForProvisioning", true, "Ready", ""),
                match missing {
                    0 => condition("Provisioning", false, "Provisioned", ""),
                    _ => condition("Provisioning", true, "WaitingForNodes", &text),
                },
            ]
        }
        Err(problem) => vec![
            condition("ReadyForProvisioning", false, "Invalid", problem),
            condition("Provisioning", false, "NotReady", ""),
        ],
    };
    let others = old.conditions.iter().filter(|condition| !is_ours(&condition.type_));
    conditions.extend(others.cloned());
    let template = demand.as_ref().ok().and_then(|demand| demand.template.clone());
    let replicas = demand.as_ref().ok().map(|demand| demand.pods.len());
    CapacityBufferStatus {
        pod_template_ref: template.as_ref().map(|(name, _)| LocalRef { name: name.clone() }),
        pod_template_generation: template.and_then(|(_, generation)| generation),
        replicas: replicas.and_then(|count| i32::try_from(count).ok()),
        conditions,
        provisioning_strategy: Some(ACTIVE_CAPACITY.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn caches() -> NodeCaches {
        let caches = NodeCaches::default();
        let template = json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{
                "name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
            }]},
        });
        let meta = json!({"name": "web", "namespace": "n", "uid": "u", "resourceVersion": "1"});
        let deployment = json!({
            "metadata": meta,
            "spec": {"replicas": 5, "selector": {}, "template": template},
        });
        caches.deployments.insert(serde_json::from_value(deployment).unwrap());
        let pod_template = json!({"metadata": meta, "template": template});
        caches.pod_templates.insert(serde_json::from_value(pod_template).unwrap());
        caches
    }

    fn read_demand(spec: Value) -> Result<Demand, String> {
        let buffer = json!({"metadata": {"name": "b", "namespace": "n"}, "spec": spec});
        demand(&serde_json::from_value(buffer).unwrap(), &caches())
    }

    #[test]
    fn a_buffer_asks_for_the_larger_of_number_and_percentage_within_its_limits() {
        let by_name = json!({"name": "web"});
        let of_deployment = json!({"kind": "Deployment", "name": "web"});
        for (spec, pods) in [
            (json!({"podTemplateRef": by_name, "replicas": 3}), 3),
            (json!({"podTemplateRef": by_name, "limits": {"cpu": "2"}}), 4),
            (json!({"podTemplateRef": by_name, "replicas": 3, "limits": {"memory": "2.5Gi"}}), 2),
            (json!({"scalableRef": of_deployment, "percentage": 21}), 2),
            (json!({"scalableRef": of_deployment, "percentage": 20, "replicas": 3}), 3),
            (json!({"scalableRef": of_deployment, "percentage": 0}), 0),
            (json!({"podTemplateRef": by_name, "replicas": 2, "limits": {"nvidia.com/gpu": 1}}), 2),
        ] {
            assert_eq!(read_demand(spec.clone()).unwrap().pods.len(), pods, "{spec}");
        }
    }

    #[test]
    fn a_buffer_that_cannot_be_read_says_why() {
        let by_name = json!({"name": "web"});
        for (spec, wanted) in [
            (json!({}), "one of podTemplateRef and scalableRef must be given"),
            (
                json!({"podTemplateRef": by_name}),
                "one of replicas, percentage and limits must be given",
            ),
            (json!({"podTemplateRef": by_name, "percentage": 5}), "percentage needs a scalableRef"),
            (json!({"podTemplateRef": {"name": "x"}, "replicas": 1}), "there is no PodTemplate x"),
            (
                json!({"scalableRef": {"kind": "Fleet", "name": "x"}, "replicas": 1}),
                "scalableRef: Fleet is not one of Deployment, ReplicaSet, StatefulSet, ReplicationController and Job",
            ),
        ] {
            let found = read_demand(spec.clone()).unwrap_err();
            assert_eq!(found, wanted, "{spec}");
        }
    }

    #[test]
    fn the_conditions_tell_whether_all_pods_have_a_place() {
        let now = Timestamp::UNIX_EPOCH;
        let demand = read_demand(json!({"podTemplateRef": {"name": "web"}, "replicas": 2}));
        for (waiting, reason) in
            [("n/buffer-b-demand-1", "WaitingForNodes"), ("n/other", "Provisioned")]
        {
            let waiting = BTreeSet::from([waiting.to_owned()]);
            let found = status(&CapacityBufferStatus::default(), &demand, &waiting, now);
            let reasons: Vec<&str> = found.conditions.iter().map(|c| c.reason.as_str()).collect();
            assert_eq!(reasons, ["Ready", reason]);
            assert_eq!(
                (found.replicas, found.pod_template_ref.unwrap().name),
                (Some(2), "web".to_owned())
            );
        }
    }
}
