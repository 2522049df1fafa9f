//! Watches the objects that policies scale, one watch for each kind.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use api::plimsoll::scaling_policy::TargetSpec;
use cluster::Undecoded;
use futures::StreamExt as _;
use kube::api::{Api, DynamicObject};
use kube::core::GroupVersionKind;
use kube::discovery::pinned_kind;
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource as _, ResourceExt as _};
use process::{Random, Supervised, Supervisor};
use serde::Deserialize;

use super::TargetId;

/// An object that a policy may scale, after a change.
pub(crate) struct ChangedTarget {
    /// Its id.
    pub(crate) id: TargetId,
    /// Its `spec.replicas`; `None` where the object was deleted or has no such field.
    pub(crate) count: Option<i64>,
}

type Listener = Arc<dyn Fn(ChangedTarget) + Send + Sync>;

/// Watches of the kinds that policies scale.
pub(crate) struct TargetWatches {
    client: Client,
    namespace: Option<String>,
    random: Random,
    supervisor: Supervisor,
    listener: Listener,
    running: Mutex<BTreeMap<(String, String), Supervised>>,
}

impl TargetWatches {
    /// Calls `listener` with each object of the watched kinds whose spec has changed.
    pub(crate) fn new(
        client: Client,
        namespace: Option<String>,
        random: Random,
        supervisor: Supervisor,
        listener: impl Fn(ChangedTarget) + Send + Sync + 'static,
    ) -> Self {
        let (listener, running) = (Arc::new(listener), Mutex::default());
        Self { client, namespace, random, supervisor, listener, running }
    }

    /// Watches the kind of a target from now on, if it is an object.
    pub(crate) fn watch_target(&self, target: &TargetSpec) {
        let Some(kind) = &target.kind else { return };
        let usual = || {
            let found = api::find(None, kind);
            found.map_or_else(|| "apps/v1".to_owned(), |k| format!("{}/{}", k.group, k.version))
        };
        self.watch(&target.api_version.clone().unwrap_or_else(usual), kind);
    }

    fn watch(&self, api_version: &str, kind: &str) {
        let key = (api_version.to_owned(), kind.to_owned());
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.contains_key(&key) {
            return;
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = GroupVersionKind::gvk(group, version, kind);
        let (client, namespace) = (self.client.clone(), self.namespace.clone());
        let (random, listener) = (self.random.clone(), Arc::clone(&self.listener));
        let name = format!("watch of scaled kind {}", kind.kind);
        let task = self.supervisor.spawn(name, move || {
            let (client, namespace, random) = (client.clone(), namespace.clone(), random.clone());
            follow(client, namespace, kind.clone(), random, Arc::clone(&listener))
        });
        running.insert(key, task);
    }
}

/// Follows the objects of one kind. Where the watch is not allowed it is tried again later, and policies are evaluated at their interval.
async fn follow(
    client: Client,
    namespace: Option<String>,
    kind: GroupVersionKind,
    random: Random,
    listener: Listener,
) {
    let resource = loop {
        match pinned_kind(&client, &kind).await {
            Ok((resource, _)) => break resource,
            Err(error) => {
                tracing::debug!(kind = kind.kind, error = %cluster::explain(&error), "kind not found");
                tokio::time::sleep(std::time::Duration::from_secs(30)).await;
            }
        }
    };
    let api: Api<Undecoded<DynamicObject>> = match &namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let events = cluster::watch_dynamic(api, &kind.kind, watcher::Config::default(), random);
    let mut events = std::pin::pin!(events);
    let mut known = KnownTargets::default();
    while let Some(event) = events.next().await {
        known.changes(&kind, event).into_iter().for_each(|changed| listener(changed));
    }
}

/// The objects of one kind, as last reported.
#[derive(Default)]
struct KnownTargets {
    fingerprints: HashMap<TargetId, Fingerprint>,
    /// The objects of the list in progress.
    listed: HashSet<TargetId>,
    is_listed: bool,
}

impl KnownTargets {
    /// Applies an event, and returns the objects that have changed.
    fn changes(
        &mut self,
        kind: &GroupVersionKind,
        event: Event<Undecoded<DynamicObject>>,
    ) -> Vec<ChangedTarget> {
        match event {
            Event::Init => {
                self.listed.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                self.listed.insert(id(kind, &object));
                self.applied(kind, &object).into_iter().collect()
            }
            Event::Apply(object) => self.applied(kind, &object).into_iter().collect(),
            Event::InitDone => {
                self.is_listed = true;
                // What the list does not name was deleted while no watch was open.
                let is_gone = |id: &&TargetId| !self.listed.contains(*id);
                let gone: Vec<TargetId> =
                    self.fingerprints.keys().filter(is_gone).cloned().collect();
                gone.into_iter().map(|id| self.deleted(id)).collect()
            }
            Event::Delete(object) => vec![self.deleted(id(kind, &object))],
        }
    }

