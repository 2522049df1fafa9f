//! The namespace controller.
//!
//! A new namespace gets the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt`. The content of a deleted namespace is
//! deleted, pods first; the namespace itself is removed when it is empty.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::Meta;
use crate::core::Core;
use crate::rest::internal::{self, Propagation};
use apimachinery::resource::{Resource, split_key};

const SERVICE_ACCOUNT: &str = "default";
/// The field manager of these objects, as on a cluster.
const FIELD_MANAGER: &str = "kube-controller-manager";
const ROOT_CA: &str = "kube-root-ca.crt";

/// The namespaces to reconcile.
#[derive(Default)]
pub(super) struct Namespaces {
    terminating: BTreeSet<String>,
    to_populate: BTreeSet<String>,
    to_empty: BTreeSet<String>,
}

/// The remaining objects of one kind in a namespace.
struct RemainingObjects {
    resource: Arc<Resource>,
    count: usize,
    finalizers: BTreeMap<String, usize>,
}

impl Namespaces {
    /// Marks the namespace of an object if the object affects it.
    pub(super) fn observe(&mut self, collection: &str, key: &str, meta: &Meta, deleted: bool) {
        if collection == "namespaces" {
            if deleted {
                self.terminating.remove(key);
            } else if meta.deletion_timestamp.is_some() {
                self.terminating.insert(key.to_owned());
                self.to_empty.insert(key.to_owned());
            } else {
                self.to_populate.insert(key.to_owned());
            }
            return;
        }
        let (Some(namespace), name) = split_key(key) else { return };
        if self.terminating.contains(namespace) {
            self.to_empty.insert(namespace.to_owned());
        } else if deleted
            && matches!(
                (collection, name),
                ("serviceaccounts", SERVICE_ACCOUNT) | ("configmaps", ROOT_CA)
            )
        {
            self.to_populate.insert(namespace.to_owned());
        }
    }

    /// Creates default objects in new namespaces and deletes the content of terminating ones.
    pub(super) async fn reconcile(&mut self, core: &Arc<Core>) {
        for namespace in std::mem::take(&mut self.to_populate) {
            create_defaults(core, &namespace).await;
        }
        for namespace in std::mem::take(&mut self.to_empty) {
            delete_content(core, &namespace).await;
        }
    }
}

async fn create_defaults(core: &Arc<Core>, namespace: &str) {
    let served = core.registry.served();
    if let Some(accounts) = served.find("", "v1", "serviceaccounts")
        && core.store.get("serviceaccounts", &format!("{namespace}/{SERVICE_ACCOUNT}")).is_none()
    {
        internal::create(
            core,
            accounts,
            Some(namespace),
            FIELD_MANAGER,
            json!({"metadata": {"name": SERVICE_ACCOUNT}}),
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
        internal::create(core, maps, Some(namespace), FIELD_MANAGER, map).await;
    }
}

/// Deletes the content of a namespace as far as finalizers allow, and the namespace once it is empty.
async fn delete_content(core: &Arc<Core>, namespace: &str) {
    let kinds = namespaced(core);
    let (pods, others): (Vec<_>, Vec<_>) = kinds.into_iter().partition(|r| r.is("", "Pod"));
    let mut remaining = delete_kinds(core, namespace, &pods).await;
    if remaining.is_empty() {
        remaining = delete_kinds(core, namespace, &others).await;
    }
    let served = core.registry.served();
    let Some(namespaces) = served.find("", "v1", "namespaces") else { return };
    let now = crate::rest::meta::time(core.clock.now());
    internal::change(core, namespaces, None, namespace, &["spec", "status"], |object| {
        if remaining.is_empty()
            && let Some(spec) = object["spec"].as_object_mut()
        {
            if let Some(finalizers) = spec.get_mut("finalizers").and_then(Value::as_array_mut) {
                finalizers.retain(|f| f != "kubernetes");
            }
            return;
        }
        for condition in conditions(&remaining) {
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

async fn delete_kinds(
    core: &Arc<Core>,
    namespace: &str,
    kinds: &[Arc<Resource>],
) -> Vec<RemainingObjects> {
    let prefix = format!("{namespace}/");
    let list = |resource: &Resource| {
        let page = core.store.list(&resource.storage, &prefix, None, usize::MAX, None);
        page.map(|page| page.items).unwrap_or_default()
    };
    let mut remaining = Vec::new();
    for resource in kinds {
        for (key, object) in list(resource) {
            if Meta::from_object(&object).deletion_timestamp.is_none() {
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
        for finalizer in items.iter().flat_map(|(_, object)| Meta::from_object(object).finalizers) {
            *finalizers.entry(finalizer).or_default() += 1;
        }
        if !items.is_empty() {
            remaining.push(RemainingObjects {
                resource: Arc::clone(resource),
                count: items.len(),
                finalizers,
            });
        }
    }
    remaining
}

/// Returns the conditions that report the progress of a deletion, worded as kube-controller-manager words them.
fn conditions(remaining: &[RemainingObjects]) -> [Value; 5] {
    let condition = |kind: &str, is: bool, reason: &str, message: String| {
        let status = if is { "True" } else { "False" };
        json!({"type": kind, "status": status, "reason": reason, "message": message})
    };
    let counts = remaining.iter().map(|l| {
        format!("{}.{} has {} resource instances", l.resource.plural, l.resource.group, l.count)
    });
    let counts = counts.collect::<Vec<_>>().join(", ");
    let mut all: BTreeMap<&str, usize> = BTreeMap::new();
    for (finalizer, count) in remaining.iter().flat_map(|l| &l.finalizers) {
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

/// Sets a condition; `lastTransitionTime` changes only with its status.
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
