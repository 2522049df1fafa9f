//! Records changes of nodes: events with the reasons of Cluster Autoscaler, the status of NodeAutoscaler and NodeGroups, and
//! the log.

use std::collections::{BTreeMap, BTreeSet};

use api::plimsoll::{NodeAutoscaler, NodeGroup, Span};
use cluster::error::api_message;
use cluster::{EventType, Key};
use decide::Reason as _;
use decide::nodes::{Group, Refusal, Unschedulable};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Map, Value, json};

use super::NodeController;
use super::calls::Increase;
use super::inputs::last_changes;
use super::memory::GroupMemory;
use super::observe::Observation;
use super::plan::Plan;
use super::rival::LEASE;
use super::scale_up::{GrownGroup, ScaleUpResult};

/// The component that events name.
pub(super) const SOURCE: &str = "cluster-autoscaler";
/// The condition that shows whether the autoscaler is active.
const ACTIVE: &str = "Active";
/// The most pods that get an event in one evaluation.
const MAX_POD_EVENTS: usize = 100;

/// An event to record.
pub(super) struct Note {
    kind: EventType,
    reason: &'static str,
    text: String,
}

impl Note {
    pub(super) fn normal(reason: &'static str, text: String) -> Self {
        Self { kind: EventType::Normal, reason, text }
    }

    pub(super) fn warning(reason: &'static str, text: String) -> Self {
        Self { kind: EventType::Warning, reason, text }
    }
}

impl NodeController {
    /// Records an event about a group, and logs a warning. Where groups are values, the event is about the status ConfigMap, as with
    /// Cluster Autoscaler.
    pub(super) fn about_group(&self, name: &str, note: Note) {
        if note.kind == EventType::Warning {
            tracing::warn!(group = name, reason = note.reason, "{}", note.text);
        }
        if self.values().is_some() {
            self.about_cluster(note);
        } else if let Some(group) = self.additions.group(name) {
            let Note { kind, reason, text } = note;
            self.cx.events.record(&group.0, SOURCE, kind, reason, text);
        }
    }

    /// Records an event about the cluster, which is one about the status ConfigMap.
    pub(super) fn about_cluster(&self, note: Note) {
        let Note { kind, reason, text } = note;
        let map = self.status_map.object(&self.cx.settings);
        self.cx.events.record(&map, SOURCE, kind, reason, text);
    }

    /// Records an event when the cluster becomes unhealthy, and when pods wait though the cluster has all the nodes it may have.
    pub(super) fn record_cluster_events(&mut self, observed: &Observation, plan: &Plan) {
        let is_unhealthy = !plan.is_healthy;
        if is_unhealthy && !self.memory.was_unhealthy {
            let text = "Cluster is unhealthy".to_owned();
            self.about_cluster(Note::warning("ClusterUnhealthy", text));
        }
        self.memory.was_unhealthy = is_unhealthy;
        let most = observed.settings.limits.nodes as usize;
        let is_full = most > 0
            && observed.cluster.nodes.len() >= most
            && !plan.added.unschedulable.is_empty();
        if is_full && !self.memory.was_full {
            let text = format!("Max total nodes in cluster reached: {most}");
            self.about_cluster(Note::warning("MaxNodesTotalReached", text));
        }
        self.memory.was_full = is_full;
    }