    fn applied(
        &mut self,
        kind: &GroupVersionKind,
        object: &Undecoded<DynamicObject>,
    ) -> Option<ChangedTarget> {
        let (id, new) = (id(kind, object), fingerprint(object));
        let old = self.fingerprints.insert(id.clone(), new.clone());
        // What exists at the first list is no change.
        let is_change = old.as_ref() != Some(&new) && (old.is_some() || self.is_listed);
        is_change.then_some(ChangedTarget { id, count: new.count })
    }

    fn deleted(&mut self, id: TargetId) -> ChangedTarget {
        self.fingerprints.remove(&id);
        ChangedTarget { id, count: None }
    }
}

/// What changes with the spec of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fingerprint {
    uid: Option<String>,
    generation: Option<i64>,
    count: Option<i64>,
}

/// The fields of any kind that a fingerprint consists of. All others are skipped without being decoded, whatever they are.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ScaledView {
    metadata: GenerationView,
    spec: Option<CountView>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GenerationView {
    generation: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CountView {
    replicas: Option<serde_json::Value>,
}

fn fingerprint(object: &Undecoded<DynamicObject>) -> Fingerprint {
    let uid = object.meta().uid.clone();
    let view: ScaledView = serde_json::from_str(object.text()).unwrap_or_default();
    let replicas = view.spec.and_then(|spec| spec.replicas);
    let count = replicas.and_then(|replicas| replicas.as_i64());
    Fingerprint { uid, generation: view.metadata.generation, count }
}

fn id(kind: &GroupVersionKind, object: &Undecoded<DynamicObject>) -> TargetId {
    let namespace = object.meta().namespace.as_deref().unwrap_or_default();
    TargetId::object(&kind.group, &kind.kind, namespace, &object.name_any())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_that_a_new_list_does_not_name_has_gone() {
        let kind = GroupVersionKind::gvk("apps", "v1", "Deployment");
        let object = |name: &str, replicas: i64| -> Undecoded<DynamicObject> {
            let object = json!({
                "metadata": {"name": name, "namespace": "a"}, "spec": {"replicas": replicas},
            });
            serde_json::from_str(&object.to_string()).unwrap()
        };
        let mut known = KnownTargets::default();
        let mut changes = |event: Event<Undecoded<DynamicObject>>| -> Vec<(TargetId, Option<i64>)> {
            let changed = known.changes(&kind, event).into_iter();
            changed.map(|changed| (changed.id, changed.count)).collect()
        };
        let target = |name: &str| TargetId::object("apps", "Deployment", "a", name);
        for (event, wanted) in [
            (Event::Init, vec![]),
            (Event::InitApply(object("x", 1)), vec![]),
            (Event::InitApply(object("y", 1)), vec![]),
            (Event::InitDone, vec![]),
            (Event::Apply(object("x", 2)), vec![(target("x"), Some(2))]),
            (Event::Init, vec![]),
            (Event::InitApply(object("x", 2)), vec![]),
            (Event::InitDone, vec![(target("y"), None)]),
            (Event::Apply(object("y", 1)), vec![(target("y"), Some(1))]),
            (Event::Delete(object("x", 2)), vec![(target("x"), None)]),
        ] {
            assert_eq!(changes(event), wanted);
        }
    }

    #[test]
    fn an_object_that_cannot_be_decoded_still_has_an_id_and_a_size() {
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        let text = format!(
            r#"{{"metadata":{{"name":"web","namespace":"n","uid":"u","generation":4}},"spec":{{"replicas":3,"x":{deep}}}}}"#
        );
        assert!(serde_json::from_str::<DynamicObject>(&text).is_err());
        let object: Undecoded<DynamicObject> = serde_json::from_str(&text).unwrap();
        let expected =
            Fingerprint { uid: Some("u".to_owned()), generation: Some(4), count: Some(3) };
        assert_eq!(fingerprint(&object), expected);
        let kind = GroupVersionKind::gvk("apps", "v1", "Deployment");
        assert_eq!(id(&kind, &object), TargetId::object("apps", "Deployment", "n", "web"));
    }
}
