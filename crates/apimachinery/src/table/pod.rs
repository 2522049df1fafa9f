//! Cells of pods.

use super::age;
use super::cells::Row;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Builds a pod's cells.
pub(super) fn cells(row: Row<'_>) -> Vec<Value> {
    let summary = PodSummary::from_row(row);
    let restarts = match summary.last_restart_at {
        Some(at) if summary.restarts != 0 => {
            let ago = age::human(row.now.as_second() - at.as_second());
            format!("{} ({ago} ago)", summary.restarts)
        }
        _ => summary.restarts.to_string(),
    };
    let ip =
        row.list("/status/podIPs").first().and_then(|ip| ip["ip"].as_str()).unwrap_or_default();
    vec![
        row.name(),
        json!(format!("{}/{}", summary.ready, summary.total)),
        json!(summary.reason),
        json!(restarts),
        row.age(),
        json!(if ip.is_empty() { "<none>" } else { ip }),
        json!(row.text_or("/spec/nodeName", "<none>")),
        json!(row.text_or("/status/nominatedNodeName", "<none>")),
        json!(readiness_gates(row)),
    ]
}

/// Returns the row's `Completed` condition of a finished pod.
pub(super) fn conditions(pod: &Value) -> Option<Value> {
    let message = match pod["status"]["phase"].as_str()? {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(
        json!([{"type": "Completed", "status": "True", "reason": pod["status"]["phase"], "message": message}]),
    )
}

fn readiness_gates(row: Row<'_>) -> String {
    let gates = row.list("/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".into();
    }
    let is_open = |gate: &&Value| {
        gate["conditionType"].as_str().and_then(|kind| row.condition(kind)) == Some("True")
    };
    format!("{}/{}", gates.iter().filter(is_open).count(), gates.len())
}

struct PodSummary {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart_at: Option<Timestamp>,
}

impl PodSummary {
    fn from_row(row: Row<'_>) -> Self {
        let phase = row.text("/status/phase");
        let mut reason = row.text_or("/status/reason", phase).to_owned();
        let is_gated = |c: &Value| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated";
        if row.list("/status/conditions").iter().any(is_gated) {
            reason = "SchedulingGated".into();
        }
        let sidecars = row
            .list("/spec/initContainers")
            .iter()
            .filter(|c| c["restartPolicy"] == "Always")
            .count();
        let total = row.list("/spec/containers").len() + sidecars;
        let mut summary = Self { reason, ready: 0, total, restarts: 0, last_restart_at: None };
        let initializing = summary.read_init(row);
        if !initializing || row.condition("Initialized") == Some("True") {
            summary.read_containers(row);
        }
        if row.is_terminating() && row.text("/status/reason") == "NodeLost" {
            summary.reason = "Unknown".into();
        } else if row.is_terminating() && !matches!(phase, "Succeeded" | "Failed") {
            summary.reason = "Terminating".into();
        }
        summary
    }

    fn count_restart(&mut self, container: &Value) {
        self.restarts += container["restartCount"].as_i64().unwrap_or_default();
        let ended_at = age::moment(&container["lastState"]["terminated"]["finishedAt"]);
        self.last_restart_at = self.last_restart_at.max(ended_at);
    }

    /// Summarizes the init containers up to the first unfinished one; returns whether there is one.
    fn read_init(&mut self, row: Row<'_>) -> bool {
        let specs = row.list("/spec/initContainers");
        let mut of_sidecars = (0, None);
        let mut initializing = false;
        for (index, container) in row.list("/status/initContainerStatuses").iter().enumerate() {
            self.count_restart(container);
            let is_sidecar = specs
                .iter()
                .any(|s| s["name"] == container["name"] && s["restartPolicy"] == "Always");
            if is_sidecar {
                let mut alone = Self {
                    restarts: of_sidecars.0,
                    last_restart_at: of_sidecars.1,
                    ..Self::empty()
                };
                alone.count_restart(container);
                of_sidecars = (alone.restarts, alone.last_restart_at);
            }
            let state = &container["state"];
            let ended = &state["terminated"];
            if ended["exitCode"] == 0 {
                continue;
            }
            if is_sidecar && container["started"] == true {
                self.ready += usize::from(container["ready"] == true);
                continue;
            }
            let waiting = state["waiting"]["reason"].as_str().unwrap_or_default();
            self.reason = if !ended.is_null() {
                format!("Init:{}", end_reason(ended))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{index}/{}", specs.len())
            };
            initializing = true;
            break;
        }
        if !initializing || row.condition("Initialized") == Some("True") {
            (self.restarts, self.last_restart_at) = of_sidecars;
        }
        initializing
    }

    fn read_containers(&mut self, row: Row<'_>) {
        let (mut has_running, mut error) = (false, None);
        for container in row.list("/status/containerStatuses").iter().rev() {
            self.count_restart(container);
            let state = &container["state"];
            let waiting = state["waiting"]["reason"].as_str().unwrap_or_default();
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if !state["terminated"].is_null() {
                self.reason = end_reason(&state["terminated"]);
                if state["terminated"]["exitCode"] != 0 {
                    error = Some(self.reason.clone());
                }
            } else if container["ready"] == true && !state["running"].is_null() {
                has_running = true;
                self.ready += 1;
            }
        }
        // One completed container does not make a pod Completed while others run.
        if self.reason == "Completed" {
            if has_running && row.condition("Ready") == Some("True") {
                self.reason = "Running".into();
            } else if let Some(error) = error {
                self.reason = error;
            } else if has_running {
                self.reason = "NotReady".into();
            }
        }
    }

    fn empty() -> Self {
        Self { reason: String::new(), ready: 0, total: 0, restarts: 0, last_restart_at: None }
    }
}

fn end_reason(ended: &Value) -> String {
    match (
        ended["reason"].as_str().unwrap_or_default(),
        ended["signal"].as_i64().unwrap_or_default(),
    ) {
        ("", 0) => format!("ExitCode:{}", ended["exitCode"].as_i64().unwrap_or_default()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
