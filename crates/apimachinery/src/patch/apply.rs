//! Server-side apply.
//!
//! Applied fields are merged into the live object and owned by the manager. Fields that it applied before and now omits are
//! removed, unless another manager owns them too. A field that another manager owns with another value is a conflict unless
//! the caller forces it.

mod check;

use crate::fields::collect::{collect, with_named_fields};
use crate::fields::managers::{ManagerEntry, ManagerId, Managers, Operation, clear};
use crate::fields::merge::merge;
use crate::fields::remove::{drop_emptied, remove};
use crate::fields::{Set, Versions, WriteContext, element, record_update, zero};
use crate::schema::Shape;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};

/// The most conflicts that are listed.
const MOST_CONFLICTS: usize = 1000;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The reason why a configuration could not be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// 400, with this text.
    #[error("{0}")]
    Refused(String),
    /// 500 without a reason, with this message: kube-apiserver's answer to a configuration of the wrong type.
    #[error("{0}")]
    Unexpected(String),
    /// 409, with a cause for each field; see [`Conflicts`].
    #[error("{0}")]
    Conflicts(Conflicts),
}

/// The fields that other managers own with other values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts {
    /// The owner and the field, as in `.spec.replicas`.
    pub fields: Vec<(ManagerId, String)>,
}

impl Conflicts {
    /// Returns the causes for the `Status`: each message and its field.
    pub fn causes(&self) -> impl Iterator<Item = (String, &str)> {
        self.fields.iter().map(|(owner, field)| (format!("conflict with {owner}"), field.as_str()))
    }
}

impl std::fmt::Display for Conflicts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let [(owner, field)] = &self.fields[..] {
            return write!(f, "Apply failed with 1 conflict: conflict with {owner}: {field}");
        }
        let mut by_owner: BTreeMap<&ManagerId, Vec<&str>> = BTreeMap::new();
        for (owner, field) in &self.fields {
            by_owner.entry(owner).or_default().push(field);
        }
        let mut lines = Vec::new();
        for (owner, fields) in by_owner {
            lines.push(format!("conflicts with {owner}:"));
            lines.extend(fields.iter().map(|field| format!("- {field}")));
        }
        write!(f, "Apply failed with {} conflicts: {}", self.fields.len(), lines.join("\n"))
    }
}

/// Applies a configuration to the live object, or creates the object.
///
/// The result has its managers and has not been defaulted. The caller has checked that kind and version are those of the
/// endpoint ([`check_kind`]).
pub fn apply(
    live: Option<&Value>,
    applied: &Value,
    write: &WriteContext<'_>,
    force: bool,
) -> Result<Value, Error> {
    if !applied["metadata"]["managedFields"].is_null() {
        return Err(Error::Refused("metadata.managedFields must be nil".into()));
    }
    let shape = (write.shape)(write.api_version);
    check::typed(applied, shape).map_err(|why| {
        Error::Unexpected(format!(
            "failed to create typed patch object ({}): {why}",
            check::name(applied)
        ))
    })?;
    let empty = zero::object(write);
    let live = live.unwrap_or(&empty);
    match attempt(live, applied, write, shape, force) {
        Err(Error::Conflicts(conflicts)) if write.manager == "kubectl" => {
            // Fields that client-side apply wrote and that are unchanged since are taken over without force.
            let (taken, found) = (last_applied(live, write, shape), conflicts.fields.len());
            let left: Vec<_> =
                conflicts.fields.into_iter().filter(|(_, field)| !taken.contains(field)).collect();
            if left.is_empty() && found < MOST_CONFLICTS {
                attempt(live, applied, write, shape, true)
            } else {
                Err(Error::Conflicts(Conflicts { fields: left }))
            }
        }
        other => other,
    }
    .map(|object| renew_last_applied(object, applied, write))
}

/// Rejects a configuration whose kind or version differs from the endpoint's.
pub fn check_kind(applied: &Value, api_version: &str, kind: &str) -> Result<(), Error> {
    if applied["apiVersion"] == api_version && applied["kind"] == kind {
        return Ok(());
    }
    Err(Error::Refused(format!("invalid object type: {}", check::kind(applied))))
}

fn attempt(
    live: &Value,
    applied: &Value,
    write: &WriteContext<'_>,
    shape: Option<Shape<'_>>,
    force: bool,
) -> Result<Value, Error> {
    let mut managers = Managers::decode(live).ok_or_else(|| {
        Error::Unexpected(
            "failed to decode managed fields: operation must be `Apply` or `Update`".into(),
        )
    })?;
    if managers.is_empty() {
        // Existing fields get a manager of their own, so that the first apply does not take them over.
        record_update(&zero::object(write), live, &mut managers, write, "before-first-apply");
    }
    let owner = ManagerId {
        manager: write.manager.to_owned(),
        operation: Operation::Apply,
        api_version: String::new(),
        subresource: write.subresource.to_owned(),
    };
    let merged = merge(live, applied, shape);
    let set = collect(applied, shape).without_subtrees(write.ignored);
    let previous = managers.get(&owner).cloned();
    let time = previous.as_ref().and_then(|entry| entry.time.clone());
    managers.insert(
        owner.clone(),
        ManagerEntry { api_version: write.api_version.to_owned(), time, set: set.into() },
    );
    let mut new = prune(&merged, &managers, previous.as_ref(), write);
    resolve_ownership(live, &new, &mut managers, &owner, write, force)?;
    drop_emptied(&mut new, &merged);
    managers.retain(|other, entry| {
        if *other == owner {
            entry.set.change().strip_metadata();
        }
        !entry.set.is_empty()
    });
    if without_managers(live) != without_managers(&new) {
        managers.touch(&owner, write.now);
    }
    managers.encode(&mut new);
    Ok(new)
}

