//! The ConfigMap `cluster-autoscaler-status` in the format of Cluster Autoscaler 1.35 and later, for the tools that read it.

use std::collections::BTreeMap;

use cluster::error::{explain, status_code};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::NodeController;
use super::view::ClusterView;
use crate::settings::Settings;

/// The annotation with the time of the content.
const LAST_UPDATED: &str = "cluster-autoscaler.kubernetes.io/last-updated";
/// How often the ConfigMap is written though nothing but its time has changed.
const REFRESH: SignedDuration = SignedDuration::from_mins(1);
/// How long it is not written again after a failure.
const RETRY: SignedDuration = SignedDuration::from_mins(10);

/// What is remembered between two writes.
#[derive(Default)]
pub(super) struct StatusMap {
    transitions: Transitions,
    /// What was last written, without its time, and when it is written again though it is the same.
    written: Option<(Value, Timestamp)>,
    /// Until when it is not written, because it is not allowed to.
    paused_until: Option<Timestamp>,
    /// The uid of the ConfigMap, once it was written.
    uid: Option<String>,
}

impl StatusMap {
    /// Returns the ConfigMap without its content: what events about the cluster refer to, and about groups that are not objects.
    pub(super) fn object(&self, settings: &Settings) -> ConfigMap {
        let metadata = ObjectMeta {
            name: settings.nodes.status_map.clone(),
            namespace: Some(settings.cluster_autoscaler_namespace.clone()),
            uid: self.uid.clone(),
            ..ObjectMeta::default()
        };
        ConfigMap { metadata, ..ConfigMap::default() }
    }
}

