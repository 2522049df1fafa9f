//! What does every namespace have, and how does one go?
//!
//! A new one gets its ServiceAccount `default` and the certificate that clients trust. One that is deleted is emptied,
//! its pods first, and goes when nothing is left in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::Meta;
use crate::core::Core;
use crate::rest::internal::{self, Propagation};
use apimachinery::resource::{Resource, split_key};

const ACCOUNT: &str = "default";
/// Who makes these on a cluster.
const MANAGER: &str = "kube-controller-manager";
const ROOT_CA: &str = "kube-root-ca.crt";

/// The namespaces that are to be looked at.
#[derive(Default)]
pub(super) struct Namespaces {
    going: BTreeSet<String>,
    to_furnish: BTreeSet<String>,
    to_empty: BTreeSet<String>,
}

/// What is left of one kind in a namespace.
struct Left {
    resource: Arc<Resource>,
    count: usize,
    finalizers: BTreeMap<String, usize>,
}

impl Namespaces {
    /// Takes notice of an object.
    pub(super) fn note(&mut self, collection: &str, key: &str, meta: &Meta, deleted: bool) {
        if collection == "namespaces" {
            if deleted {
                self.going.remove(key);
            } else if meta.deletion_timestamp.is_some() {
                self.going.insert(key.to_owned());
                self.to_empty.insert(key.to_owned());
            } else {
                self.to_furnish.insert(key.to_owned());
            }
            return;
        }
        let (Some(namespace), name) = split_key(key) else { return };
        if self.going.contains(namespace) {
            self.to_empty.insert(namespace.to_owned());
        } else if deleted
            && matches!((collection, name), ("serviceaccounts", ACCOUNT) | ("configmaps", ROOT_CA))
        {
            self.to_furnish.insert(namespace.to_owned());
        }
    }

    /// Furnishes the new and empties those that go.
    pub(super) async fn work(&mut self, core: &Arc<Core>) {
        for namespace in std::mem::take(&mut self.to_furnish) {
            furnish(core, &namespace).await;
        }
        for namespace in std::mem::take(&mut self.to_empty) {
            empty(core, &namespace).await;
        }
    }
}

async fn furnish(core: &Arc<Core>, namespace: &str) {
    let served = core.registry.served();
    if let Some(accounts) = served.find("", "v1", "serviceaccounts")
        && core.store.get("serviceaccounts", &format!("{namespace}/{ACCOUNT}")).is_none()
    {
        internal::create(
            core,
            accounts,
            Some(namespace),
            MANAGER,
            json!({"metadata": {"name": ACCOUNT}}),
        )
        .await;
    }
    if let Some(maps) = served.find("", "v1", "configmaps")
        && core.store.get("configmaps", &format!("{namespace}/{ROOT_CA}")).is_none()
    {
        let description = "Contains a CA bundle that can be used to verify the kube-apiserver when using \
                           internal endpoints such as the internal service IP or kubernetes.default.svc. No \
                           other usage is guaranteed across distributions of Kubernetes clusters.";
        let map = json!({
            "metadata": {"name": ROOT_CA, "annotations": {"kubernetes.io/description": description}},
            "data": {"ca.crt": core.ca_pem},
        });
        internal::create(core, maps, Some(namespace), MANAGER, map).await;
    }
}

/// Deletes what is in a namespace, as far as it can be deleted now, and the namespace when nothing is left.
async fn empty(core: &Arc<Core>, namespace: &str) {
    let kinds = namespaced(core);
    let (pods, others): (Vec<_>, Vec<_>) = kinds.into_iter().partition(|r| r.is("", "Pod"));
    let mut left = clear(core, namespace, &pods).await;
    if left.is_empty() {
        left = clear(core, namespace, &others).await;
    }
    let served = core.registry.served();
    let Some(namespaces) = served.find("", "v1", "namespaces") else { return };
    let now = crate::rest::meta::time(core.clock.now());
    internal::change(core, namespaces, None, namespace, &["spec", "status"], |object| {
        if left.is_empty()
            && let Some(spec) = object["spec"].as_object_mut()
        {
            if let Some(finalizers) = spec.get_mut("finalizers").and_then(Value::as_array_mut) {
                finalizers.retain(|f| f != "kubernetes");
            }
            return;
        }
        for condition in conditions(&left) {
            set_condition(object, condition, &now);
        }
    })
    .await;
}

