//! Garbage collection: deletes objects whose owners are gone.
//!
//! The graph is built from the owner references of dependents alone; an owner is looked up when it is needed. A dependent is
//! deleted when the last of its owners is gone. An owner in foreground deletion waits for the dependents that block it. An
//! owner deleted with the orphan policy is first removed from the owner references of its dependents. Where owners wait for each
//! other in a circle, one of them stops blocking its own owners.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::{Meta, OwnerReference, stored_resource};
use crate::core::Core;
use crate::rest::internal::{self, Propagation};
use crate::store::ObjectKey;
use apimachinery::resource::{Resource, split_key};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The dependency graph, and the objects to check.
#[derive(Default)]
pub(super) struct Garbage {
    dependents: BTreeMap<String, BTreeSet<ObjectKey>>,
    owners: BTreeMap<ObjectKey, Vec<String>>,
    /// Dependents to check: new ones, and those of which an owner was deleted or changed.
    dependents_to_check: BTreeSet<ObjectKey>,
    /// Owners that wait for their dependents.
    waiting: BTreeMap<String, ObjectKey>,
    waiting_to_check: BTreeSet<String>,
}

/// The state of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerState {
    Absent,
    Present,
    /// In foreground deletion: it waits for its dependents.
    Waiting,
}

impl Garbage {
    /// Records a write or a deletion of an object.
    pub(super) fn observe(
        &mut self,
        collection: &Arc<str>,
        key: &Arc<str>,
        meta: Meta,
        deleted: bool,
    ) {
        let object_key = (Arc::clone(collection), Arc::clone(key));
        let before = self.owners.remove(&object_key).unwrap_or_default();
        for uid in &before {
            if let Some(dependents) = self.dependents.get_mut(uid) {
                dependents.remove(&object_key);
                if dependents.is_empty() {
                    self.dependents.remove(uid);
                }
            }
            if self.waiting.contains_key(uid) {
                self.waiting_to_check.insert(uid.clone());
            }
        }
        if !deleted && !meta.owner_references.is_empty() {
            let uids: Vec<String> = meta.owner_references.into_iter().map(|o| o.uid).collect();
            for uid in &uids {
                self.dependents.entry(uid.clone()).or_default().insert(object_key.clone());
            }
            self.owners.insert(object_key.clone(), uids);
            self.dependents_to_check.insert(object_key.clone());
        }
        let waits = meta.finalizers.iter().any(|f| f == ORPHAN || f == FOREGROUND);
        if !deleted && meta.deletion_timestamp.is_some() && waits {
            self.waiting_to_check.insert(meta.uid.clone());
            self.waiting.insert(meta.uid, object_key);
        } else {
            self.waiting.remove(&meta.uid);
            if deleted && let Some(dependents) = self.dependents.get(&meta.uid) {
                self.dependents_to_check.extend(dependents.iter().cloned());
            }
        }
    }

    /// Checks all marked objects.
    pub(super) async fn reconcile(&mut self, core: &Arc<Core>) {
        for uid in std::mem::take(&mut self.waiting_to_check) {
            if let Some(object_key) = self.waiting.get(&uid).cloned() {
                self.reconcile_waiting_owner(core, &uid, &object_key).await;
            }
        }
        for object_key in std::mem::take(&mut self.dependents_to_check) {
            self.reconcile_dependent(core, &object_key).await;
        }
    }

    /// Orphans or deletes the dependents of an owner that is being deleted.
    async fn reconcile_waiting_owner(
        &mut self,
        core: &Arc<Core>,
        uid: &str,
        object_key: &ObjectKey,
    ) {
        let Some((resource, meta)) = find_object(core, object_key) else { return };
        if meta.uid != uid {
            return;
        }
        let dependents: Vec<ObjectKey> =
            self.dependents.get(uid).into_iter().flatten().cloned().collect();
        if meta.finalizers.iter().any(|f| f == ORPHAN) {
            for dependent in &dependents {
                remove_owners(core, dependent, &[uid.to_owned()]).await;
            }
            remove_finalizer(core, &resource, object_key, ORPHAN).await;
            return;
        }
        let mut is_blocked = false;
        for dependent in &dependents {
            let Some((_, meta)) = find_object(core, dependent) else { continue };
            if meta.owner_references.iter().any(|o| o.uid == uid && o.block_owner_deletion) {
                is_blocked = true;
            }
            self.dependents_to_check.insert(dependent.clone());
        }
        if !is_blocked {
            remove_finalizer(core, &resource, object_key, FOREGROUND).await;
        }
    }

