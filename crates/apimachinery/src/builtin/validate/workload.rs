//! Validates workload controllers: Deployments, StatefulSets, Jobs and the like.

use serde_json::Value;

use super::numbers::{
    int_or_percent, is_zero, not_negative, not_over_100_percent, one_of, required,
};
use super::selector::{self, label_selector};
use super::{Errors, pod};
use crate::builtin::field::{CauseType, Path};
use crate::builtin::{given, text};

/// Validates a pod template that its selector has to match. `kind` is the controller's name in messages.
fn selected_template(
    spec: &Value,
    is_selected: bool,
    kind: &str,
    path: &Path,
    errors: &mut Errors,
) {
    let (template, path) = (&spec["template"], path.child("template"));
    if is_selected {
        let labels = &template["metadata"]["labels"];
        let is_there = spec["selector"].is_object();
        if !is_there || !selector::matches(&spec["selector"], labels) {
            let detail = "`selector` does not match template `labels`";
            errors.push(path.child("metadata").child("labels").invalid(labels, detail));
        }
    }
    pod::template(template, &path, errors);
    let path = path.child("spec");
    let policy = text(&template["spec"], "restartPolicy");
    if policy != "Always" && !policy.is_empty() {
        let error = path.child("restartPolicy").not_supported(policy, &["Always"]);
        // A policy that is invalid for every pod is reported once, with the policies that pods support.
        if matches!(policy, "OnFailure" | "Never") {
            errors.push(error);
        }
    }
    if given(&template["spec"], "activeDeadlineSeconds").is_some() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(path.child("activeDeadlineSeconds").forbidden(detail));
    }
}

/// Validates a selector that must not be absent or empty; returns whether it can be matched.
fn required_selector(spec: &Value, empty: &str, path: &Path, errors: &mut Errors) -> bool {
    let path = path.child("selector");
    let Some(found) = given(spec, "selector") else {
        errors.push(path.required(""));
        return true;
    };
    let before = errors.len();
    label_selector(found, &path, errors);
    let is_good = errors.len() == before;
    if selector::is_empty(found) {
        errors.push(path.invalid(found, format!("empty selector is invalid for {empty}")));
    }
    if !is_good {
        let detail = if empty == "statefulset" { "" } else { "invalid label selector" };
        errors.push(path.invalid(found, detail));
    }
    is_good
}

pub(super) fn deployment(object: &Value, errors: &mut Errors) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    not_negative(spec, "replicas", &path, errors);
    let is_good = required_selector(spec, "deployment", &path, errors);
    selected_template(spec, is_good, "ReplicaSet", &path, errors);
    rolling(&spec["strategy"], &path.child("strategy"), errors);
    not_negative(spec, "minReadySeconds", &path, errors);
    not_negative(spec, "revisionHistoryLimit", &path, errors);
    let deadline = spec["progressDeadlineSeconds"].as_i64();
    if let Some(deadline) = deadline {
        not_negative(spec, "progressDeadlineSeconds", &path, errors);
        if deadline <= spec["minReadySeconds"].as_i64().unwrap_or_default() {
            let value = &spec["progressDeadlineSeconds"];
            let detail = "must be greater than minReadySeconds";
            errors.push(path.child("progressDeadlineSeconds").invalid(value, detail));
        }
    }
}

fn rolling(strategy: &Value, path: &Path, errors: &mut Errors) {
    let rolling = given(strategy, "rollingUpdate");
    match text(strategy, "type") {
        "Recreate" if rolling.is_some() => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            errors.push(path.child("rollingUpdate").forbidden(detail));
        }
        "Recreate" => {}
        "RollingUpdate" => {
            let Some(rolling) = rolling else { return };
            let path = path.child("rollingUpdate");
            int_or_percent(rolling, "maxUnavailable", &path, errors);
            int_or_percent(rolling, "maxSurge", &path, errors);
            if is_zero(&rolling["maxUnavailable"]) && is_zero(&rolling["maxSurge"]) {
                let detail = "may not be 0 when `maxSurge` is 0";
                errors
                    .push(path.child("maxUnavailable").invalid(&rolling["maxUnavailable"], detail));
            }
            not_over_100_percent(rolling, "maxUnavailable", &path, errors);
        }
        _ => {
            let detail = r#"supported values: "Recreate", "RollingUpdate""#;
            errors.push(path.with(CauseType::NotSupported, strategy, detail));
        }
    }
}

