//! What the scheduler knows: nodes, pods that have one, and pods that wait for one.
//!
//! A pod is read in full when it is first seen; later changes only move it. For a look at the pods that wait, all that
//! runs on a node counts as one pod with the sum of their requests and ports, as long as no pod cares which others are
//! near it: so that a look costs as much as there are nodes, not as there are pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::nodes::{Preferences, Volumes};
use decide::nodes::{
    Cluster, Labels, Node, Pod, PodSpec, Refusal, Resources, Scheduling, Snapshot,
};
use k8s_openapi::api::core::v1 as k8s;
use serde::Deserialize;

use super::Verdict;
use super::prefer::Preferring;
use crate::core::Core;
use crate::store::Object;
use apimachinery::resource::split_key;

/// Which pods are ours to schedule.
const SCHEDULER: &str = "default-scheduler";

/// A pod that waits for a node.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) key: Arc<str>,
    pub(super) uid: Box<str>,
}

/// What is known of a pod.
struct Known {
    uid: Box<str>,
    pod: Pod,
    likes: Preferences,
    /// It has no node, and may have one.
    waits: bool,
}

/// What the scheduler knows.
#[derive(Default)]
pub(super) struct Seen {
    nodes: BTreeMap<Arc<str>, Node>,
    pods: BTreeMap<Arc<str>, Known>,
    /// What runs on each node, added up.
    taken: BTreeMap<Box<str>, Taken>,
    namespaces: BTreeMap<Box<str>, Labels>,
    /// Pods to be looked at.
    queue: BTreeSet<Arc<str>>,
    /// Pods that fitted nowhere.
    parked: BTreeSet<Arc<str>>,
    /// How many pods care where other pods are, or which volumes are attached.
    choosy: usize,
}

#[derive(Default)]
struct Taken {
    pods: i64,
    requests: Resources,
    ports: Vec<decide::nodes::HostPort>,
}

