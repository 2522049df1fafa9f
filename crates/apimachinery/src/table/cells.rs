//! Builds the cells of a built-in kind's row.

use super::{age, cluster, network, pod, storage, workloads};
use crate::selector::LabelSelector;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Builds the cells of one object.
pub(super) fn for_object(group: &str, kind: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    let row = Row { object, now };
    match (group, kind) {
        ("", "Pod") => pod::cells(row),
        ("" | "apps" | "batch", _) if workloads::has(kind) => workloads::cells(kind, row),
        ("", "Service" | "Endpoints") | ("networking.k8s.io" | "discovery.k8s.io", _) => {
            network::cells(kind, row)
        }
        ("", "PersistentVolume" | "PersistentVolumeClaim") | ("storage.k8s.io", _) => {
            storage::cells(kind, row)
        }
        _ => cluster::cells(group, kind, row),
    }
}

/// An object and the current time, from which cells are built.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) object: &'a Value,
    pub(super) now: Timestamp,
}

impl<'a> Row<'a> {
    /// Returns the value at a JSON pointer such as `/spec/replicas`.
    pub(super) fn at(self, path: &str) -> &'a Value {
        self.object.pointer(path).unwrap_or(&Value::Null)
    }

    pub(super) fn text(self, path: &str) -> &'a str {
        self.at(path).as_str().unwrap_or_default()
    }

    pub(super) fn text_or<'b>(self, path: &str, default: &'b str) -> &'b str
    where
        'a: 'b,
    {
        self.at(path).as_str().filter(|text| !text.is_empty()).unwrap_or(default)
    }

    pub(super) fn number(self, path: &str) -> i64 {
        self.at(path).as_i64().unwrap_or_default()
    }

    pub(super) fn boolean(self, path: &str) -> bool {
        self.at(path).as_bool().unwrap_or_default()
    }

    pub(super) fn list(self, path: &str) -> &'a [Value] {
        self.at(path).as_array().map_or(&[], Vec::as_slice)
    }

    pub(super) fn count(self, path: &str) -> i64 {
        let count = match self.at(path) {
            Value::Array(items) => items.len(),
            Value::Object(members) => members.len(),
            _ => 0,
        };
        i64::try_from(count).unwrap_or(i64::MAX)
    }

    pub(super) fn is_terminating(self) -> bool {
        !self.at("/metadata/deletionTimestamp").is_null()
    }

    pub(super) fn name(self) -> Value {
        json!(self.text("/metadata/name"))
    }

    pub(super) fn age(self) -> Value {
        json!(self.since("/metadata/creationTimestamp"))
    }

    pub(super) fn since(self, path: &str) -> String {
        age::since(self.at(path), self.now)
    }

    /// Returns the status of a condition.
    pub(super) fn condition(self, kind: &str) -> Option<&'a str> {
        let conditions = self.list("/status/conditions").iter();
        conditions
            .filter(|condition| condition["type"] == kind)
            .find_map(|condition| condition["status"].as_str())
    }

    /// Returns the names and the images of the containers at a path.
    pub(super) fn containers(self, path: &str) -> [Value; 2] {
        let join = |field: &str| {
            let texts = self
                .list(path)
                .iter()
                .map(|container| container[field].as_str().unwrap_or_default());
            json!(texts.collect::<Vec<_>>().join(","))
        };
        [join("name"), join("image")]
    }

    /// Formats a plain map of labels.
    pub(super) fn labels(self, path: &str) -> Value {
        let labels = self.at(path).as_object().map(LabelSelector::from_map).unwrap_or_default();
        json!(or_none(labels.to_string()))
    }

    /// Formats a label selector.
    pub(super) fn selector(self, path: &str) -> Value {
        match LabelSelector::from_object(Some(self.at(path))) {
            Ok(selector) => json!(or_none(selector.to_string())),
            Err(_) => json!("<error>"),
        }
    }
}

pub(super) fn or_none(text: String) -> String {
    if text.is_empty() { "<none>".into() } else { text }
}

/// Joins the first few, followed by the number of remaining ones.
pub(super) fn first_few(texts: &[String], most: usize, count: usize) -> String {
    let shown = texts[..texts.len().min(most)].join(",");
    if count > most { format!("{shown} + {} more...", count - most) } else { shown }
}

/// Formats a number or a string, such as a count or a percentage.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
