//! Field ownership (`metadata.managedFields`).
//!
//! Every write records which fields its manager owns: a set of field paths per manager, operation and version.
//! [`update`] does so for creates, updates and patches; [`crate::patch::apply`] for server-side apply, which also detects
//! conflicts with it. Call [`update`] after decoding and defaulting and before the kind's own preparation, because fields
//! that the server sets have no owner.

#![allow(clippy::wildcard_enum_match_arm, reason = "JSON's six types are all there will ever be")]

pub mod collect;
pub mod compare;
pub mod element;
pub mod managers;
pub mod merge;
pub mod remove;
mod reset;
mod set;
mod set_cache;
mod typing;
pub mod zero;

pub use reset::reset;
pub use set::Set;

use crate::schema::Shape;
use compare::{Comparison, compare};
use jiff::Timestamp;
use managers::{ManagerId, Managers, Operation};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The facts about a write that ownership depends on.
pub struct WriteContext<'a> {
    /// The API version of the request.
    pub api_version: &'a str,
    /// Returns the kind's shape in a version; `None` for a version that is no longer served.
    pub shape: &'a dyn Fn(&str) -> Option<Shape<'a>>,
    /// Whether the kind is built in: its structs exist even when empty.
    pub is_builtin: bool,
    /// The field manager: the `fieldManager` parameter, or the user agent up to its first slash.
    pub manager: &'a str,
    /// The subresource that was written; empty for the main resource.
    pub subresource: &'a str,
    /// Fields that this endpoint resets, and whose owners therefore do not change through it; see [`reset`].
    pub ignored: &'a Set,
    /// The time of the write.
    pub now: Timestamp,
}

/// Records in `new` the owners of its fields after a create (`live` is `None`), an update or a patch.
pub fn update(live: Option<&Value>, new: &mut Value, write: &WriteContext<'_>) {
    let owned_before = live.and_then(Managers::decode).unwrap_or_default();
    if let Some(managers) = updated(live, owned_before, new, write) {
        managers.encode(new);
    }
}

/// Like [`update`], for an object whose `managedFields` are not parsed: takes their JSON and returns the new one, if any are left.
pub fn update_unparsed(
    live: &Value,
    managed_fields: &[u8],
    new: &mut Value,
    write: &WriteContext<'_>,
) -> Option<String> {
    let owned_before = Managers::decode_json(managed_fields).unwrap_or_default();
    updated(Some(live), owned_before, new, write)?.encode_json()
}

/// Returns the managers of `new`, from which they are removed; `None` if there are to be none.
fn updated(
    live: Option<&Value>,
    owned_before: Managers,
    new: &mut Value,
    write: &WriteContext<'_>,
) -> Option<Managers> {
    let is_main = write.subresource.is_empty();
    let mut managers =
        if is_main { Managers::from_request(owned_before, new) } else { owned_before };
    managers::clear(new);
    // An object whose managers were reset has none until the next apply.
    if managers.is_empty() && live.is_some() {
        return None;
    }
    let before = live.map_or_else(|| Cow::Owned(zero::object(write)), Cow::Borrowed);
    record_update(&before, new, &mut managers, write, write.manager);
    managers.cap();
    Some(managers)
}

/// Assigns the fields that differ between two objects to the writer, and removes them from all other managers.
pub fn record_update(
    live: &Value,
    new: &Value,
    managers: &mut Managers,
    write: &WriteContext<'_>,
    manager: &str,
) {
    let owner = ManagerId {
        manager: manager.to_owned(),
        operation: Operation::Update,
        api_version: write.api_version.to_owned(),
        subresource: write.subresource.to_owned(),
    };
    let mut versions = Versions::new(live, new, write);
    let gained = versions.at(write.api_version).map(|compared| {
        let mut gained = compared.modified.union(&compared.added).without_subtrees(write.ignored);
        gained.strip_metadata();
        gained
    });
    let gained = gained.unwrap_or_default();
    versions.release(managers, &owner, &gained);
    if gained.is_empty() {
        return;
    }
    // The `scale` subresource has no time of its own: its manager keeps the previous time, or has none.
    let time = managers.get(&owner).and_then(|entry| entry.time.clone());
    managers.add(owner.clone(), gained, write.api_version, write.now);
    if write.subresource == "scale" {
        managers.set_time(&owner, time);
    }
}

/// Compares two objects in every version that managers have written in.
pub struct Versions<'a, 'w> {
    live: &'a Value,
    new: &'a Value,
    write: &'a WriteContext<'w>,
    compared: BTreeMap<String, Option<Comparison>>,
}

impl<'a, 'w> Versions<'a, 'w> {
    pub fn new(live: &'a Value, new: &'a Value, write: &'a WriteContext<'w>) -> Self {
        Self { live, new, write, compared: BTreeMap::new() }
    }

    /// Compares the objects in one version; `None` when that version is not served.
    pub fn at(&mut self, api_version: &str) -> Option<&Comparison> {
        if !self.compared.contains_key(api_version) {
            let compared = (self.write.shape)(api_version).map(|shape| {
                let mut compared = compare(self.live, self.new, Some(shape));
                // Only the request's own version has fields that its endpoint resets.
                if api_version == self.write.api_version {
                    compared.ignore(self.write.ignored);
                }
                compared
            });
            self.compared.insert(api_version.to_owned(), compared);
        }
        self.compared.get(api_version).and_then(Option::as_ref)
    }

    /// Removes changed and removed fields from all managers, except those that the writer gains, and drops managers without
    /// fields.
    fn release(&mut self, managers: &mut Managers, writer: &ManagerId, gained: &Set) {
        // A write to `scale` gains its fields again.
        let is_scaling = self.write.subresource == "scale";
        managers.retain(|owner, entry| {
            let Some(compared) = self.at(&entry.api_version) else { return false };
            let is_writer = owner == writer && !is_scaling;
            for lost in [&compared.modified, &compared.added, &compared.removed] {
                if !is_writer {
                    entry.set.subtract(lost);
                } else if !gained.contains(lost) {
                    entry.set.subtract(&lost.difference(gained));
                }
            }
            !entry.set.is_empty()
        });
    }
}

/// Restores the old times when nothing but times changed, so that a write without effect changes nothing.
pub fn restore_unchanged_times(old: &Value, new: &mut Value) {
    let (were, are) = (&old["metadata"]["managedFields"], &new["metadata"]["managedFields"]);
    if were == are || !is_same_but_for_times(were, are) {
        return;
    }
    let fresh = new["metadata"]["managedFields"].take();
    new["metadata"]["managedFields"] = old["metadata"]["managedFields"].clone();
    if *old != *new {
        new["metadata"]["managedFields"] = fresh;
    }
}

fn is_same_but_for_times(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_array(), other.as_array()) else { return false };
    let timeless =
        |entry: &Map<String, Value>| entry.len() - usize::from(entry.contains_key("time"));
    let is_same = |(a, b): (&Value, &Value)| {
        let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return a == b };
        timeless(a) == timeless(b)
            && a.iter().all(|(name, value)| name == "time" || b.get(name) == Some(value))
    };
    one.len() == other.len() && one.iter().zip(other).all(is_same)
}
