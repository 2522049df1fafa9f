//! The managers of an object's fields, and their serialization.

use super::Set;
use super::set_cache::OwnedFields;
use crate::quote::quote;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;

/// The number of managers with operation `Update` above which the oldest are merged.
const MOST_UPDATERS: usize = 10;

/// The operation through which a manager owns its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Any other write.
    Update,
}

/// Identifies a manager.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagerId {
    /// The name of the field manager.
    pub manager: String,
    /// The operation.
    pub operation: Operation,
    /// The version it wrote in; empty for [`Operation::Apply`], which may change its version.
    pub api_version: String,
    /// The subresource it wrote through; empty for the main resource.
    pub subresource: String,
}

impl fmt::Display for ManagerId {
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

/// The fields that a manager owns.
#[derive(Clone, Debug)]
pub struct ManagerEntry {
    pub api_version: String,
    /// As parsed, so that an unchanged time is written back unchanged.
    pub time: Option<String>,
    pub set: OwnedFields,
}

/// An entry of `metadata.managedFields`.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct ManagedFieldsEntry<F> {
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
    entries: BTreeMap<ManagerId, ManagerEntry>,
}

impl Managers {
    /// Parses an object's managers; `None` when they are malformed.
    pub fn decode(object: &Value) -> Option<Self> {
        match &object["metadata"]["managedFields"] {
            Value::Null => Some(Self::default()),
            written => {
                let written = Vec::<ManagedFieldsEntry<Set>>::deserialize(written).ok()?;
                Self::from_entries(written, |set| Some(set.into()))
            }
        }
    }

    /// Parses managers from the JSON of `managedFields`; `None` when it is malformed.
    pub fn decode_json(json: &[u8]) -> Option<Self> {
        let written: Vec<ManagedFieldsEntry<Option<&RawValue>>> =
            serde_json::from_slice(json).ok()?;
        Self::from_entries(written, |text| match text {
            Some(text) => OwnedFields::read(text).ok(),
            None => Some(OwnedFields::default()),
        })
    }

    fn from_entries<F>(
        written: Vec<ManagedFieldsEntry<F>>,
        read: impl Fn(F) -> Option<OwnedFields>,
    ) -> Option<Self> {
        let mut entries = BTreeMap::new();
        for ManagedFieldsEntry {
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
            let owner = ManagerId { manager, operation, api_version: of_owner, subresource };
            entries.insert(owner, ManagerEntry { api_version, time, set: read(fields_v1)? });
        }
        Some(Self { entries })
    }

    /// Returns the managers that a write starts from: those in the request, none if it resets them, or the live ones.
    pub fn from_request(live: Self, new: &Value) -> Self {
        if let Some(sent) = new["metadata"]["managedFields"].as_array() {
            let is_blank = |entry: &Value| entry.as_object().is_some_and(Map::is_empty);
            if sent.is_empty() || (sent.len() == 1 && is_blank(&sent[0])) {
                return Self::default();
            }
            if let Some(managers) = Self::decode(new).filter(|managers| !managers.is_empty()) {
                return managers;
            }
        }
        live
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&ManagerId, &ManagerEntry)> {
        self.entries.iter()
    }

    pub fn get(&self, owner: &ManagerId) -> Option<&ManagerEntry> {
        self.entries.get(owner)
    }

    pub fn insert(&mut self, owner: ManagerId, entry: ManagerEntry) -> Option<ManagerEntry> {
        self.entries.insert(owner, entry)
    }

    pub fn touch(&mut self, owner: &ManagerId, now: Timestamp) {
        self.set_time(owner, Some(second(now)));
    }

    pub fn set_time(&mut self, owner: &ManagerId, time: Option<String>) {
        if let Some(entry) = self.entries.get_mut(owner) {
            entry.time = time;
        }
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&ManagerId, &mut ManagerEntry) -> bool) {
        self.entries.retain(|owner, entry| keep(owner, entry));
    }

    /// Adds fields to a manager and sets its time.
    pub fn add(&mut self, owner: ManagerId, fields: Set, api_version: &str, now: Timestamp) {
        let entry = self.entries.entry(owner).or_insert_with(|| ManagerEntry {
            api_version: api_version.to_owned(),
            time: None,
            set: OwnedFields::default(),
        });
        entry.set.add(&fields);
        entry.time = Some(second(now));
    }

    /// Merges the oldest updaters of each version when there are too many.
    pub fn cap(&mut self) {
        let is_updater =
            |(owner, _): &(&ManagerId, &ManagerEntry)| owner.operation == Operation::Update;
        let updaters = self.entries.iter().filter(is_updater);
        let mut count = updaters.clone().count();
        if count <= MOST_UPDATERS {
            return;
        }
        let mut updaters: Vec<(i64, ManagerId)> = updaters
            .map(|(owner, entry)| (seconds(entry.time.as_deref()), owner.clone()))
            .collect();
        updaters.sort();
        let mut first: BTreeMap<String, ManagerId> = BTreeMap::new();
        for (_, owner) in updaters {
            if count <= MOST_UPDATERS {
                return;
            }
            let version = owner.api_version.clone();
            let Some(oldest) = first.get(&version) else {
                first.insert(version, owner);
                continue;
            };
            let bucket = ManagerId {
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

    /// Writes the managers into an object, in kube-apiserver's order.
    pub fn encode(self, object: &mut Value) {
        if self.entries.is_empty() {
            return clear(object);
        }
        let managers = serde_json::to_value(self.into_entries());
        object["metadata"]["managedFields"] = managers.expect(WRITABLE);
    }

    /// Returns the managers as the JSON of `managedFields`; `None` if there are none.
    pub fn encode_json(self) -> Option<String> {
        let is_some = !self.entries.is_empty();
        is_some.then(|| serde_json::to_string(&self.into_entries()).expect(WRITABLE))
    }

    fn into_entries(self) -> Vec<ManagedFieldsEntry<OwnedFields>> {
        let mut entries: Vec<(i64, ManagerId, ManagerEntry)> = self
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
        entries.into_iter().map(|(_, owner, entry)| managed_fields_entry(owner, entry)).collect()
    }
}

const WRITABLE: &str = "texts can always be written";
const FIELDS_V1: &str = "FieldsV1";

fn managed_fields_entry(owner: ManagerId, entry: ManagerEntry) -> ManagedFieldsEntry<OwnedFields> {
    ManagedFieldsEntry {
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

/// Formats a time as Kubernetes does: in whole seconds.
fn second(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn seconds(time: Option<&str>) -> i64 {
    time.and_then(|time| time.parse::<Timestamp>().ok()).map_or(0, Timestamp::as_second)
}