pub(super) fn replica_set(object: &Value, errors: &mut Errors) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    not_negative(spec, "replicas", &path, errors);
    not_negative(spec, "minReadySeconds", &path, errors);
    let is_good = required_selector(spec, "deployment", &path, errors);
    selected_template(spec, is_good, "ReplicaSet", &path, errors);
}

pub(super) fn daemon_set(object: &Value, errors: &mut Errors) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    let found = &spec["selector"];
    let before = errors.len();
    label_selector(found, &path.child("selector"), errors);
    let is_good = errors.len() == before;
    if is_good && !selector::matches(found, &spec["template"]["metadata"]["labels"])
        || found.is_null()
    {
        let labels = &spec["template"]["metadata"]["labels"];
        let detail = "`selector` does not match template `labels`";
        errors.push(Path::new("spec.template.metadata.labels").invalid(labels, detail));
    }
    if found.is_object() && selector::is_empty(found) {
        let detail = "empty selector is invalid for daemonset";
        errors.push(path.child("selector").invalid(found, detail));
    }
    selected_template(spec, false, "DaemonSet", &path, errors);
    not_negative(spec, "minReadySeconds", &path, errors);
    let strategy = &spec["updateStrategy"];
    let strategy_path = path.child("updateStrategy");
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => daemon_rolling(
            &strategy["rollingUpdate"],
            &strategy_path.child("rollingUpdate"),
            errors,
        ),
        _ => {
            let detail = r#"supported values: "RollingUpdate", "OnDelete""#;
            errors.push(strategy_path.with(CauseType::NotSupported, strategy, detail));
        }
    }
    not_negative(spec, "revisionHistoryLimit", &path, errors);
}

fn daemon_rolling(rolling: &Value, path: &Path, errors: &mut Errors) {
    for field in ["maxUnavailable", "maxSurge"] {
        int_or_percent(rolling, field, path, errors);
        not_over_100_percent(rolling, field, path, errors);
    }
    match (is_zero(&rolling["maxUnavailable"]), is_zero(&rolling["maxSurge"])) {
        (true, true) => {
            let detail = "cannot be 0 when maxSurge is 0";
            errors.push(path.child("maxUnavailable").invalid(&rolling["maxUnavailable"], detail));
        }
        (false, false) => {
            let detail = "may not be set when maxUnavailable is non-zero";
            errors.push(path.child("maxSurge").invalid(&rolling["maxSurge"], detail));
        }
        (true, false) | (false, true) => {}
    }
}

pub(super) fn stateful_set(object: &Value, errors: &mut Errors) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    match text(spec, "podManagementPolicy") {
        "" => errors.push(path.child("podManagementPolicy").required("")),
        "OrderedReady" | "Parallel" => {}
        other => {
            let detail = "must be 'OrderedReady' or 'Parallel'";
            errors.push(path.child("podManagementPolicy").invalid_text(other, detail));
        }
    }
    let (strategy, strategy_path) = (&spec["updateStrategy"], path.child("updateStrategy"));
    match text(strategy, "type") {
        "" => errors.push(strategy_path.required("")),
        "OnDelete" if strategy["rollingUpdate"].is_object() => {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            errors.push(
                strategy_path.child("rollingUpdate").invalid(&strategy["rollingUpdate"], detail),
            );
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            let path = strategy_path.child("rollingUpdate");
            not_negative(&strategy["rollingUpdate"], "partition", &path, errors);
            int_or_percent(&strategy["rollingUpdate"], "maxUnavailable", &path, errors);
        }
        _ => errors.push(strategy_path.invalid(strategy, "must be 'RollingUpdate' or 'OnDelete'")),
    }
    not_negative(spec, "replicas", &path, errors);
    not_negative(spec, "minReadySeconds", &path, errors);
    let is_good = required_selector(spec, "statefulset", &path, errors);
    selected_template(spec, is_good, "StatefulSet", &path, errors);
}

