//! What becomes of objects whose owners are gone, or about to go?
//!
//! Who owns what is known from the dependents alone: an owner is looked up when it is asked for. A dependent goes when the
//! last of its owners is gone; an owner that is deleted in the foreground waits for those who block it; one that orphans
//! lets them go first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::{Meta, Owner, Place, shown_as};
use crate::core::Core;
use crate::rest::internal::{self, Propagation};
use apimachinery::resource::{Resource, split_key};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Who depends on whom, and who is to be looked at.
#[derive(Default)]
pub(super) struct Garbage {
    dependents: BTreeMap<String, BTreeSet<Place>>,
    owners: BTreeMap<Place, Vec<String>>,
    /// Dependents to be looked at: one of their owners went or changed, or they are new.
    dependents_to_see: BTreeSet<Place>,
    /// Owners that wait for their dependents.
    waiting: BTreeMap<String, Place>,
    waiting_to_see: BTreeSet<String>,
}

/// How an owner of a dependent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Gone,
    There,
    /// It is being deleted, and waits for its dependents.
    Waiting,
}

impl Garbage {
    /// Takes notice of an object.
    pub(super) fn note(
        &mut self,
        collection: &Arc<str>,
        key: &Arc<str>,
        meta: Meta,
        deleted: bool,
    ) {
        let place = (Arc::clone(collection), Arc::clone(key));
        let before = self.owners.remove(&place).unwrap_or_default();
        for uid in &before {
            if let Some(dependents) = self.dependents.get_mut(uid) {
                dependents.remove(&place);
                if dependents.is_empty() {
                    self.dependents.remove(uid);
                }
            }
            if self.waiting.contains_key(uid) {
                self.waiting_to_see.insert(uid.clone());
            }
        }
        if !deleted && !meta.owner_references.is_empty() {
            let uids: Vec<String> = meta.owner_references.into_iter().map(|o| o.uid).collect();
            for uid in &uids {
                self.dependents.entry(uid.clone()).or_default().insert(place.clone());
            }
            self.owners.insert(place.clone(), uids);
            self.dependents_to_see.insert(place.clone());
        }
        let waits = meta.finalizers.iter().any(|f| f == ORPHAN || f == FOREGROUND);
        if !deleted && meta.deletion_timestamp.is_some() && waits {
            self.waiting_to_see.insert(meta.uid.clone());
            self.waiting.insert(meta.uid, place);
        } else {
            self.waiting.remove(&meta.uid);
            if deleted && let Some(dependents) = self.dependents.get(&meta.uid) {
                self.dependents_to_see.extend(dependents.iter().cloned());
            }
        }
    }

    /// Looks at everyone who is to be looked at.
    pub(super) async fn work(&mut self, core: &Arc<Core>) {
        for uid in std::mem::take(&mut self.waiting_to_see) {
            if let Some(place) = self.waiting.get(&uid).cloned() {
                self.see_waiting(core, &uid, &place).await;
            }
        }
        for place in std::mem::take(&mut self.dependents_to_see) {
            self.see_dependent(core, &place).await;
        }
    }

    /// Looks at an owner that is being deleted and waits.
    async fn see_waiting(&mut self, core: &Arc<Core>, uid: &str, place: &Place) {
        let Some((resource, meta)) = look(core, place) else { return };
        if meta.uid != uid {
            return;
        }
        let dependents: Vec<Place> =
            self.dependents.get(uid).into_iter().flatten().cloned().collect();
        if meta.finalizers.iter().any(|f| f == ORPHAN) {
            for dependent in &dependents {
                disown(core, dependent, &[uid.to_owned()]).await;
            }
            release(core, &resource, place, ORPHAN).await;
            return;
        }
        let mut is_blocked = false;
        for dependent in &dependents {
            let Some((_, meta)) = look(core, dependent) else { continue };
            if meta.owner_references.iter().any(|o| o.uid == uid && o.block_owner_deletion) {
                is_blocked = true;
            }
            self.dependents_to_see.insert(dependent.clone());
        }
        if !is_blocked {
            release(core, &resource, place, FOREGROUND).await;
        }
    }

    /// Looks at a dependent: it goes with its last owner.
    async fn see_dependent(&self, core: &Arc<Core>, place: &Place) {
        let Some((resource, meta)) = look(core, place) else { return };
        let states: Vec<State> =
            meta.owner_references.iter().map(|owner| state_of(core, place, owner)).collect();
        if meta.owner_references.is_empty() {
            return;
        }
        let is_foreground = meta.finalizers.iter().any(|f| f == FOREGROUND);
        if meta.deletion_timestamp.is_some() && !is_foreground && !states.contains(&State::Waiting)
        {
            return;
        }
        if states.contains(&State::There) {
            let gone =
                meta.owner_references.iter().zip(&states).filter(|(_, s)| **s != State::There);
            let gone: Vec<String> = gone.map(|(owner, _)| owner.uid.clone()).collect();
            if !gone.is_empty() {
                disown(core, place, &gone).await;
            }
            return;
        }
        if meta.deletion_timestamp.is_some() {
            return;
        }
        let has_dependents = self.dependents.contains_key(&meta.uid);
        let propagation = if meta.finalizers.iter().any(|f| f == ORPHAN) {
            Propagation::Orphan
        } else if is_foreground || (states.contains(&State::Waiting) && has_dependents) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        let (namespace, name) = split_key(&place.1);
        internal::delete(core, &resource, namespace, name, Some(&meta.uid), propagation).await;
    }
}

/// Reads the metadata of an object, and how it is served.
fn look(core: &Core, (collection, key): &Place) -> Option<(Arc<Resource>, Meta)> {
    let object = core.store.get(collection, key)?;
    Some((shown_as(core, collection)?, Meta::of(&object)))
}

/// Finds an owner. It lives in the namespace of its dependent, or in none.
fn state_of(core: &Core, dependent: &Place, owner: &Owner) -> State {
    let served = core.registry.served();
    let Some(resource) = served.find_kind(&owner.api_version, &owner.kind) else {
        // What is not served now may be again: better to keep too much.
        return State::There;
    };
    let (namespace, _) = split_key(&dependent.1);
    let found = core.store.get(&resource.storage, &resource.key(namespace, &owner.name));
    let Some(meta) = found.map(|object| Meta::of(&object)).filter(|meta| meta.uid == owner.uid)
    else {
        return State::Gone;
    };
    let is_waiting =
        meta.deletion_timestamp.is_some() && meta.finalizers.iter().any(|f| f == FOREGROUND);
    if is_waiting { State::Waiting } else { State::There }
}

/// Takes owners off a dependent.
async fn disown(core: &Arc<Core>, place: &Place, gone: &[String]) {
    let Some(resource) = shown_as(core, &place.0) else { return };
    let (namespace, name) = split_key(&place.1);
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

/// Takes a finalizer off an owner, which may be the last thing that keeps it.
async fn release(core: &Arc<Core>, resource: &Arc<Resource>, place: &Place, finalizer: &str) {
    let (namespace, name) = split_key(&place.1);
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
