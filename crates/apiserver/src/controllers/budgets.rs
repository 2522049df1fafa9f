//! The status of PodDisruptionBudgets.
//!
//! The budgets of a namespace are recomputed whenever a budget, a pod or a workload in it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::core::Core;
use crate::rest::internal;
use apimachinery::resource::{Resource, split_key};
use apimachinery::selector::LabelSelector;

const BUDGETS: &str = "poddisruptionbudgets.policy";
/// How long an eviction counts as pending while its pod is not being deleted.
const EVICTION_TIMEOUT: Duration = Duration::from_secs(120);

/// The namespaces whose budgets must be recomputed.
#[derive(Default)]
pub(super) struct Budgets {
    dirty: BTreeSet<String>,
    /// When pending evictions may have timed out.
    recheck_at: Option<Instant>,
}

impl Budgets {
    /// Marks the namespace of an object if the object affects budgets.
    pub(super) fn observe(&mut self, collection: &str, key: &str) {
        let counts = matches!(
            collection,
            "pods"
                | BUDGETS
                | "deployments.apps"
                | "replicasets.apps"
                | "statefulsets.apps"
                | "replicationcontrollers"
        );
        if counts && let (Some(namespace), _) = split_key(key) {
            self.dirty.insert(namespace.to_owned());
        }
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.recheck_at
    }

    /// Recomputes the budgets of the marked namespaces.
    pub(super) async fn reconcile(&mut self, core: &Arc<Core>) {
        if self.recheck_at.is_some_and(|at| at <= Instant::now()) {
            self.recheck_at = None;
            core.store
                .each_of(BUDGETS, |key, _| self.dirty.extend(split_key(key).0.map(str::to_owned)));
        }
        for namespace in std::mem::take(&mut self.dirty) {
            let budgets = list(core, BUDGETS, &namespace, "policy/v1", "PodDisruptionBudget");
            if budgets.is_empty() {
                continue;
            }
            let pods = list(core, "pods", &namespace, "v1", "Pod");
            for budget in budgets {
                let status = status(core, &budget, &pods, &namespace);
                if status["disruptedPods"].as_object().is_some_and(|d| !d.is_empty()) {
                    self.recheck_at = Some(Instant::now() + EVICTION_TIMEOUT);
                }
                store(core, &namespace, &budget, status).await;
            }
        }
    }
}

fn list(
    core: &Core,
    collection: &str,
    namespace: &str,
    api_version: &str,
    kind: &str,
) -> Vec<Value> {
    let page = core.store.list(collection, &format!("{namespace}/"), None, usize::MAX, None);
    let items = page.map(|page| page.items).unwrap_or_default();
    items.into_iter().filter_map(|(_, object)| object.value(api_version, kind).ok()).collect()
}

async fn store(core: &Arc<Core>, namespace: &str, budget: &Value, status: Value) {
    let served = core.registry.served();
    let Some(resource) = served.find("policy", "v1", "poddisruptionbudgets") else { return };
    let name = budget["metadata"]["name"].as_str().unwrap_or_default();
    let version = &budget["metadata"]["resourceVersion"];
    internal::change(core, resource, Some(namespace), name, &["status"], |object| {
        // A budget that has changed meanwhile is marked again by its own change.
        if object["metadata"]["resourceVersion"] == *version {
            object["status"] = status.clone();
        }
    })
    .await;
}

/// Computes the status of a budget.
fn status(core: &Core, budget: &Value, pods: &[Value], namespace: &str) -> Value {
    let selector = LabelSelector::from_object(Some(&budget["spec"]["selector"]));
    let covered: Vec<&Value> = match &selector {
        Ok(selector) => pods.iter().filter(|pod| selector.matches_object(pod)).collect(),
        Err(_) => Vec::new(),
    };
    let now = core.clock.now();
    let disrupted = still_disrupted(budget, &covered, now);
    let (expected, desired) = expected_and_desired(core, budget, &covered, namespace);
    let is_healthy = |pod: &&&Value| {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let conditions = pod["status"]["conditions"].as_array();
        let is_ready =
            conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True");
        is_ready && pod["metadata"]["deletionTimestamp"].is_null() && !disrupted.contains_key(name)
    };
    let healthy = i64::try_from(covered.iter().filter(is_healthy).count()).unwrap_or(i64::MAX);
    let allowed = if expected <= 0 { 0 } else { healthy.saturating_sub(desired).max(0) };
    let mut status = json!({
        "disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired,
        "expectedPods": expected, "observedGeneration": budget["metadata"]["generation"],
    });
    if !disrupted.is_empty() {
        status["disruptedPods"] = disrupted.into();
    }
    status["conditions"] = conditions(budget, allowed, now);
    status
}