    /// Records for each pod which groups grew for it, or why none did.
    pub(super) fn record_pod_events(&mut self, growth: &ScaleUpResult, observed: &Observation) {
        let mut helped: BTreeMap<&Key, Vec<String>> = BTreeMap::new();
        for GrownGroup { group, increase } in &growth.grown {
            let Increase { from, to, max, pods } = increase;
            for pod in pods {
                let line = format!("{{{group} {from}->{to} (max: {max})}}");
                helped.entry(pod).or_default().push(line);
            }
        }
        for (pod, groups) in helped.iter().take(MAX_POD_EVENTS) {
            let text = format!("pod triggered scale-up: [{}]", groups.join(" "));
            self.about_pod(pod, "TriggeredScaleUp", text);
        }
        let pods = &observed.cluster.pods;
        let present: BTreeSet<String> =
            growth.unschedulable.iter().map(|waiting| pods[waiting.pod].full_name()).collect();
        self.memory.pod_events.retain(|pod, _| present.contains(pod));
        for waiting in growth.unschedulable.iter().take(MAX_POD_EVENTS) {
            let text = format!("pod didn't trigger scale-up: {}", why(waiting));
            let pod = &pods[waiting.pod];
            let key = Key::new(&*pod.spec.namespace, &*pod.name);
            if !helped.contains_key(&key) && self.memory.is_new_event(&pod.full_name(), &text) {
                self.about_pod(&key, "NotTriggerScaleUp", text);
            }
        }
    }

    fn about_pod(&self, key: &Key, reason: &str, text: String) {
        if let Some(pod) = self.cx.caches.node_scaling.pods.get(key) {
            self.cx.events.record(&pod.0, SOURCE, EventType::Normal, reason, text);
        }
    }

    /// Records that a Cluster Autoscaler is active, so that nothing is changed. The first evaluation after it ends takes over its work.
    pub(super) async fn hold(&mut self, autoscaler: &NodeAutoscaler, holder: &str) {
        self.is_first = true;
        self.memory.groups.values_mut().for_each(|group| group.is_adopted = false);
        let namespace = &self.cx.settings.cluster_autoscaler_namespace;
        let text = format!(
            "Cluster Autoscaler is active: {holder} holds the Lease {namespace}/{LEASE}; no node is added or removed"
        );
        if self.memory.rival.as_deref() != Some(holder) {
            self.memory.rival = Some(holder.to_owned());
            self.refuse(autoscaler, "ClusterAutoscalerActive", &text);
        }
        self.write_inactive(autoscaler, "ClusterAutoscalerActive", &text).await;
    }

    /// Records that the autoscaler cannot be read.
    pub(super) async fn invalid(&mut self, autoscaler: &NodeAutoscaler, problem: &str) {
        self.cx.settings.node_metrics.count_error("configurationError");
        if self.memory.invalid.as_deref() != Some(problem) {
            self.memory.invalid = Some(problem.to_owned());
            self.refuse(autoscaler, "InvalidSpec", problem);
        }
        self.write_inactive(autoscaler, "InvalidSpec", problem).await;
    }

    /// Logs why nothing is done, and records an event.
    fn refuse(&self, autoscaler: &NodeAutoscaler, reason: &str, text: &str) {
        let name = autoscaler.metadata.name.as_deref().unwrap_or_default();
        tracing::warn!(autoscaler = name, reason, "{text}");
        if self.values().is_none() {
            self.cx.events.record(autoscaler, SOURCE, EventType::Warning, reason, text.to_owned());
        }
    }

    /// Writes the condition `Active`; the rest of the status stays.
    async fn write_inactive(&self, autoscaler: &NodeAutoscaler, reason: &str, text: &str) {
        if self.values().is_some() {
            return;
        }
        let old = autoscaler.status.clone().unwrap_or_default();
        let mut new = old.clone();
        let active = condition(&old.conditions, ACTIVE, false, (reason, text), self.cx.clock.now());
        new.conditions.retain(|condition| condition.type_ != ACTIVE);
        new.conditions.insert(0, active);
        self.write_autoscaler(autoscaler, &json!(old), &json!(new)).await;
    }

    async fn write_autoscaler(&self, autoscaler: &NodeAutoscaler, old: &Value, new: &Value) {
        let name = autoscaler.metadata.name.as_deref().unwrap_or_default();
        let api: Api<NodeAutoscaler> = Api::all(self.cx.client.clone());
        self.patch(&api, name, old, new).await;
    }