pub(super) fn replication_controller(object: &Value, errors: &mut Errors) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    not_negative(spec, "minReadySeconds", &path, errors);
    let selector = spec["selector"].as_object();
    if selector.is_none_or(serde_json::Map::is_empty) {
        errors.push(path.child("selector").required(""));
    }
    not_negative(spec, "replicas", &path, errors);
    if given(spec, "template").is_none() {
        errors.push(path.child("template").required(""));
        return;
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if selector.into_iter().flatten().any(|(key, value)| labels.get(key) != Some(value)) {
        let detail = "`selector` does not match template `labels`";
        errors.push(Path::new("spec.template.metadata.labels").invalid(labels, detail));
    }
    selected_template(spec, false, "ReplicationController", &path, errors);
}

pub(super) fn job(object: &Value, errors: &mut Errors) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    job_numbers(spec, &path, errors);
    match given(spec, "selector") {
        None => errors.push(path.child("selector").required("")),
        Some(found) => label_selector(found, &path.child("selector"), errors),
    }
    if spec["manualSelector"] != Value::Bool(true) {
        let own = serde_json::json!({"matchLabels": {
            "batch.kubernetes.io/controller-uid": object["metadata"]["uid"]}});
        if spec["selector"] != own {
            errors.push(
                path.child("selector").invalid(&spec["selector"], "`selector` not auto-generated"),
            );
        }
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if !selector::matches(&spec["selector"], labels) {
        let detail = "`selector` does not match template `labels`";
        errors.push(Path::new("spec.template.metadata.labels").invalid(labels, detail));
    }
    job_template(spec, &path, errors);
}

fn job_numbers(spec: &Value, path: &Path, errors: &mut Errors) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ] {
        not_negative(spec, field, path, errors);
    }
    one_of(spec, "completionMode", &["NonIndexed", "Indexed"], path, errors);
    if text(spec, "completionMode") == "Indexed" && given(spec, "completions").is_none() {
        errors.push(path.child("completions").required("when completion mode is Indexed"));
    }
}

fn job_template(spec: &Value, path: &Path, errors: &mut Errors) {
    let path = path.child("template");
    pod::template(&spec["template"], &path, errors);
    match text(&spec["template"]["spec"], "restartPolicy") {
        "" | "Always" => {
            let detail = r#"valid values: "OnFailure", "Never""#;
            errors.push(path.child("spec").child("restartPolicy").required(detail));
        }
        "OnFailure" | "Never" => {}
        other => errors.push(
            path.child("spec").child("restartPolicy").not_supported(other, &["OnFailure", "Never"]),
        ),
    }
}

pub(super) fn cron_job(object: &Value, errors: &mut Errors) {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    let schedule = text(spec, "schedule");
    required(spec, "schedule", &path, errors);
    let fields = schedule.split_whitespace().count();
    if !schedule.is_empty()
        && !schedule.starts_with('@')
        && !schedule.starts_with("TZ=")
        && fields != 5
    {
        let list: Vec<&str> = schedule.split_whitespace().collect();
        let detail = format!("expected exactly 5 fields, found {fields}: [{}]", list.join(" "));
        errors.push(path.child("schedule").invalid_text(schedule, detail));
    }
    not_negative(spec, "startingDeadlineSeconds", &path, errors);
    one_of(spec, "concurrencyPolicy", &["Allow", "Forbid", "Replace"], &path, errors);
    not_negative(spec, "successfulJobsHistoryLimit", &path, errors);
    not_negative(spec, "failedJobsHistoryLimit", &path, errors);
    let job = &spec["jobTemplate"]["spec"];
    let path = path.child("jobTemplate").child("spec");
    job_numbers(job, &path, errors);
    job_template(job, &path, errors);
}
