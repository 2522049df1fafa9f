//! Fills in the defaults of the workload controllers: Deployments, StatefulSets, Jobs and the like.

use serde_json::{Value, json};

use super::pod;
use crate::builtin::{fill, given, items_mut, text};

pub(super) fn replication_controller(object: &mut Value) {
    pod::template(&mut object["spec"]["template"]);
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    if labels.is_object() {
        if given(&object["spec"], "selector").is_none() {
            object["spec"]["selector"] = labels.clone();
        }
        fill(&mut object["metadata"], "labels", labels);
    } else if object["spec"]["template"].is_null() {
        crate::builtin::take_field(&mut object["spec"], "template");
    }
}

pub(super) fn deployment(object: &mut Value) {
    let spec = &mut object["spec"];
    pod::template(&mut spec["template"]);
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    fill(spec, "progressDeadlineSeconds", 600);
    let strategy = &mut spec["strategy"];
    fill(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        fill(strategy, "rollingUpdate", json!({}));
        fill(&mut strategy["rollingUpdate"], "maxUnavailable", "25%");
        fill(&mut strategy["rollingUpdate"], "maxSurge", "25%");
    }
}

pub(super) fn replica_set(object: &mut Value) {
    pod::template(&mut object["spec"]["template"]);
    fill(&mut object["spec"], "replicas", 1);
}

pub(super) fn daemon_set(object: &mut Value) {
    let spec = &mut object["spec"];
    pod::template(&mut spec["template"]);
    fill(spec, "revisionHistoryLimit", 10);
    let strategy = &mut spec["updateStrategy"];
    fill(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        fill(strategy, "rollingUpdate", json!({}));
        fill(&mut strategy["rollingUpdate"], "maxUnavailable", 1);
        fill(&mut strategy["rollingUpdate"], "maxSurge", 0);
    }
}

pub(super) fn stateful_set(object: &mut Value) {
    let spec = &mut object["spec"];
    pod::template(&mut spec["template"]);
    fill(spec, "podManagementPolicy", "OrderedReady");
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    let strategy = &mut spec["updateStrategy"];
    if text(strategy, "type").is_empty() {
        fill(strategy, "type", "RollingUpdate");
        fill(strategy, "rollingUpdate", json!({}));
    }
    if text(strategy, "type") == "RollingUpdate" && strategy["rollingUpdate"].is_object() {
        fill(&mut strategy["rollingUpdate"], "partition", 0);
    }
    fill(spec, "persistentVolumeClaimRetentionPolicy", json!({}));
    fill(&mut spec["persistentVolumeClaimRetentionPolicy"], "whenDeleted", "Retain");
    fill(&mut spec["persistentVolumeClaimRetentionPolicy"], "whenScaled", "Retain");
    for claim in items_mut(spec, "volumeClaimTemplates") {
        fill(claim, "kind", "PersistentVolumeClaim");
        fill(claim, "apiVersion", "v1");
        fill(&mut claim["spec"], "volumeMode", "Filesystem");
        fill(&mut claim["status"], "phase", "Pending");
    }
}

pub(super) fn job(object: &mut Value) {
    job_spec(&mut object["spec"]);
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    if labels.is_object() {
        fill(&mut object["metadata"], "labels", labels);
    }
    let spec = &mut object["spec"];
    if given(spec, "completions").is_none() && given(spec, "parallelism").is_none() {
        fill(spec, "completions", 1);
    }
    fill(spec, "parallelism", 1);
    let limit = if given(spec, "backoffLimitPerIndex").is_some() { i32::MAX } else { 6 };
    fill(spec, "backoffLimit", limit);
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    let replacement =
        if given(spec, "podFailurePolicy").is_some() { "Failed" } else { "TerminatingOrFailed" };
    fill(spec, "podReplacementPolicy", replacement);
    fill(spec, "manualSelector", false);
}

fn job_spec(spec: &mut Value) {
    pod::template(&mut spec["template"]);
    for rule in spec.get_mut("podFailurePolicy").map(|p| items_mut(p, "rules")).unwrap_or_default()
    {
        for pattern in items_mut(rule, "onPodConditions") {
            fill(pattern, "status", "True");
        }
    }
}

pub(super) fn cron_job(object: &mut Value) {
    let spec = &mut object["spec"];
    fill(spec, "concurrencyPolicy", "Allow");
    fill(spec, "suspend", false);
    fill(spec, "successfulJobsHistoryLimit", 3);
    fill(spec, "failedJobsHistoryLimit", 1);
    job_spec(&mut spec["jobTemplate"]["spec"]);
}
