//! Binds and evicts pods, and computes their grace periods.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::create::{self, Owners, Written};
use super::delete::{self, Options, Outcome};
use super::write::NotStored;
use super::{Call, Reply, decode, form, meta, update};
use crate::status::{ApiResult, Status};
use crate::store::{Body, Parts, Write};
use apimachinery::selector::LabelSelector;

/// Returns the grace period of a pod in seconds: that of the request, or its own. A pod that runs nowhere needs none.
pub(super) fn grace(pod: &Value, requested: Option<i64>) -> i64 {
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64();
    let grace = requested.or(own).unwrap_or(0);
    let runs = pod["spec"]["nodeName"].as_str().is_some_and(|n| !n.is_empty());
    let is_over = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
    match grace {
        _ if !runs || is_over => 0,
        negative if negative < 0 => 1,
        grace => grace,
    }
}

fn success(call: &Call) -> Reply {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    form::Form { view: form::View::Whole, ..call.form }.reply(201, &status)
}

/// Binds a pod to a node.
pub(super) async fn bind(call: &Call) -> ApiResult<Reply> {
    let binding = form::decode(&call.headers, &call.body)?;
    bind_to(call, call.name(), &binding).await?;
    Ok(success(call))
}

/// Carries out a `Binding`.
pub(super) async fn bind_to(call: &Call, name: &str, binding: &Value) -> ApiResult<()> {
    let (kind, node) = (&binding["target"]["kind"], binding["target"]["name"].as_str());
    let node = node.unwrap_or_default();
    let mut wrong = Vec::new();
    if kind.as_str().is_some_and(|k| !k.is_empty() && k != "Node") {
        wrong.push((
            "target.kind",
            format!("Unsupported value: {kind}: supported values: \"Node\", \"<empty>\""),
        ));
    }
    if node.is_empty() {
        wrong.push(("target.name", "Required value".to_owned()));
    }
    if let Some((field, why)) = wrong.first() {
        return Err(Status::new(500, "", format!("{field}: {why}")));
    }
    let wanted = meta::text(binding, "uid").to_owned();
    let now = meta::time(call.core.clock.now());
    let pod_call = on_pod(call, name)?;
    let parts = update::parts(&pod_call, Cow::Owned(Parts::whole(&["spec", "status"])));
    update::change(&pod_call, false, Owners::Recorded, parts, |old| {
        let mut pod = old.cloned().unwrap_or_default();
        let conflict = |why: &str| {
            let message = format!("Operation cannot be fulfilled on pods/binding \"{name}\": {why}");
            let mut status = Status::new(409, "Conflict", message);
            status.details = Some(crate::status::details(name, "", "pods/binding"));
            status
        };
        if !wanted.is_empty() && wanted != meta::text(&pod, "uid") {
            let found = meta::text(&pod, "uid");
            let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}");
            return Err(conflict(&why));
        }
        if meta::is_deleting(&pod) {
            return Err(conflict(&format!("pod {name} is being deleted, cannot be assigned to a host")));
        }
        if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
            return Err(conflict(&format!("pod {name} has non-empty .spec.schedulingGates")));
        }
        match pod["spec"]["nodeName"].as_str() {
            None | Some("") => {}
            Some(there) => {
                return Err(conflict(&format!("pod {name} is already assigned to node \"{there}\"")));
            }
        }
        pod["spec"]["nodeName"] = node.into();
        for (key, value) in binding["metadata"]["annotations"].as_object().into_iter().flatten() {
            if let Some(value) = value.as_str() {
                pod["metadata"]["annotations"][key] = value.into();
            }
        }
        let scheduled = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
        set_condition(&mut pod, scheduled);
        Ok(pod)
    })
    .await?;
    Ok(())
}

/// Handles the subresources of pods that change otherwise immutable fields.
fn on_pod(call: &Call, name: &str) -> ApiResult<Call> {
    let served = call.core.registry.served();
    let pods = served.find("", "v1", "pods").ok_or_else(Status::no_such_resource)?;
    let query = call.query.clone();
    Ok(Call { query, ..Call::internal(&call.core, pods, call.namespace.as_deref(), Some(name)) })
}

/// Sets a condition of the status, in place of one of the same type.
pub(crate) fn set_condition(object: &mut Value, condition: Value) {
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = object["status"]["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|c| c["type"] == condition["type"]) {
        Some(found) => *found = condition,
        None => conditions.push(condition),
    }
}