    /// Deletes a dependent whose owners are all gone.
    async fn reconcile_dependent(&self, core: &Arc<Core>, object_key: &ObjectKey) {
        let Some((resource, meta)) = find_object(core, object_key) else { return };
        let states: Vec<OwnerState> = meta
            .owner_references
            .iter()
            .map(|owner| owner_state(core, object_key, owner))
            .collect();
        if meta.owner_references.is_empty() {
            return;
        }
        let is_foreground = meta.finalizers.iter().any(|f| f == FOREGROUND);
        if meta.deletion_timestamp.is_some()
            && !is_foreground
            && !states.contains(&OwnerState::Waiting)
        {
            return;
        }
        if states.contains(&OwnerState::Present) {
            let gone = meta
                .owner_references
                .iter()
                .zip(&states)
                .filter(|(_, s)| **s != OwnerState::Present);
            let gone: Vec<String> = gone.map(|(owner, _)| owner.uid.clone()).collect();
            if !gone.is_empty() {
                remove_owners(core, object_key, &gone).await;
            }
            return;
        }
        if meta.deletion_timestamp.is_some() {
            return;
        }
        let is_awaited =
            states.contains(&OwnerState::Waiting) && self.dependents.contains_key(&meta.uid);
        if is_awaited && self.has_waiting_dependent(core, &meta.uid) {
            unblock_owners(core, object_key).await;
        }
        let propagation = if meta.finalizers.iter().any(|f| f == ORPHAN) {
            Propagation::Orphan
        } else if is_foreground || is_awaited {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        let (namespace, name) = split_key(&object_key.1);
        internal::delete(core, &resource, namespace, name, Some(&meta.uid), propagation).await;
    }

    /// Whether a dependent of an owner is itself in foreground deletion.
    fn has_waiting_dependent(&self, core: &Core, uid: &str) -> bool {
        let dependents = self.dependents.get(uid).into_iter().flatten();
        let mut found = dependents.filter_map(|dependent| find_object(core, dependent));
        found.any(|(_, meta)| is_waiting(&meta))
    }
}

/// Whether an object is in foreground deletion.
fn is_waiting(meta: &Meta) -> bool {
    meta.deletion_timestamp.is_some() && meta.finalizers.iter().any(|f| f == FOREGROUND)
}

/// Returns the resource and the metadata of an object.
fn find_object(core: &Core, (collection, key): &ObjectKey) -> Option<(Arc<Resource>, Meta)> {
    let object = core.store.get(collection, key)?;
    Some((stored_resource(core, collection)?, Meta::from_object(&object)))
}

/// Returns the state of an owner, which is in the namespace of its dependent or cluster-scoped.
fn owner_state(core: &Core, dependent: &ObjectKey, owner: &OwnerReference) -> OwnerState {
    let served = core.registry.served();
    let Some(resource) = served.find_kind(&owner.api_version, &owner.kind) else {
        // A kind that is not served now may be served again, so the dependent is kept.
        return OwnerState::Present;
    };
    let (namespace, _) = split_key(&dependent.1);
    let found = core.store.get(&resource.storage, &resource.key(namespace, &owner.name));
    let Some(meta) =
        found.map(|object| Meta::from_object(&object)).filter(|meta| meta.uid == owner.uid)
    else {
        return OwnerState::Absent;
    };
    if is_waiting(&meta) { OwnerState::Waiting } else { OwnerState::Present }
}

/// Removes owners from the owner references of a dependent.
async fn remove_owners(core: &Arc<Core>, object_key: &ObjectKey, gone: &[String]) {
    let Some(resource) = stored_resource(core, &object_key.0) else { return };
    let (namespace, name) = split_key(&object_key.1);
    internal::change(core, &resource, namespace, name, &[], |object| {
        let Some(metadata) = object["metadata"].as_object_mut() else { return };
        let Some(owners) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) else {
            return;
        };
        owners.retain(|owner| !gone.iter().any(|uid| owner["uid"] == uid.as_str()));
        if owners.is_empty() {
            metadata.remove("ownerReferences");
        }
    })
    .await;
}

/// Lets the owners of a dependent be deleted before it.
async fn unblock_owners(core: &Arc<Core>, object_key: &ObjectKey) {
    let Some(resource) = stored_resource(core, &object_key.0) else { return };
    let (namespace, name) = split_key(&object_key.1);
    internal::change(core, &resource, namespace, name, &[], |object| {
        let owners = object["metadata"].get_mut("ownerReferences").and_then(Value::as_array_mut);
        for owner in owners.into_iter().flatten() {
            owner["blockOwnerDeletion"] = Value::Bool(false);
        }
    })
    .await;
}

/// Removes a finalizer from an owner, which deletes it if that was the last one.
async fn remove_finalizer(
    core: &Arc<Core>,
    resource: &Arc<Resource>,
    object_key: &ObjectKey,
    finalizer: &str,
) {
    let (namespace, name) = split_key(&object_key.1);
    internal::change(core, resource, namespace, name, &[], |object| {
        let Some(metadata) = object["metadata"].as_object_mut() else { return };
        let Some(finalizers) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) else {
            return;
        };
        finalizers.retain(|f| f != finalizer);
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        }
    })
    .await;
}
