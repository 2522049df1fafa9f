//! Who are the managers of an object, and how are they written down?

use super::Set;
use crate::quote::quote;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// How many managers may own fields by updates before the oldest are thrown together.
const MOST_UPDATERS: usize = 10;

/// By which operation a manager owns its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Any other write.
    Update,
}

/// What tells one manager from another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The name the writer goes by.
    pub manager: String,
    /// How it owns.
    pub operation: Operation,
    /// The version it wrote in; empty for [`Operation::Apply`], which may change version.
    pub api_version: String,
    /// The subresource it wrote through; empty for the object itself.
    pub subresource: String,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quote(&self.manager))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", quote(&self.subresource))?;
        }
        match self.operation {
            Operation::Update => write!(f, " using {}", self.api_version),
            Operation::Apply => Ok(()),
        }
    }
}

/// What a manager owns.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) api_version: String,
    /// As it was read, since a time that is not touched is written back as it was.
    pub(crate) time: Option<String>,
    pub(crate) set: Set,
}

/// The managers of one object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Managers {
    entries: BTreeMap<Owner, Entry>,
}

impl Managers {
    /// Reads an object's managers; `None` when what it says cannot be read.
    pub(crate) fn decode(object: &Value) -> Option<Self> {
        let mut entries = BTreeMap::new();
        for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
            let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            let operation = match entry["operation"].as_str()? {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return None,
            };
            let api_version = text("apiVersion");
            if api_version.is_empty() || entry["fieldsType"] != "FieldsV1" {
                return None;
            }
            let set = entry.get("fieldsV1").map_or_else(|| Some(Set::default()), Set::decode)?;
            let owner = Owner {
                manager: text("manager"),
                operation,
                api_version: if operation == Operation::Apply {
                    String::new()
                } else {
                    api_version.clone()
                },
                subresource: text("subresource"),
            };
            let time = entry["time"].as_str().map(str::to_owned);
            entries.insert(owner, Entry { api_version, time, set });
        }
        Some(Self { entries })
    }

    /// Reads the managers a write starts from: those the request sends, none if it resets them, or the live ones.
    pub(crate) fn from_request(live: Option<&Value>, new: &Value) -> Self {
        if let Some(sent) = new["metadata"]["managedFields"].as_array() {
            let is_blank = |entry: &Value| entry.as_object().is_some_and(Map::is_empty);
            if sent.is_empty() || (sent.len() == 1 && is_blank(&sent[0])) {
                return Self::default();
            }
            if let Some(managers) = Self::decode(new).filter(|managers| !managers.is_empty()) {
                return managers;
            }
        }
        live.and_then(Self::decode).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Owner, &Entry)> {
        self.entries.iter()
    }

    pub(crate) fn get(&self, owner: &Owner) -> Option<&Entry> {
        self.entries.get(owner)
    }

    pub(crate) fn insert(&mut self, owner: Owner, entry: Entry) -> Option<Entry> {
        self.entries.insert(owner, entry)
    }

    pub(crate) fn touch(&mut self, owner: &Owner, now: Timestamp) {
        self.set_time(owner, Some(written(now)));
    }

    pub(crate) fn set_time(&mut self, owner: &Owner, time: Option<String>) {
        if let Some(entry) = self.entries.get_mut(owner) {
            entry.time = time;
        }
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Owner, &mut Entry) -> bool) {
        self.entries.retain(|owner, entry| keep(owner, entry));
    }

    /// Adds fields to a manager, at a time.
    pub(crate) fn add(&mut self, owner: Owner, fields: Set, api_version: &str, now: Timestamp) {
        let entry = self.entries.entry(owner).or_insert_with(|| Entry {
            api_version: api_version.to_owned(),
            time: None,
            set: Set::default(),
        });
        entry.set.add(&fields);
        entry.time = Some(written(now));
    }

    /// Throws the oldest updaters of each version together when there are too many.
    pub(crate) fn cap(&mut self) {
        let is_updater = |(owner, _): &(&Owner, &Entry)| owner.operation == Operation::Update;
        let mut updaters: Vec<(i64, Owner)> = self
            .entries
            .iter()
            .filter(is_updater)
            .map(|(owner, entry)| (seconds(entry.time.as_deref()), owner.clone()))
            .collect();
        let mut count = updaters.len();
        updaters.sort();
        let mut first: BTreeMap<String, Owner> = BTreeMap::new();
        for (_, owner) in updaters {
            if count <= MOST_UPDATERS {
                return;
            }
            let version = owner.api_version.clone();
            let Some(oldest) = first.get(&version) else {
                first.insert(version, owner);
                continue;
            };
            let bucket = Owner {
                manager: "ancient-changes".into(),
                operation: Operation::Update,
                api_version: version,
                subresource: String::new(),
            };
            if !self.entries.contains_key(&bucket)
                && let Some(entry) = self.entries.remove(oldest)
            {
                self.entries.insert(bucket.clone(), entry);
            }
            if let Some(entry) = self.entries.remove(&owner)
                && let Some(ancient) = self.entries.get_mut(&bucket)
            {
                ancient.set.add(&entry.set);
                ancient.time = entry.time;
                count -= 1;
            }
        }
    }

    /// Writes the managers into an object, in the order the real server has them.
    pub(crate) fn encode(&self, object: &mut Value) {
        if self.entries.is_empty() {
            return clear(object);
        }
        let mut entries: Vec<(&Owner, &Entry)> = self.entries.iter().collect();
        entries.sort_by(|(a, x), (b, y)| {
            let key =
                |owner: &Owner, entry: &Entry| (owner.operation, seconds(entry.time.as_deref()));
            (key(a, x), &a.manager, &x.api_version, &a.subresource).cmp(&(
                key(b, y),
                &b.manager,
                &y.api_version,
                &b.subresource,
            ))
        });
        object["metadata"]["managedFields"] =
            entries.into_iter().map(|(owner, entry)| encode(owner, entry)).collect();
    }
}

fn encode(owner: &Owner, entry: &Entry) -> Value {
    let mut fields = Map::new();
    let mut put = |name: &str, value: &str| {
        if !value.is_empty() {
            fields.insert(name.to_owned(), json!(value));
        }
    };
    put("manager", &owner.manager);
    put("operation", if owner.operation == Operation::Apply { "Apply" } else { "Update" });
    put("apiVersion", &entry.api_version);
    put("time", entry.time.as_deref().unwrap_or_default());
    put("subresource", &owner.subresource);
    put("fieldsType", "FieldsV1");
    fields.insert("fieldsV1".into(), entry.set.encode());
    Value::Object(fields)
}

/// Removes all managers from an object.
pub(crate) fn clear(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Writes a time as Kubernetes does: to the second.
fn written(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn seconds(time: Option<&str>) -> i64 {
    time.and_then(|time| time.parse::<Timestamp>().ok()).map_or(0, Timestamp::as_second)
}