/// Lists the namespaced kinds, each once.
fn namespaced(core: &Core) -> Vec<Arc<Resource>> {
    let served = core.registry.served();
    let all = served.iter().flat_map(|(_, resources)| resources);
    let stored = all.filter(|r| r.namespaced && r.is_stored());
    let by_storage: BTreeMap<_, _> =
        stored.map(|r| (Arc::clone(&r.storage), Arc::clone(r))).collect();
    by_storage.into_values().collect()
}

async fn clear(core: &Arc<Core>, namespace: &str, kinds: &[Arc<Resource>]) -> Vec<Left> {
    let prefix = format!("{namespace}/");
    let list = |resource: &Resource| {
        let page = core.store.list(&resource.storage, &prefix, None, usize::MAX, None);
        page.map(|page| page.items).unwrap_or_default()
    };
    let mut left = Vec::new();
    for resource in kinds {
        for (key, object) in list(resource) {
            if Meta::of(&object).deletion_timestamp.is_none() {
                let (_, name) = split_key(&key);
                internal::delete(
                    core,
                    resource,
                    Some(namespace),
                    name,
                    None,
                    Propagation::Background,
                )
                .await;
            }
        }
        let mut finalizers: BTreeMap<String, usize> = BTreeMap::new();
        let items = list(resource);
        for finalizer in items.iter().flat_map(|(_, object)| Meta::of(object).finalizers) {
            *finalizers.entry(finalizer).or_default() += 1;
        }
        if !items.is_empty() {
            left.push(Left { resource: Arc::clone(resource), count: items.len(), finalizers });
        }
    }
    left
}

/// Says how far the deletion of a namespace has come, as the controller manager of a cluster says it.
fn conditions(left: &[Left]) -> [Value; 5] {
    let condition = |kind: &str, is: bool, reason: &str, message: String| {
        let status = if is { "True" } else { "False" };
        json!({"type": kind, "status": status, "reason": reason, "message": message})
    };
    let counts = left.iter().map(|l| {
        format!("{}.{} has {} resource instances", l.resource.plural, l.resource.group, l.count)
    });
    let counts = counts.collect::<Vec<_>>().join(", ");
    let mut all: BTreeMap<&str, usize> = BTreeMap::new();
    for (finalizer, count) in left.iter().flat_map(|l| &l.finalizers) {
        *all.entry(finalizer).or_default() += count;
    }
    let finalizers =
        all.iter().map(|(name, count)| format!("{name} in {count} resource instances"));
    let finalizers = finalizers.collect::<Vec<_>>().join(", ");
    [
        condition(
            "NamespaceDeletionDiscoveryFailure",
            false,
            "ResourcesDiscovered",
            "All resources successfully discovered".into(),
        ),
        condition(
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".into(),
        ),
        condition(
            "NamespaceDeletionContentFailure",
            false,
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization".into(),
        ),
        if counts.is_empty() {
            condition(
                "NamespaceContentRemaining",
                false,
                "ContentRemoved",
                "All content successfully removed".into(),
            )
        } else {
            condition(
                "NamespaceContentRemaining",
                true,
                "SomeResourcesRemain",
                format!("Some resources are remaining: {counts}"),
            )
        },
        if finalizers.is_empty() {
            condition(
                "NamespaceFinalizersRemaining",
                false,
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished".into(),
            )
        } else {
            let message =
                format!("Some content in the namespace has finalizers remaining: {finalizers}");
            condition("NamespaceFinalizersRemaining", true, "SomeFinalizersRemain", message)
        },
    ]
}

/// Sets a condition; its time changes only with its status.
fn set_condition(object: &mut Value, mut condition: Value, now: &Value) {
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let Some(all) = object["status"]["conditions"].as_array_mut() else { return };
    let found = all.iter_mut().find(|c| c["type"] == condition["type"]);
    let since = found.as_ref().filter(|c| c["status"] == condition["status"]);
    condition["lastTransitionTime"] =
        since.map_or_else(|| now.clone(), |c| c["lastTransitionTime"].clone());
    match found {
        Some(found) => *found = condition,
        None => all.push(condition),
    }
}