    /// Writes the status of the autoscaler and of its groups where it differs. Values have none.
    pub(super) async fn write_status(
        &self,
        autoscaler: &NodeAutoscaler,
        observed: &Observation,
        plan: &Plan,
    ) {
        if self.values().is_some() {
            return;
        }
        let now = self.cx.clock.now();
        let old = autoscaler.status.clone().unwrap_or_default();
        let mut new = old.clone();
        if let Some(status) = &self.memory.status {
            let since = status.unneeded_since.iter();
            new.unneeded_since = since.map(|(node, at)| (node.to_string(), Time(*at))).collect();
            new.last_scale_up_at = status.last_scale_up_at.map(Time);
            new.last_delete_at = status.last_delete_at.map(Time);
            new.last_delete_failure_at = status.last_delete_failure_at.map(Time);
            new.groups = match autoscaler.spec.scale_down.delays_per_group {
                true => last_changes(&status.groups, Time),
                false => BTreeMap::new(),
            };
        }
        new.removing = self.removing.iter().map(ToString::to_string).collect();
        new.conditions = self.conditions(&old.conditions, plan, now);
        self.write_autoscaler(autoscaler, &json!(old), &json!(new)).await;
        for (group, state) in observed.cluster.groups.iter().zip(&plan.groups) {
            let Some(object) = self.cx.caches.node_scaling.groups.get(&Key::new("", &*group.name))
            else {
                continue;
            };
            let Some(memory) = self.memory.groups.get(&*group.name) else { continue };
            let is_healthy = state.refusal != Some(Refusal::Unhealthy);
            self.write_group(&object.0, group, memory, is_healthy, now).await;
        }
    }

    async fn write_group(
        &self,
        object: &NodeGroup,
        group: &Group,
        memory: &GroupMemory,
        is_healthy: bool,
        now: Timestamp,
    ) {
        let old = object.status.clone().unwrap_or_default();
        let backoff = memory.backoff.as_ref().filter(|backoff| backoff.until >= now);
        let cause = backoff.map_or("", |backoff| backoff.cause.as_str());
        let problem = memory.problem.as_deref();
        let missing = "too many of its nodes are missing or not ready";
        let healthy = if is_healthy { ("Healthy", "") } else { ("Unhealthy", missing) };
        let of = |kind: &str, status: bool, reason: &str, message: &str| {
            condition(&old.conditions, kind, status, (reason, message), now)
        };
        let conditions = vec![
            of("Healthy", is_healthy, healthy.0, healthy.1),
            of(
                "BackedOff",
                backoff.is_some(),
                if backoff.is_some() { "Failed" } else { "None" },
                cause,
            ),
            match problem {
                None => of("ProviderAvailable", true, "Answered", ""),
                Some(problem) => of("ProviderAvailable", false, "Unavailable", problem),
            },
        ];
        let scale_up = memory.scale_up.map(|under_way| api::plimsoll::node_group::ScaleUp {
            at: Time(under_way.at),
            increase: i32::try_from(under_way.increase).unwrap_or(i32::MAX),
        });
        let mut new = old.clone();
        (new.scale_up, new.conditions) = (scale_up, conditions);
        new.rolling_out = group.is_rolling_out;
        new.backoff_until = backoff.map(|backoff| Time(backoff.until));
        new.provision_time = memory.provision_time.map(Span);
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let api: Api<NodeGroup> = Api::all(self.cx.client.clone());
        self.patch(&api, name, &json!(old), &json!(new)).await;
    }

    fn conditions(&self, old: &[Condition], plan: &Plan, now: Timestamp) -> Vec<Condition> {
        let waiting = plan.added.unschedulable.len();
        let text = match waiting {
            0 => String::new(),
            1 => "1 pod fits on no group".to_owned(),
            n => format!("{n} pods fit on no group"),
        };
        let reason = if waiting == 0 { "NoneWaiting" } else { "NoGroupFits" };
        let health = match plan.is_healthy {
            true => ("Healthy", ""),
            false => ("ClusterUnhealthy", "too many nodes are not ready; scaling is paused"),
        };
        let failure = self.last_failure.as_deref();
        let removal = failure.map_or(("NoFailure", ""), |failure| ("RemovalFailed", failure));
        vec![
            condition(old, ACTIVE, true, ("Active", ""), now),
            condition(old, "Healthy", plan.is_healthy, health, now),
            condition(old, "PodsServed", waiting == 0, (reason, &text), now),
            condition(old, "ScaleDownSucceeding", failure.is_none(), removal, now),
        ]
    }