/// Each status with the time of its last change, by the path of the field.
#[derive(Default)]
struct Transitions(BTreeMap<String, (&'static str, Timestamp)>);

impl NodeController {
    /// Writes the ConfigMap where its content differs. Where that is not allowed there is none.
    pub(super) async fn write_status_map(&mut self, view: &ClusterView) {
        let now = self.cx.clock.now();
        let Some(name) = self.cx.settings.nodes.status_map.clone() else { return };
        if self.status_map.paused_until.is_some_and(|until| now < until) {
            return;
        }
        let content = content(view, &mut self.status_map.transitions, now);
        let written = self.status_map.written.as_ref();
        if written.is_some_and(|(same, until)| *same == content && now < *until) {
            return;
        }
        let after = |span: SignedDuration| now.saturating_add(span).unwrap_or(Timestamp::MAX);
        match self.replace_status_map(&name, &content, now).await {
            Ok(uid) => {
                self.status_map.uid = uid;
                self.status_map.written = Some((content, after(REFRESH)));
            }
            Err(error) => {
                let error = explain(&error);
                tracing::debug!(name, error, "could not write the ConfigMap; will retry");
                self.status_map.paused_until = Some(after(RETRY));
            }
        }
    }

    /// Writes the ConfigMap, and returns its uid.
    async fn replace_status_map(
        &self,
        name: &str,
        content: &Value,
        now: Timestamp,
    ) -> Result<Option<String>, kube::Error> {
        let api: Api<ConfigMap> =
            Api::namespaced(self.cx.client.clone(), &self.cx.settings.cluster_autoscaler_namespace);
        let found = api.get_opt(name).await?;
        let is_new = found.is_none();
        let mut map = found.unwrap_or_default();
        let time = &go_time(now);
        map.metadata.name = Some(name.to_owned());
        let annotations = map.metadata.annotations.get_or_insert_default();
        annotations.insert(LAST_UPDATED.to_owned(), time.clone());
        let text = yaml(&timed(content, now));
        map.data.get_or_insert_default().insert("status".to_owned(), text);
        let params = PostParams::default();
        let written = match is_new {
            true => api.create(&params, &map).await,
            false => api.replace(name, &params, &map).await,
        };
        match written {
            // Another process was faster; the next evaluation writes again.
            Err(error) if status_code(&error) == Some(409) => Ok(None),
            written => written.map(|map| map.metadata.uid),
        }
    }
}

/// Returns a time as Go prints it by default, which is how Cluster Autoscaler writes the time of its status.
fn go_time(at: Timestamp) -> String {
    let text = at.strftime("%Y-%m-%d %H:%M:%S%.f").to_string();
    format!("{text} +0000 UTC")
}

impl Transitions {
    /// Returns a part of the status: its state, and the time of the state's last change.
    fn part(&mut self, path: String, status: &'static str, now: Timestamp) -> Value {
        let known = self.0.entry(path).or_insert((status, now));
        if known.0 != status {
            *known = (status, now);
        }
        json!({"status": status, "lastTransitionTime": Time(known.1)})
    }
}

/// Returns the content without the time of the evaluation.
fn content(view: &ClusterView, transitions: &mut Transitions, now: Timestamp) -> Value {
    let mut part =
        |path: &str, name: &str, status| transitions.part(format!("{path}/{name}"), status, now);
    let health = |is_healthy: bool| if is_healthy { "Healthy" } else { "Unhealthy" };
    let mut removal = |path: &str, candidates: usize| {
        let status = if candidates > 0 { "CandidatesPresent" } else { "NoCandidates" };
        let mut removal = part(path, "scaleDown", status);
        if candidates > 0 {
            removal["candidates"] = candidates.into();
        }
        removal
    };
    let mut scale_downs: Vec<Value> = Vec::new();
    for group in &view.groups {
        scale_downs.push(removal(&group.name, group.candidates));
    }
    let scale_down = removal("", view.candidates);
    let mut cluster_health = part("", "health", health(view.is_healthy));
    cluster_health["nodeCounts"] = view.nodes.json();
    let growing = if view.is_growing { "InProgress" } else { "NoActivity" };
    let cluster = json!({"health": cluster_health, "scaleUp": part("", "scaleUp", growing), "scaleDown": scale_down});
    let groups = view.groups.iter().zip(scale_downs).map(|(group, scale_down)| {
        let mut own = part(&group.name, "health", health(group.is_healthy));
        own["nodeCounts"] = group.nodes.json();
        own["cloudProviderTarget"] = group.target.into();
        (own["minSize"], own["maxSize"]) = (group.min.into(), group.max.into());
        let status = match (group.is_growing, group.is_healthy, &group.backoff) {
            (true, ..) => "InProgress",
            (false, false, _) => "Unhealthy",
            (false, true, Some(_)) => "Backoff",
            (false, true, None) => "NoActivity",
        };
        let mut scale_up = part(&group.name, "scaleUp", status);
        scale_up["backoffInfo"] = match &group.backoff {
            Some(cause) if status == "Backoff" => {
                json!({"errorCode": "cloudProviderError", "errorMessage": cause})
            }
            Some(_) | None => json!({}),
        };
        json!({"name": group.name, "health": own, "scaleUp": scale_up, "scaleDown": scale_down})
    });
    let groups: Vec<Value> = groups.collect();
    json!({"autoscalerStatus": "Running", "clusterWide": cluster, "nodeGroups": groups})
}

/// Returns the content with the time of the evaluation in each of its parts.
fn timed(content: &Value, now: Timestamp) -> Value {
    let mut content = content.clone();
    let time = json!(Time(now));
    let probe = |parts: &mut Value| {
        for name in ["health", "scaleUp", "scaleDown"] {
            parts[name]["lastProbeTime"] = time.clone();
        }
    };
    probe(&mut content["clusterWide"]);
    content["nodeGroups"].as_array_mut().into_iter().flatten().for_each(probe);
    content["time"] = go_time(now).into();
    content
}

/// Writes a value as YAML, with the fields of objects in alphabetical order.
fn yaml(value: &Value) -> String {
    let mut text = String::new();
    write_yaml(&mut text, value, 0);
    text
}

fn write_yaml(text: &mut String, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            for (name, value) in sorted {
                let is_nested = match value {
                    Value::Object(inner) => !inner.is_empty(),
                    Value::Array(items) => !items.is_empty(),
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
                };
                if is_nested {
                    *text += &format!("{indent}{name}:\n");
                    write_yaml(text, value, depth + usize::from(value.is_object()));
                } else {
                    *text += &format!("{indent}{name}: {value}\n");
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                let mut inner = String::new();
                write_yaml(&mut inner, item, depth + 1);
                // The dash takes the place of the first field's indentation.
                *text += &inner.replacen(&"  ".repeat(depth + 1), &format!("{indent}- "), 1);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            *text += &format!("{indent}{value}\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::{GroupView, NodeCounts};
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn group() -> GroupView {
        GroupView { name: "g".to_owned(), max: 5, is_healthy: true, ..GroupView::default() }
    }

    #[test]
    fn the_state_of_a_group_that_matters_most_is_shown() {
        let backoff = Some("no machines".to_owned());
        for (group, status, error) in [
            (group(), "NoActivity", json!({})),
            (
                GroupView { is_growing: true, backoff: backoff.clone(), ..group() },
                "InProgress",
                json!({}),
            ),
            (
                GroupView { is_healthy: false, backoff: backoff.clone(), ..group() },
                "Unhealthy",
                json!({}),
            ),
            (
                GroupView { backoff, ..group() },
                "Backoff",
                json!({"errorCode": "cloudProviderError", "errorMessage": "no machines"}),
            ),
        ] {
            let view = ClusterView { groups: vec![group], ..ClusterView::default() };
            let content = content(&view, &mut Transitions::default(), at(0));
            let scale_up = &content["nodeGroups"][0]["scaleUp"];
            assert_eq!((&scale_up["status"], &scale_up["backoffInfo"]), (&json!(status), &error));
        }
    }

    #[test]
    fn a_time_of_transition_is_that_of_the_last_change() {
        let mut transitions = Transitions::default();
        let mut changed_at = |candidates: usize, second: i64| {
            let view = ClusterView { candidates, ..ClusterView::default() };
            let content = content(&view, &mut transitions, at(second));
            content["clusterWide"]["scaleDown"]["lastTransitionTime"].clone()
        };
        for (candidates, second, changed) in [(0, 1, 1), (0, 2, 1), (2, 3, 3), (1, 4, 3), (0, 5, 5)]
        {
            assert_eq!(changed_at(candidates, second), json!(Time(at(changed))), "{second}");
        }
    }

    #[test]
    fn times_of_the_status_are_written_as_go_prints_them() {
        for (at, text) in [
            ("2026-01-02T03:04:05Z", "2026-01-02 03:04:05 +0000 UTC"),
            ("2026-01-02T03:04:05.120Z", "2026-01-02 03:04:05.12 +0000 UTC"),
        ] {
            assert_eq!(go_time(at.parse().unwrap()), text);
        }
    }

    #[test]
    fn it_is_written_as_yaml() {
        let nodes = NodeCounts { ready: 1, leaving: 1, ..NodeCounts::default() };
        let group = GroupView { nodes, target: 2, candidates: 1, ..group() };
        let view = ClusterView { is_healthy: true, groups: vec![group], ..ClusterView::default() };
        let content = content(&view, &mut Transitions::default(), at(0));
        let text = yaml(&timed(&content, at(0)));
        let groups = text.split_once("nodeGroups:\n").unwrap().1;
        let wanted = r#"- health:
    cloudProviderTarget: 2
    lastProbeTime: "1970-01-01T00:00:00Z"
    lastTransitionTime: "1970-01-01T00:00:00Z"
    maxSize: 5
    minSize: 0
    nodeCounts:
      longUnregistered: 0
      registered:
        beingDeleted: 1
        notStarted: 0
        ready: 1
        total: 2
        unready:
          resourceUnready: 0
          total: 0
      unregistered: 0
    status: "Healthy"
  name: "g"
  scaleDown:
    candidates: 1
    lastProbeTime: "1970-01-01T00:00:00Z"
    lastTransitionTime: "1970-01-01T00:00:00Z"
    status: "CandidatesPresent"
  scaleUp:
    backoffInfo: {}
    lastProbeTime: "1970-01-01T00:00:00Z"
    lastTransitionTime: "1970-01-01T00:00:00Z"
    status: "NoActivity"
time: "1970-01-01 00:00:00 +0000 UTC"
"#;
        assert_eq!(groups, wanted);
    }
}
