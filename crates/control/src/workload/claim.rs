//! Ownership of objects: a controller keeps those that it controls and still selects, and adopts those that it selects and that have
//! no controller.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use cluster::write::{self, PatchTarget};
use cluster::{Cache, CacheEntry, Error, Key};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::core::{Selector, SelectorExt as _};
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::json;

/// The objects of a kind without a controller, by namespace.
#[derive(Default)]
pub(super) struct Orphans(Mutex<BTreeMap<String, BTreeSet<Key>>>);

impl Orphans {
    /// Updates the index after a change of an object.
    pub(super) fn update(&self, old: Option<&ObjectMeta>, new: Option<&ObjectMeta>) {
        let Some(meta) = new.or(old) else { return };
        let namespace = meta.namespace.clone().unwrap_or_default();
        let is_orphan = new.is_some_and(|new| controller(new).is_none());
        let mut orphans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_orphan {
            orphans.entry(namespace).or_default().insert(Key::from_meta(meta));
        } else if let Some(of_namespace) = orphans.get_mut(&namespace) {
            of_namespace.remove(&Key::from_meta(meta));
            if of_namespace.is_empty() {
                orphans.remove(&namespace);
            }
        }
    }

    fn of_namespace(&self, namespace: &str) -> Vec<Key> {
        let orphans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        orphans.get(namespace).into_iter().flatten().cloned().collect()
    }
}

/// Returns the reference of an object to its controller, as kind, name and uid.
pub(super) fn controller(meta: &ObjectMeta) -> Option<(&str, &str, &str)> {
    let owners = meta.owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    Some((&owner.kind, &owner.name, &owner.uid))
}

/// Returns the reference of an object to its controller `owner`, which a foreground deletion of the owner waits for.
pub(super) fn owner_reference<K: Resource<DynamicType = ()>>(owner: &K) -> Option<OwnerReference> {
    let reference = owner.controller_owner_ref(&())?;
    Some(OwnerReference { block_owner_deletion: Some(true), ..reference })
}

/// Reads a selector; `None` for one that cannot be read, or selects everything.
pub(super) fn selector(selector: &LabelSelector) -> Option<Selector> {
    Selector::try_from(selector.clone()).ok().filter(|selector| !selector.selects_all())
}

/// Returns the objects that `owner` controls, after releasing those that it no longer selects and adopting those that it does.
/// Objects for which `can_adopt` returns false are not adopted.
pub(super) async fn claim<K, E>(
    client: &Client,
    owner: &K,
    selector: &Selector,
    (cache, orphans): (&Cache<E>, &Orphans),
    can_adopt: impl Fn(&E) -> bool,
) -> Result<Vec<Arc<E>>, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
    E: CacheEntry,
    E::Object: Resource<Scope = NamespaceResourceScope>,
{
    let uid = owner.meta().uid.as_deref().unwrap_or_default();
    let is_selected =
        |entry: &E| selector.matches(entry.meta().labels.as_ref().unwrap_or(&BTreeMap::new()));
    if owner.meta().deletion_timestamp.is_some() {
        return Ok(cache.owned(uid, Arc::clone));
    }
    for entry in cache.owned(uid, Arc::clone).iter().filter(|entry| !is_selected(entry)) {
        release(client, cache, &**entry, uid).await?;
    }
    let namespace = owner.meta().namespace.as_deref().unwrap_or_default();
    let orphans = orphans.of_namespace(namespace).into_iter().filter_map(|key| cache.get(&key));
    let orphans = orphans.filter(|orphan| {
        let meta = orphan.meta();
        meta.deletion_timestamp.is_none()
            && controller(meta).is_none()
            && is_selected(orphan)
            && can_adopt(orphan)
    });
    let orphans: Vec<_> = orphans.collect();
    if !orphans.is_empty() && still_exists(client, owner).await? {
        for orphan in orphans {
            adopt(client, cache, &*orphan, owner).await?;
        }
    }
    Ok(cache.owned(uid, Arc::clone))
}

/// Reads the owner from the API server: nothing is adopted for an owner that is being deleted.
async fn still_exists<K>(client: &Client, owner: &K) -> Result<bool, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let api = write::api::<K>(client, &Key::from_meta(owner.meta()));
    let found = api.get_opt(&owner.name_any()).await.map_err(Error::api("read an owner"))?;
    Ok(found.is_some_and(|found| {
        found.meta().uid == owner.meta().uid && found.meta().deletion_timestamp.is_none()
    }))
}

async fn adopt<K, E>(client: &Client, cache: &Cache<E>, orphan: &E, owner: &K) -> Result<(), Error>
where
    K: Resource<DynamicType = ()>,
    E: CacheEntry,
    E::Object: Resource<Scope = NamespaceResourceScope>,
{
    let mut owners = orphan.meta().owner_references.clone().unwrap_or_default();
    owners.retain(|other| Some(&other.uid) != owner.meta().uid.as_ref());
    owners.extend(owner_reference(owner));
    let change = json!({"metadata": {"ownerReferences": owners}});
    write::patch(client, cache, orphan, PatchTarget::Object, change, "adopt an object").await
}

async fn release<E>(client: &Client, cache: &Cache<E>, owned: &E, uid: &str) -> Result<(), Error>
where
    E: CacheEntry,
    E::Object: Resource<Scope = NamespaceResourceScope>,
{
    let mut owners = owned.meta().owner_references.clone().unwrap_or_default();
    owners.retain(|owner| owner.uid != uid);
    let owners = (!owners.is_empty()).then_some(owners);
    let change = json!({"metadata": {"ownerReferences": owners}});
    write::patch(client, cache, owned, PatchTarget::Object, change, "release an object").await
}