fn without_managers(object: &Value) -> Value {
    let mut bare = object.clone();
    clear(&mut bare);
    bare
}

/// Returns the conflicts with other managers or, when forced or without conflicts, removes changed fields from them.
fn resolve_ownership(
    live: &Value,
    new: &Value,
    managers: &mut Managers,
    owner: &ManagerId,
    write: &WriteContext<'_>,
    force: bool,
) -> Result<(), Error> {
    let mut versions = Versions::new(live, new, write);
    let mut conflicts = Vec::new();
    managers.retain(|other, entry| {
        if other == owner {
            return true;
        }
        let Some(compared) = versions.at(&entry.api_version) else { return false };
        let taken = entry.set.intersection(&compared.modified.union(&compared.added));
        let paths = taken.paths(MOST_CONFLICTS.saturating_sub(conflicts.len()));
        conflicts.extend(paths.iter().map(|path| (other.clone(), element::display(path))));
        entry.set.subtract(&taken);
        entry.set.subtract(&compared.removed);
        !entry.set.is_empty()
    });
    if force || conflicts.is_empty() {
        Ok(())
    } else {
        Err(Error::Conflicts(Conflicts { fields: conflicts }))
    }
}

/// Removes fields that the manager applied before and now omits, unless another manager owns them.
fn prune(
    merged: &Value,
    managers: &Managers,
    previous: Option<&ManagerEntry>,
    write: &WriteContext<'_>,
) -> Value {
    let Some(previous) = previous.filter(|previous| !previous.set.is_empty()) else {
        return merged.clone();
    };
    let Some(shape) = (write.shape)(&previous.api_version) else { return merged.clone() };
    let shape = Some(shape);
    let last = with_named_fields(&previous.set, shape);
    let mut pruned = merged.clone();
    remove(&mut pruned, &last, shape);

    let mut owned: BTreeMap<&str, Set> = BTreeMap::new();
    for (_, entry) in managers.iter() {
        owned.entry(&entry.api_version).or_default().add(&entry.set);
    }
    for (version, owned) in owned {
        let Some(shape) = (write.shape)(version) else { continue };
        let shape = Some(shape);
        let all = with_named_fields(&collect(merged, shape), shape);
        let kept = with_named_fields(&collect(&pruned, shape), shape)
            .union(&with_named_fields(&owned, shape));
        pruned = merged.clone();
        remove(&mut pruned, &all.difference(&kept), shape);
    }
    // Only fields that the manager itself applied may be removed; others that were removed with them are restored.
    let kept = with_named_fields(&collect(&pruned, shape), shape);
    let all = with_named_fields(&collect(merged, shape), shape);
    let mut result = merged.clone();
    remove(&mut result, &all.difference(&kept).intersection(&last), shape);
    result
}

/// Returns the fields that `kubectl apply` wrote last and that still have those values.
fn last_applied(
    live: &Value,
    write: &WriteContext<'_>,
    shape: Option<Shape<'_>>,
) -> HashSet<String> {
    let text = live["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap_or_default();
    let Ok(last) = serde_json::from_str::<Value>(text) else { return HashSet::new() };
    if last["apiVersion"] != write.api_version {
        return HashSet::new();
    }
    let compared = crate::fields::compare::compare(&last, live, shape);
    let set = collect(&last, shape);
    let set = set
        .difference(&compared.modified)
        .difference(&compared.added)
        .difference(&compared.removed);
    set.paths(usize::MAX).iter().map(|path| element::display(path)).collect()
}

/// Updates the annotation of client-side apply, so that a user may return to it.
fn renew_last_applied(mut object: Value, applied: &Value, write: &WriteContext<'_>) -> Value {
    let annotation = &object["metadata"]["annotations"][LAST_APPLIED];
    if write.manager == "kubectl" && annotation.as_str().is_some_and(|text| !text.is_empty()) {
        let mut applied = applied.clone();
        if let Some(Value::Object(annotations)) = applied.pointer_mut("/metadata/annotations") {
            annotations.remove(LAST_APPLIED);
        }
        object["metadata"]["annotations"][LAST_APPLIED] = Value::from(format!("{applied}\n"));
    }
    object
}

#[cfg(test)]
mod tests;
