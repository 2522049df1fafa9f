//! Who owns which field of an object?
//!
//! Every write leaves its mark in `metadata.managedFields`: a set of field paths per manager, operation and version.
//! [`update`] keeps the marks of creates, updates and patches; [`crate::patch::apply`] those of server-side apply,
//! which also decides by them. Call [`update`] after decoding and defaulting and before the kind's own preparation,
//! because fields the server fills in by itself belong to nobody.

#![allow(clippy::wildcard_enum_match_arm, reason = "JSON's six types are all there will ever be")]

pub mod collect;
pub mod compare;
pub mod element;
mod known;
pub mod managers;
pub mod merge;
pub mod remove;
mod reset;
mod set;
mod typing;
pub mod zero;

pub use reset::reset;
pub use set::Set;

use crate::schema::Shape;
use compare::{Comparison, compare};
use jiff::Timestamp;
use managers::{Managers, Operation, Owner};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What a write needs to know to keep ownership.
pub struct Write<'a> {
    /// The version the request speaks, as in `apiVersion`.
    pub api_version: &'a str,
    /// Finds the kind's shape in a version; `None` for a version that is not served any more.
    pub shape: &'a dyn Fn(&str) -> Option<Shape<'a>>,
    /// Whether the kind is a built-in one, whose structs are there even when empty.
    pub is_builtin: bool,
    /// Who writes: the `fieldManager` parameter, or the user agent up to its first slash.
    pub manager: &'a str,
    /// The subresource written through; empty for the object itself.
    pub subresource: &'a str,
    /// Fields that this endpoint resets, which therefore nobody gains through it; see [`reset`].
    pub ignored: &'a Set,
    /// The time of the write.
    pub now: Timestamp,
}

/// Notes in `new` who owns what after a create (`live` is `None`), an update or a patch.
pub fn update(live: Option<&Value>, new: &mut Value, write: &Write<'_>) {
    let mut managers = if write.subresource.is_empty() {
        Managers::from_request(live, new)
    } else {
        live.map(|live| Managers::decode(live).unwrap_or_default()).unwrap_or_default()
    };
    managers::clear(new);
    // An object whose ownership was reset stays without until somebody applies.
    if managers.is_empty() && live.is_some() {
        return;
    }
    let before = live.map_or_else(|| Cow::Owned(zero::object(write)), Cow::Borrowed);
    note_update(&before, new, &mut managers, write, write.manager);
    managers.cap();
    managers.encode(new, live);
}

/// Gives the writer what differs between two objects, and takes it from all others.
pub fn note_update(
    live: &Value,
    new: &Value,
    managers: &mut Managers,
    write: &Write<'_>,
    manager: &str,
) {
    let owner = Owner {
        manager: manager.to_owned(),
        operation: Operation::Update,
        api_version: write.api_version.to_owned(),
        subresource: write.subresource.to_owned(),
    };
    let mut versions = Versions::new(live, new, write);
    let gained = versions.at(write.api_version).map(|compared| {
        let mut gained = compared.modified.union(&compared.added).without_all_of(write.ignored);
        gained.strip_metadata();
        gained
    });
    let gained = gained.unwrap_or_default();
    versions.release(managers, &owner, &gained);
    if gained.is_empty() {
        return;
    }
    // The scale of an object has no times of its own: whoever scales keeps the one it had, or none.
    let time = managers.get(&owner).and_then(|entry| entry.time.clone());
    managers.add(owner.clone(), gained, write.api_version, write.now);
    if write.subresource == "scale" {
        managers.set_time(&owner, time);
    }
}

/// Compares two objects in every version that managers wrote in.
pub struct Versions<'a, 'w> {
    live: &'a Value,
    new: &'a Value,
    write: &'a Write<'w>,
    compared: BTreeMap<String, Option<Comparison>>,
}

impl<'a, 'w> Versions<'a, 'w> {
    pub fn new(live: &'a Value, new: &'a Value, write: &'a Write<'w>) -> Self {
        Self { live, new, write, compared: BTreeMap::new() }
    }

    /// Compares as one version sees it; `None` when that version is not served.
    pub fn at(&mut self, api_version: &str) -> Option<&Comparison> {
        if !self.compared.contains_key(api_version) {
            let compared = (self.write.shape)(api_version).map(|shape| {
                let mut compared = compare(self.live, self.new, Some(shape));
                // Only the requests' own version has fields that its endpoint resets.
                if api_version == self.write.api_version {
                    compared.ignore(self.write.ignored);
                }
                compared
            });
            self.compared.insert(api_version.to_owned(), compared);
        }
        self.compared.get(api_version).and_then(Option::as_ref)
    }

    /// Takes changed and removed fields from all managers, but from the writer not what it gains, and drops those that are
    /// left with nothing.
    fn release(&mut self, managers: &mut Managers, writer: &Owner, gained: &Set) {
        // Whoever scales an object gains anew what it had.
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

/// Keeps the old times when nothing but times changed, so that a write without effect changes nothing.
pub fn settle(old: &Value, new: &mut Value) {
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