fn conditions(budget: &Value, allowed: i64, now: Timestamp) -> Value {
    let (is, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let before = budget["status"]["conditions"].as_array();
    let before = before.into_iter().flatten().find(|c| c["type"] == "DisruptionAllowed");
    let since = before.filter(|c| c["status"] == is).map(|c| c["lastTransitionTime"].clone());
    json!([{
        "type": "DisruptionAllowed", "status": is, "reason": reason, "message": "",
        "observedGeneration": budget["metadata"]["generation"],
        "lastTransitionTime": since.unwrap_or_else(|| crate::rest::meta::time(now)),
    }])
}

/// Returns the pending evictions: those whose pods are not being deleted yet.
fn still_disrupted(budget: &Value, pods: &[&Value], now: Timestamp) -> Map<String, Value> {
    let mut disrupted = Map::new();
    for (name, at) in budget["status"]["disruptedPods"].as_object().into_iter().flatten() {
        let is_there = pods.iter().any(|pod| {
            pod["metadata"]["name"] == name.as_str()
                && pod["metadata"]["deletionTimestamp"].is_null()
        });
        let at_time: Option<Timestamp> = at.as_str().and_then(|at| at.parse().ok());
        let is_recent =
            at_time.is_some_and(|at| now.duration_since(at).unsigned_abs() < EVICTION_TIMEOUT);
        if is_there && is_recent {
            disrupted.insert(name.clone(), at.clone());
        }
    }
    disrupted
}

/// Returns `expectedPods` and `desiredHealthy`.
fn expected_and_desired(
    core: &Core,
    budget: &Value,
    pods: &[&Value],
    namespace: &str,
) -> (i64, i64) {
    let spec = &budget["spec"];
    let there = i64::try_from(pods.len()).unwrap_or(i64::MAX);
    if let Some(most) = spec.get("maxUnavailable").filter(|v| !v.is_null()) {
        let expected = desired_replicas(core, pods, namespace);
        return (expected, expected.saturating_sub(int_or_percent(most, expected)).max(0));
    }
    match spec.get("minAvailable").filter(|v| !v.is_null()) {
        Some(Value::Number(least)) => (there, least.as_i64().unwrap_or(0)),
        Some(least) => {
            let expected = desired_replicas(core, pods, namespace);
            (expected, int_or_percent(least, expected))
        }
        None => (there, 0),
    }
}

/// Resolves a number or a percentage of `total`, rounded up.
fn int_or_percent(value: &Value, total: i64) -> i64 {
    if let Some(number) = value.as_i64() {
        return number;
    }
    let percent = value
        .as_str()
        .and_then(|text| text.strip_suffix('%'))
        .and_then(|text| text.parse::<i64>().ok());
    let product = percent.unwrap_or(0).saturating_mul(total);
    product.saturating_add(99).div_euclid(100)
}

/// Sums up the desired replicas of the pods' controllers.
fn desired_replicas(core: &Core, pods: &[&Value], namespace: &str) -> i64 {
    let mut wanted: BTreeMap<String, i64> = BTreeMap::new();
    for pod in pods {
        let Some((uid, replicas)) = controller(core, pod, namespace) else { continue };
        wanted.insert(uid, replicas);
    }
    wanted.values().fold(0, |sum, replicas| sum.saturating_add(*replicas))
}

/// Returns the uid and replicas of the workload that scales a pod: a ReplicaSet's Deployment, if it has one. Owners are
/// followed no further, since a ReplicaSet may name itself as its owner.
fn controller(core: &Core, pod: &Value, namespace: &str) -> Option<(String, i64)> {
    let (resource, found) = owner(core, pod, namespace)?;
    let above = if resource.kind == "ReplicaSet" { owner(core, &found, namespace) } else { None };
    let replicas = |found: &Value| {
        let uid = found["metadata"]["uid"].as_str()?.to_owned();
        Some((uid, found["spec"]["replicas"].as_i64()?))
    };
    above.and_then(|(_, above)| replicas(&above)).or_else(|| replicas(&found))
}

/// Returns the object that controls another.
fn owner(core: &Core, object: &Value, namespace: &str) -> Option<(Arc<Resource>, Value)> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    let served = core.registry.served();
    let resource = served.find_kind(owner["apiVersion"].as_str()?, owner["kind"].as_str()?)?;
    let found = core
        .store
        .get(&resource.storage, &resource.key(Some(namespace), owner["name"].as_str()?))?;
    let found = found.value(&resource.api_version(), &resource.kind).ok()?;
    (found["metadata"]["uid"] == owner["uid"]).then(|| (Arc::clone(resource), found))
}
