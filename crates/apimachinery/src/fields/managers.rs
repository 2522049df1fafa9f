//! Who are the managers of an object, and how are they written down?

use super::Set;
use super::known::Fields;
use crate::quote::quote;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;

/// How many managers may own fields by updates before the oldest are thrown together.
const MOST_UPDATERS: usize = 10;

/// By which operation a manager owns its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
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
pub struct Entry {
    pub api_version: String,
    /// As it was read, since a time that is not touched is written back as it was.
    pub time: Option<String>,
    pub set: Fields,
}

/// A manager and what it owns, as objects have it.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Written<F> {
    #[serde(skip_serializing_if = "String::is_empty")]
    api_version: String,
    fields_type: String,
    fields_v1: F,
    #[serde(skip_serializing_if = "String::is_empty")]
    manager: String,
    operation: Option<Operation>,
    #[serde(skip_serializing_if = "String::is_empty")]
    subresource: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
}

/// The managers of one object.
#[derive(Clone, Debug, Default)]
pub struct Managers {
    entries: BTreeMap<Owner, Entry>,
}

impl Managers {
    /// Reads an object's managers; `None` when what it says cannot be read.
    pub fn decode(object: &Value) -> Option<Self> {
        match &object["metadata"]["managedFields"] {
            Value::Null => Some(Self::default()),
            // As `Parts` leaves it.
            Value::String(text) => {
                let written: Vec<Written<Option<&RawValue>>> = serde_json::from_str(text).ok()?;
                Self::of(written, |text| match text {
                    Some(text) => Fields::read(text).ok(),
                    None => Some(Fields::default()),
                })
            }
            written => {
                let written = Vec::<Written<Set>>::deserialize(written).ok()?;
                Self::of(written, |set| Some(set.into()))
            }
        }
    }

    fn of<F>(written: Vec<Written<F>>, read: impl Fn(F) -> Option<Fields>) -> Option<Self> {
        let mut entries = BTreeMap::new();
        for Written {
            api_version,
            fields_type,
            fields_v1,
            manager,
            operation,
            subresource,
            time,
        } in written
        {
            let operation = operation?;
            if api_version.is_empty() || fields_type != FIELDS_V1 {
                return None;
            }
            let of_owner = match operation {
                Operation::Apply => String::new(),
                Operation::Update => api_version.clone(),
            };
            let owner = Owner { manager, operation, api_version: of_owner, subresource };
            entries.insert(owner, Entry { api_version, time, set: read(fields_v1)? });
        }
        Some(Self { entries })
    }

    /// Reads the managers a write starts from: those the request sends, none if it resets them, or the live ones.
    pub fn from_request(live: Option<&Value>, new: &Value) -> Self {
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

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Owner, &Entry)> {
        self.entries.iter()
    }

    pub fn get(&self, owner: &Owner) -> Option<&Entry> {
        self.entries.get(owner)
    }

    pub fn insert(&mut self, owner: Owner, entry: Entry) -> Option<Entry> {
        self.entries.insert(owner, entry)
    }

    pub fn touch(&mut self, owner: &Owner, now: Timestamp) {
        self.set_time(owner, Some(second(now)));
    }

    pub fn set_time(&mut self, owner: &Owner, time: Option<String>) {
        if let Some(entry) = self.entries.get_mut(owner) {
            entry.time = time;
        }
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&Owner, &mut Entry) -> bool) {
        self.entries.retain(|owner, entry| keep(owner, entry));
    }

    /// Adds fields to a manager, at a time.
    pub fn add(&mut self, owner: Owner, fields: Set, api_version: &str, now: Timestamp) {
        let entry = self.entries.entry(owner).or_insert_with(|| Entry {
            api_version: api_version.to_owned(),
            time: None,
            set: Fields::default(),
        });
        entry.set.add(&fields);
        entry.time = Some(second(now));
    }

    /// Throws the oldest updaters of each version together when there are too many.
    pub fn cap(&mut self) {
        let is_updater = |(owner, _): &(&Owner, &Entry)| owner.operation == Operation::Update;
        let updaters = self.entries.iter().filter(is_updater);
        let mut count = updaters.clone().count();
        if count <= MOST_UPDATERS {
            return;
        }
        let mut updaters: Vec<(i64, Owner)> = updaters
            .map(|(owner, entry)| (seconds(entry.time.as_deref()), owner.clone()))
            .collect();
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

    /// Writes the managers into an object, in the order the real server has them; as text where `live` has them as such.
    pub fn encode(self, object: &mut Value, live: Option<&Value>) {
        if self.entries.is_empty() {
            return clear(object);
        }
        let mut entries: Vec<(i64, Owner, Entry)> = self
            .entries
            .into_iter()
            .map(|(owner, entry)| (seconds(entry.time.as_deref()), owner, entry))
            .collect();
        entries.sort_by(|(at, a, x), (other, b, y)| {
            (a.operation, at, &a.manager, &x.api_version, &a.subresource).cmp(&(
                b.operation,
                other,
                &b.manager,
                &y.api_version,
                &b.subresource,
            ))
        });
        let written: Vec<Written<Fields>> =
            entries.into_iter().map(|(_, owner, entry)| written(owner, entry)).collect();
        let is_text = live.is_some_and(|live| live["metadata"]["managedFields"].is_string());
        let managers = if is_text {
            serde_json::to_string(&written).map(Value::String)
        } else {
            serde_json::to_value(&written)
        };
        object["metadata"]["managedFields"] = managers.expect("texts can always be written");
    }
}

const FIELDS_V1: &str = "FieldsV1";

fn written(owner: Owner, entry: Entry) -> Written<Fields> {
    Written {
        api_version: entry.api_version,
        fields_type: FIELDS_V1.to_owned(),
        fields_v1: entry.set,
        manager: owner.manager,
        operation: Some(owner.operation),
        subresource: owner.subresource,
        time: entry.time.filter(|time| !time.is_empty()),
    }
}

/// Removes all managers from an object.
pub fn clear(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Writes a time as Kubernetes does: to the second.
fn second(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn seconds(time: Option<&str>) -> i64 {
    time.and_then(|time| time.parse::<Timestamp>().ok()).map_or(0, Timestamp::as_second)
}