    /// Writes the fields of a status that differ.
    async fn patch<K>(&self, api: &Api<K>, name: &str, old: &Value, new: &Value)
    where
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let change = difference(old, new);
        if change.is_empty() {
            return;
        }
        let patch = Patch::Merge(json!({"status": change}));
        if let Err(error) = api.patch_status(name, &PatchParams::default(), &patch).await {
            let error = api_message(&error);
            self.cx.settings.node_metrics.count_error("apiCallError");
            tracing::warn!(name, error, "could not write a status; will retry");
        }
    }
}

/// Returns the reasons of all groups, as `<count> <reason>`.
fn why(waiting: &Unschedulable) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for why in &*waiting.why {
        *counts.entry(words(&why.refusal)).or_default() += 1;
    }
    if counts.is_empty() {
        return "there are no node groups".to_owned();
    }
    let all: Vec<String> = counts.iter().map(|(words, count)| format!("{count} {words}")).collect();
    all.join(", ")
}

/// Returns the words of Cluster Autoscaler where it has some, and otherwise the reason and its explanation.
fn words(refusal: &Refusal) -> String {
    if let Refusal::AtMaxSize(_) = refusal {
        return "max node group size reached".to_owned();
    }
    if matches!(refusal, Refusal::BackedOff) {
        return "in backoff after failed scale-up".to_owned();
    }
    if matches!(refusal, Refusal::Unhealthy | Refusal::NoTemplate) {
        return "not ready for scale-up".to_owned();
    }
    format!("{}: {refusal}", refusal.code())
}

/// Returns a condition, with the time of its last change.
pub(super) fn condition(
    old: &[Condition],
    kind: &str,
    is_true: bool,
    (reason, message): (&str, &str),
    now: Timestamp,
) -> Condition {
    let status = if is_true { "True" } else { "False" };
    let before = old.iter().find(|condition| condition.type_ == kind && condition.status == status);
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: before
            .map_or(Time(now), |before| before.last_transition_time.clone()),
        observed_generation: None,
    }
}

/// Returns the fields of a merge patch that turns one object into the other. Fields and entries that are gone are null.
pub(super) fn difference(old: &Value, new: &Value) -> Map<String, Value> {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return Map::new() };
    let mut change = Map::new();
    for (key, value) in new {
        match old.get(key) {
            Some(before) if before == value => {}
            Some(before) if before.is_object() && value.is_object() => {
                change.insert(key.clone(), difference(before, value).into());
            }
            Some(_) | None => drop(change.insert(key.clone(), value.clone())),
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        change.insert(key.clone(), Value::Null);
    }
    change
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_patch_has_what_differs_and_nulls_for_what_is_gone() {
        for (old, new, wanted) in [
            (json!({"a": 1}), json!({"a": 1}), json!({})),
            (json!({"a": 1}), json!({"a": 2, "b": 3}), json!({"a": 2, "b": 3})),
            (json!({"a": {"x": 1, "y": 2}}), json!({"a": {"y": 2}}), json!({"a": {"x": null}})),
            (json!({"a": 1, "b": [1]}), json!({"b": [2]}), json!({"a": null, "b": [2]})),
        ] {
            assert_eq!(Value::from(difference(&old, &new)), wanted, "{old} {new}");
        }
    }

    #[test]
    fn a_condition_keeps_the_time_of_its_last_change() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let first = condition(&[], "Healthy", true, ("Healthy", ""), at(1));
        let same =
            condition(std::slice::from_ref(&first), "Healthy", true, ("Healthy", "still"), at(2));
        let other = condition(&[first], "Healthy", false, ("Unhealthy", ""), at(3));
        assert_eq!(same.last_transition_time, Time(at(1)));
        assert_eq!(other.last_transition_time, Time(at(3)));
    }
}
