//! The storage that pods refer to: claims, volumes and storage classes.

use std::collections::BTreeMap;

use api::nodes::Volumes;
use cluster::Key;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Resource;

use crate::watches::Delta;

/// Storage objects by key.
#[derive(Default)]
pub(crate) struct Storage {
    pub(crate) claims: BTreeMap<Key, PersistentVolumeClaim>,
    pub(crate) volumes: BTreeMap<Key, PersistentVolume>,
    pub(crate) classes: BTreeMap<Key, StorageClass>,
}

impl Storage {
    /// Returns every object by name, as pods refer to them.
    pub(crate) fn lookup(&self) -> Volumes<'_> {
        let claims = self.claims.iter();
        Volumes {
            claims: claims.map(|(key, claim)| ((&*key.namespace, &*key.name), claim)).collect(),
            volumes: self.volumes.iter().map(|(key, volume)| (&*key.name, volume)).collect(),
            classes: self.classes.iter().map(|(key, class)| (&*key.name, class)).collect(),
        }
    }
}

/// Returns a pod as the predicates read it. What only draining needs is left out.
pub(crate) fn read_pod(pod: &Pod, volumes: &Volumes<'_>) -> decide::nodes::Pod {
    let read = api::nodes::pod(pod, volumes);
    decide::nodes::Pod {
        name: read.name,
        spec: read.spec,
        priority: read.priority,
        created_at: read.created_at,
        ..decide::nodes::Pod::default()
    }
}

/// Whether a pod uses persistent volumes.
pub(crate) fn has_claims(pod: &Pod) -> bool {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.into_iter().any(|v| v.persistent_volume_claim.is_some() || v.ephemeral.is_some())
}

/// Applies a change to a map of objects.
pub(crate) fn apply<K: Resource>(objects: &mut BTreeMap<Key, K>, delta: Delta<K>) {
    match delta {
        Delta::Upsert(key, mut object) => {
            // They are not read, and they are often the larger part.
            object.meta_mut().managed_fields = None;
            objects.insert(key, object);
        }
        Delta::Remove(key) => drop(objects.remove(&key)),
        Delta::Retain(listed) => objects.retain(|key, _| listed.contains(key)),
    }
}