/// Deletes a pod, unless a disruption budget forbids it.
pub(super) async fn evict(call: &Call) -> ApiResult<Reply> {
    let eviction = form::decode(&call.headers, &call.body)?;
    if !matches!(meta::text(&eviction, "name"), name if name == call.name()) {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut options = Options::from_body(&eviction["deleteOptions"]);
    options.dry_run |= call.query.is_dry_run();
    let pod = call.found()?;
    if !ignores_budgets(&pod) {
        use_budget(call, &pod, options.dry_run).await?;
    }
    if !options.dry_run {
        mark_disrupted(call).await?;
    }
    match delete::delete(call, call.name(), &options).await? {
        Outcome::Gone(_) | Outcome::Going(_) => Ok(success(call)),
    }
}

/// Returns whether evicting a pod is no disruption: it has ended, never ran, or is being deleted.
fn ignores_budgets(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Pending"))
        || meta::is_deleting(pod)
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// Finds the budget that covers a pod and takes one disruption from it.
async fn use_budget(call: &Call, pod: &Value, dry_run: bool) -> ApiResult<()> {
    let served = call.core.registry.served();
    let budgets =
        served.find("policy", "v1", "poddisruptionbudgets").ok_or_else(Status::no_such_resource)?;
    let prefix = format!("{}/", meta::text(pod, "namespace"));
    loop {
        let page = call.core.store.list(&budgets.storage, &prefix, None, usize::MAX, None);
        let items = page.map(|p| p.items).unwrap_or_default();
        let mut covering = items.into_iter().filter_map(|(key, object)| {
            let budget = object.value("policy/v1", "PodDisruptionBudget").ok()?;
            let selector = LabelSelector::from_object(Some(&budget["spec"]["selector"])).ok()?;
            selector.matches_object(pod).then_some((key, object, budget))
        });
        let Some((key, stored, mut budget)) = covering.next() else { return Ok(()) };
        if covering.next().is_some() {
            let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(Status::new(500, "", message));
        }
        let number = |budget: &Value, field: &str| budget["status"][field].as_i64().unwrap_or(0);
        if !is_ready(pod) {
            let healthy = number(&budget, "currentHealthy") >= number(&budget, "desiredHealthy")
                && number(&budget, "desiredHealthy") > 0;
            if budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" || healthy {
                return Ok(());
            }
        }
        check_budget(&budget)?;
        if dry_run {
            return Ok(());
        }
        budget["status"]["disruptionsAllowed"] = (number(&budget, "disruptionsAllowed") - 1).into();
        let now = meta::time(call.core.clock.now());
        budget["status"]["disruptedPods"][meta::text(pod, "name")] = now;
        let write = Write {
            collection: budgets.storage.clone(),
            key,
            expected: Some(stored.version()),
            body: Some(Body::new(&budget)),
        };
        match call.write(budgets, meta::text(&budget, "name"), Some(&stored), write).await {
            Ok(_) => return Ok(()),
            Err(NotStored::Conflict) => {}
            Err(NotStored::Refused(status)) => return Err(status),
        }
    }
}

/// Refuses an eviction if the budget is not up to date, or used up.
fn check_budget(budget: &Value) -> ApiResult<()> {
    let name = meta::text(budget, "name");
    let status = &budget["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    let refused = |why: String, retry: Option<u32>| {
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        let status = Status::new(429, "TooManyRequests", message);
        let status = status.cause(json!({"reason": "DisruptionBudget", "message": why}));
        Err(match retry {
            Some(seconds) => status.retry_after(seconds),
            None => status,
        })
    };
    if number("observedGeneration") < budget["metadata"]["generation"].as_i64().unwrap_or(0) {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return refused(why, Some(10));
    }
    if number("disruptionsAllowed") <= 0 {
        let why = format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            number("desiredHealthy"),
            number("currentHealthy")
        );
        return refused(why, None);
    }
    Ok(())
}

/// Sets the condition of the pod that states why it is deleted.
async fn mark_disrupted(call: &Call) -> ApiResult<()> {
    let now = meta::time(call.core.clock.now());
    let pod = on_pod(call, call.name())?;
    let marked = update::change(&pod, false, Owners::Recorded, Parts::All, |old| {
        let mut pod = old.cloned().unwrap_or_default();
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": now,
        });
        set_condition(&mut pod, condition);
        Ok(pod)
    });
    match marked.await?.written {
        Written::Stored(_) | Written::WouldBe(_) => Ok(()),
    }
}

/// Carries out a `Binding` that was posted to the collection of bindings.
pub(super) async fn create_binding(call: &Call) -> ApiResult<Reply> {
    let mut binding = decode::object(call)?;
    create::match_namespace(call, &mut binding)?;
    let name = meta::text(&binding, "name").to_owned();
    bind_to(call, &name, &binding).await?;
    Ok(success(call))
}