/// What may change about a pod once it was read.
#[derive(Deserialize)]
struct Head {
    metadata: HeadMeta,
    #[serde(default)]
    spec: HeadSpec,
    #[serde(default)]
    status: HeadStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadMeta {
    uid: Box<str>,
    deletion_timestamp: Option<Box<str>>,
    #[serde(default)]
    labels: BTreeMap<Box<str>, Box<str>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HeadSpec {
    node_name: Box<str>,
    scheduler_name: Box<str>,
    scheduling_gates: Vec<serde::de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct HeadStatus {
    phase: Box<str>,
}

impl Head {
    fn is_finished(&self) -> bool {
        matches!(&*self.status.phase, "Succeeded" | "Failed")
    }

    fn waits(&self) -> bool {
        self.spec.node_name.is_empty()
            && &*self.spec.scheduler_name == SCHEDULER
            && self.spec.scheduling_gates.is_empty()
            && self.metadata.deletion_timestamp.is_none()
            && !self.is_finished()
    }
}

impl Seen {
    pub(super) fn namespace(&mut self, key: &str, object: Option<&Object>) {
        self.namespaces.remove(key);
        let read = object.and_then(|o| serde_json::from_slice::<k8s::Namespace>(&o.body()).ok());
        if let Some(namespace) = read {
            let labels = namespace.metadata.labels.into_iter().flatten().collect();
            self.namespaces.insert(key.into(), labels);
        }
    }

    pub(super) fn node(&mut self, core: &Core, key: &Arc<str>, object: Option<&Object>) {
        let read = object.and_then(|o| serde_json::from_slice::<k8s::Node>(&o.body()).ok());
        let csi = core.store.get("csinodes.storage.k8s.io", key);
        let csi = csi.and_then(|o| serde_json::from_slice(&o.body()).ok());
        match read.map(|node| api::nodes::node(&node, csi.as_ref())) {
            Some(node) => drop(self.nodes.insert(Arc::clone(key), node)),
            None => drop(self.nodes.remove(key)),
        }
        self.look_again();
    }

    pub(super) fn storage_changed(&mut self, core: &Core) {
        for key in std::mem::take(&mut self.parked) {
            let object = core.store.get("pods", &key);
            self.forget(&key);
            self.pod(core, &key, object.as_ref());
        }
    }

    pub(super) fn pod(&mut self, core: &Core, key: &Arc<str>, object: Option<&Object>) {
        let head = object.and_then(|o| serde_json::from_slice::<Head>(&o.body()).ok());
        let Some((object, head)) = object.zip(head).filter(|(_, head)| !head.is_finished()) else {
            return self.forget(key);
        };
        let known = self.pods.get(key);
        let is_same = known.is_some_and(|known| {
            let labels = known.pod.spec.labels.iter();
            known.uid == head.metadata.uid
                && labels.eq(head.metadata.labels.iter().map(|(k, v)| (&**k, &**v)))
        });
        let known = if is_same { self.leave(key) } else { None };
        if known.is_none() {
            self.forget(key);
        }
        let Some(mut known) = known.or_else(|| read(core, key, object)) else { return };
        known.waits = head.waits();
        known.pod.scheduling = match &*head.spec.node_name {
            "" => Scheduling::Other,
            node => Scheduling::On(node.into()),
        };
        let is_going = head.metadata.deletion_timestamp.is_some();
        if known.pod.spec.terminating != is_going {
            Arc::make_mut(&mut known.pod.spec).terminating = is_going;
        }
        self.enter(key, known);
    }

    /// Takes a pod out of all sums, to put it back in as it is now.
    fn leave(&mut self, key: &Arc<str>) -> Option<Known> {
        let known = self.pods.remove(key)?;
        self.choosy -= usize::from(is_choosy(&known.pod.spec));
        if let Scheduling::On(node) = &known.pod.scheduling
            && let Some(taken) = self.taken.get_mut(node)
        {
            taken.add(&known.pod.spec, -1);
            if taken.pods == 0 {
                self.taken.remove(node);
            }
        }
        Some(known)
    }

    fn enter(&mut self, key: &Arc<str>, known: Known) {
        self.choosy += usize::from(is_choosy(&known.pod.spec));
        if let Scheduling::On(node) = &known.pod.scheduling {
            self.taken.entry(node.clone()).or_default().add(&known.pod.spec, 1);
            if self.choosy > 0 {
                // It may be the company that another waits for.
                self.look_again();
            }
        }
        if !known.waits {
            self.queue.remove(key);
            self.parked.remove(key);
        } else if !self.parked.contains(key) {
            self.queue.insert(Arc::clone(key));
        }
        self.pods.insert(Arc::clone(key), known);
    }

    /// A pod is gone, or over: what it took is free.
    fn forget(&mut self, key: &Arc<str>) {
        self.queue.remove(key);
        self.parked.remove(key);
        if self.leave(key).is_some_and(|known| matches!(known.pod.scheduling, Scheduling::On(_))) {
            self.look_again();
        }
    }

    fn look_again(&mut self) {
        self.queue.append(&mut self.parked);
    }

    /// Finds a node for each pod in the queue, and empties it.
    pub(super) fn decide(&mut self) -> Vec<Verdict> {
        if self.queue.is_empty() {
            return Vec::new();
        }
        let mut waiting: Vec<(&Arc<str>, &Known)> = Vec::with_capacity(self.queue.len());
        waiting.extend(self.queue.iter().filter_map(|key| Some((key, self.pods.get(key)?))));
        // The most important first, then the oldest.
        waiting.sort_by_key(|(_, known)| {
            (std::cmp::Reverse(known.pod.priority.unwrap_or(0)), known.pod.created_at)
        });
        let cluster = self.cluster(&waiting);
        let mut snapshot = Snapshot::new(&cluster, |_| true);
        let everyone = self.pods.values().filter(|known| !known.waits).map(|known| &known.pod);
        let likes = waiting.iter().map(|(_, known)| &known.likes);
        let mut preferring = Preferring::new(likes, everyone, &self.nodes, &self.namespaces);
        let mut verdicts = Vec::with_capacity(waiting.len());
        for (id, (key, known)) in waiting.iter().enumerate() {
            let best = preferring.best(&snapshot, id, &known.pod, &known.likes);
            let place = match best {
                Some(node) => {
                    let name: Box<str> = snapshot.name(node).into();
                    snapshot.place(id, node);
                    preferring.placed(&known.pod, &name);
                    Ok(name)
                }
                None => Err(self.why_not(&snapshot, id)),
            };
            let pod = Waiting { key: Arc::clone(key), uid: known.uid.clone() };
            verdicts.push(Verdict { pod, place });
        }
        self.queue.clear();
        // A pod that gets its node leaves with the change that says so; until then none is looked at twice.
        self.parked.extend(verdicts.iter().map(|verdict| Arc::clone(&verdict.pod.key)));
        verdicts
    }

    /// Gives the world as the predicates read it, the waiting pods first.
    fn cluster(&self, waiting: &[(&Arc<str>, &Known)]) -> Cluster {
        let mut nodes: Vec<Node> = self.nodes.values().filter(|n| n.is_ready).cloned().collect();
        let mut pods: Vec<Pod> = waiting.iter().map(|(_, known)| known.pod.clone()).collect();
        if self.choosy > 0 {
            pods.extend(self.pods.values().filter(|known| !known.waits).map(|k| k.pod.clone()));
        } else {
            for node in &mut nodes {
                let Some(taken) = self.taken.get(&node.name) else { continue };
                // All that runs there counts as one pod, so one slot is taken by it and the others are gone.
                node.allocatable.pods -= taken.pods - 1;
                let spec = PodSpec {
                    requests: taken.requests.clone(),
                    host_ports: taken.ports.clone().into(),
                    ..PodSpec::default()
                };
                let scheduling = Scheduling::On(node.name.clone());
                pods.push(Pod { spec: Arc::new(spec), scheduling, ..Pod::default() });
            }
        }
        Cluster { nodes, pods, namespaces: self.namespaces.clone(), ..Cluster::default() }
    }

    fn why_not(&self, snapshot: &Snapshot<'_>, pod: usize) -> String {
        let mut why: BTreeMap<Refusal, usize> = BTreeMap::new();
        snapshot.nodes().filter_map(|node| snapshot.why_not(pod, node)).for_each(|refusal| {
            *why.entry(refusal).or_default() += 1;
        });
        let mut why: Vec<String> =
            why.iter().map(|(why, count)| format!("{count}: {why}")).collect();
        let not_ready = self.nodes.values().filter(|n| !n.is_ready).count();
        if not_ready > 0 {
            why.push(format!("{not_ready}: the node is not ready"));
        }
        match (self.nodes.len(), why.join("; ")) {
            (0, _) => "no nodes available to schedule pods".to_owned(),
            (count, why) => format!("0/{count} nodes are available: {why}"),
        }
    }
}

impl Taken {
    fn add(&mut self, spec: &PodSpec, sign: i64) {
        self.pods += sign;
        for (name, amount) in spec.requests.iter() {
            self.requests.set(name, self.requests.get(name) + sign * amount);
        }
        if sign > 0 {
            self.ports.extend(spec.host_ports.iter().cloned());
        } else {
            for port in &spec.host_ports {
                if let Some(at) = self.ports.iter().position(|p| p == port) {
                    self.ports.swap_remove(at);
                }
            }
        }
    }
}

fn is_choosy(spec: &PodSpec) -> bool {
    !(spec.affinity.is_empty()
        && spec.anti_affinity.is_empty()
        && spec.spread.is_empty()
        && spec.volumes.is_empty())
}

/// Reads a pod in full.
fn read(core: &Core, key: &str, object: &Object) -> Option<Known> {
    let pod: k8s::Pod = serde_json::from_slice(&object.body()).ok()?;
    let claims = object.mentions(b"persistentVolumeClaim");
    let storage = if claims { storage(core, split_key(key).0) } else { Storage::default() };
    let volumes = Volumes {
        claims: storage
            .claims
            .iter()
            .map(|c| ((name(&c.metadata.namespace), name(&c.metadata.name)), c))
            .collect(),
        volumes: storage.volumes.iter().map(|v| (name(&v.metadata.name), v)).collect(),
        classes: storage.classes.iter().map(|c| (name(&c.metadata.name), c)).collect(),
    };
    Some(Known {
        uid: name(&pod.metadata.uid).into(),
        likes: api::nodes::preferences(&pod),
        pod: api::nodes::pod(&pod, &volumes),
        waits: false,
    })
}

#[derive(Default)]
struct Storage {
    claims: Vec<k8s::PersistentVolumeClaim>,
    volumes: Vec<k8s::PersistentVolume>,
    classes: Vec<k8s_openapi::api::storage::v1::StorageClass>,
}

fn storage(core: &Core, namespace: Option<&str>) -> Storage {
    fn all<T: serde::de::DeserializeOwned>(core: &Core, collection: &str, prefix: &str) -> Vec<T> {
        let page = core.store.list(collection, prefix, None, usize::MAX, None);
        let items = page.map(|page| page.items).unwrap_or_default();
        items.iter().filter_map(|(_, o)| serde_json::from_slice(&o.body()).ok()).collect()
    }
    Storage {
        claims: all(core, "persistentvolumeclaims", &format!("{}/", namespace.unwrap_or_default())),
        volumes: all(core, "persistentvolumes", ""),
        classes: all(core, "storageclasses.storage.k8s.io", ""),
    }
}

fn name(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or_default()
}
