//! The cluster that the objects in the files make up.
//!
//! Pods are by far the most, and as the API's types they take several times their text. So each is read and dropped
//! again, once it is known what a decision needs of it.

use std::collections::HashSet;
use std::sync::Arc;

use api::decode;
use api::nodes::{Objects, Volumes};
use decide::nodes::{Cluster, Pod, PodSpec};
use k8s_openapi::api::core::v1::{self as core, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;

use super::super::world::{Object, World};

/// Reads the nodes, the pods and what else matters to them; `None` where an object is not what its kind says.
pub(super) fn read(world: &World) -> Option<Cluster> {
    let mut objects = Objects::default();
    for object in world.objects.iter().filter(|object| object.kind != "Pod") {
        objects.add(&object.value()).ok()?;
    }
    let mut cluster = objects.cluster();
    drop(objects);
    cluster.pods = pods(world)?;
    Some(cluster)
}

/// Reads the pods, in the order of their names.
fn pods(world: &World) -> Option<Vec<Pod>> {
    let claims: Vec<PersistentVolumeClaim> = all(world, "PersistentVolumeClaim")?;
    let volumes: Vec<PersistentVolume> = all(world, "PersistentVolume")?;
    let classes: Vec<StorageClass> = all(world, "StorageClass")?;
    let storage = Volumes {
        claims: claims.iter().map(|claim| (key(&claim.metadata), claim)).collect(),
        volumes: volumes.iter().map(|volume| (name(&volume.metadata), volume)).collect(),
        classes: classes.iter().map(|class| (name(&class.metadata), class)).collect(),
    };
    let mut specs: HashSet<Arc<PodSpec>> = HashSet::new();
    let mut pods = Vec::new();
    for object in world.of("Pod") {
        let mut pod = api::nodes::pod(&typed::<core::Pod>(object)?, &storage);
        match specs.get(&pod.spec) {
            Some(same) => pod.spec = Arc::clone(same),
            None => drop(specs.insert(Arc::clone(&pod.spec))),
        }
        pods.push(pod);
    }
    pods.sort_by(|a, b| (&a.spec.namespace, &a.name).cmp(&(&b.spec.namespace, &b.name)));
    Some(pods)
}

fn key(metadata: &ObjectMeta) -> (&str, &str) {
    (metadata.namespace.as_deref().unwrap_or("default"), name(metadata))
}

fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

fn all<T: DeserializeOwned>(world: &World, kind: &str) -> Option<Vec<T>> {
    world.of(kind).map(typed).collect()
}

fn typed<T: DeserializeOwned>(object: &Object) -> Option<T> {
    decode::lenient(&object.value()).ok()
}
