//! Cells of workloads.

use super::age;
use super::cells::Row;
use serde_json::{Value, json};

const CONTAINERS: &str = "/spec/template/spec/containers";

/// Returns whether a kind is a workload.
pub(super) fn has(kind: &str) -> bool {
    matches!(
        kind,
        "Deployment"
            | "ReplicaSet"
            | "ReplicationController"
            | "DaemonSet"
            | "StatefulSet"
            | "Job"
            | "CronJob"
            | "PodTemplate"
            | "ControllerRevision"
    )
}

/// Builds a workload's cells.
pub(super) fn cells(kind: &str, row: Row<'_>) -> Vec<Value> {
    match kind {
        "Deployment" => deployment(row),
        "DaemonSet" => daemon_set(row),
        "StatefulSet" => stateful_set(row),
        "Job" => job(row),
        "CronJob" => cron_job(row),
        "PodTemplate" => pod_template(row),
        "ControllerRevision" => controller_revision(row),
        _ => replica_set(kind, row),
    }
}

fn ready(row: Row<'_>) -> Value {
    json!(format!("{}/{}", row.number("/status/readyReplicas"), row.number("/spec/replicas")))
}

fn deployment(row: Row<'_>) -> Vec<Value> {
    let [names, images] = row.containers(CONTAINERS);
    vec![
        row.name(),
        ready(row),
        json!(row.number("/status/updatedReplicas")),
        json!(row.number("/status/availableReplicas")),
        row.age(),
        names,
        images,
        row.selector("/spec/selector"),
    ]
}

fn replica_set(kind: &str, row: Row<'_>) -> Vec<Value> {
    let [names, images] = row.containers(CONTAINERS);
    let selector = "/spec/selector";
    vec![
        row.name(),
        json!(row.number("/spec/replicas")),
        json!(row.number("/status/replicas")),
        json!(row.number("/status/readyReplicas")),
        row.age(),
        names,
        images,
        if kind == "ReplicaSet" { row.selector(selector) } else { row.labels(selector) },
    ]
}

fn daemon_set(row: Row<'_>) -> Vec<Value> {
    let [names, images] = row.containers(CONTAINERS);
    let mut cells = vec![row.name()];
    let counts = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ];
    cells.extend(counts.map(|count| json!(row.number(&format!("/status/{count}")))));
    cells.extend([
        row.labels("/spec/template/spec/nodeSelector"),
        row.age(),
        names,
        images,
        row.selector("/spec/selector"),
    ]);
    cells
}

fn stateful_set(row: Row<'_>) -> Vec<Value> {
    let [names, images] = row.containers(CONTAINERS);
    vec![row.name(), ready(row), row.age(), names, images]
}

fn job(row: Row<'_>) -> Vec<Value> {
    let succeeded = row.number("/status/succeeded");
    let completions = match (row.at("/spec/completions").as_i64(), row.number("/spec/parallelism"))
    {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        _ => format!("{succeeded}/1"),
    };
    let started_at = age::moment(row.at("/status/startTime"));
    let ended_at = age::moment(row.at("/status/completionTime")).unwrap_or(row.now);
    let duration =
        started_at.map(|at| age::human(ended_at.as_second() - at.as_second())).unwrap_or_default();
    let has = |kind| row.condition(kind) == Some("True");
    let status = if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if row.is_terminating() {
        "Terminating"
    } else {
        let open = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
        open.into_iter().find(|kind| has(kind)).unwrap_or("Running")
    };
    let [names, images] = row.containers(CONTAINERS);
    vec![
        row.name(),
        json!(status),
        json!(completions),
        json!(duration),
        row.age(),
        names,
        images,
        row.selector("/spec/selector"),
    ]
}

fn cron_job(row: Row<'_>) -> Vec<Value> {
    let [names, images] = row.containers("/spec/jobTemplate/spec/template/spec/containers");
    let last = "/status/lastScheduleTime";
    let last = if row.at(last).is_null() { "<none>".into() } else { row.since(last) };
    vec![
        row.name(),
        json!(row.text("/spec/schedule")),
        json!(row.text_or("/spec/timeZone", "<none>")),
        json!(if row.boolean("/spec/suspend") { "True" } else { "False" }),
        json!(row.count("/status/active")),
        json!(last),
        row.age(),
        names,
        images,
        row.selector("/spec/jobTemplate/spec/selector"),
    ]
}

fn pod_template(row: Row<'_>) -> Vec<Value> {
    let [names, images] = row.containers("/template/spec/containers");
    vec![row.name(), names, images, row.labels("/template/metadata/labels")]
}

fn controller_revision(row: Row<'_>) -> Vec<Value> {
    let owners = row.list("/metadata/ownerReferences");
    let controller = owners.iter().find(|owner| owner["controller"] == true).map_or_else(
        || "<none>".to_owned(),
        |owner| {
            let text = |name: &str| owner[name].as_str().unwrap_or_default();
            let group = text("apiVersion")
                .split_once('/')
                .map(|(group, _)| format!(".{group}"))
                .unwrap_or_default();
            format!("{}{group}/{}", text("kind").to_lowercase(), text("name"))
        },
    );
    vec![row.name(), json!(controller), json!(row.number("/revision")), row.age()]
}
