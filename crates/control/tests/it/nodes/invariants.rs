//! What holds in every story: no group is below its minimum once it has had it, budgets hold, and no game server is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use kube::runtime::{WatchStreamExt as _, watcher};

use super::*;

const GROUP: &str = "plimsoll.dev/node-group";

/// Follows nodes and pods, and collects what must not happen.
pub(super) struct Invariants {
    violations: Arc<Mutex<Vec<String>>>,
    least: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Invariants {
    pub(super) fn follow(client: &Client, namespace: &str) -> Self {
        let (violations, least) = (Arc::default(), Arc::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(nodes(client.clone(), namespace.to_owned(), Arc::clone(&violations)));
        let (shared, bound) = (Arc::clone(&violations), Arc::clone(&least));
        tasks.spawn(pods(Api::namespaced(client.clone(), namespace), bound, shared));
        Self { violations, least, _tasks: tasks }
    }

    /// From now on at least so many pods with the label `app=test` have a node and are not being deleted.
    pub(super) fn at_least(&self, pods: usize) {
        self.least.store(pods, Ordering::SeqCst);
    }

    pub(super) fn check(&self) {
        let violations = self.violations.lock().unwrap();
        assert!(violations.is_empty(), "{violations:#?}");
    }
}

/// Checks that the nodes of a group, once they are as many as its minimum, never become fewer.
async fn nodes(client: Client, pool: String, violations: Arc<Mutex<Vec<String>>>) {
    let groups: Api<NodeGroup> = Api::all(client.clone());
    let config = watcher::Config::default().labels(&format!("pool={pool}"));
    let mut events = watcher(Api::<Node>::all(client), config).default_backoff().boxed();
    let mut present: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut reached: BTreeMap<String, usize> = BTreeMap::new();
    while let Some(event) = events.next().await {
        let Ok(event) = event else { continue };
        let (node, is_there) = match event {
            watcher::Event::Apply(node) | watcher::Event::InitApply(node) => (node, true),
            watcher::Event::Delete(node) => (node, false),
            watcher::Event::Init | watcher::Event::InitDone => continue,
        };
        let Some(group) = node.labels().get(GROUP).cloned() else { continue };
        let nodes = present.entry(group.clone()).or_default();
        if is_there {
            nodes.insert(node.name_any());
        } else {
            nodes.remove(&node.name_any());
        }
        let count = nodes.len();
        let Ok(Some(object)) = groups.get_opt(&group).await else { continue };
        let min = usize::try_from(object.spec.min).unwrap();
        if count >= min {
            reached.insert(group, min);
        } else if reached.get(&group) == Some(&min) {
            let text = format!("{group} has {count} nodes, fewer than {min}");
            violations.lock().unwrap().push(text);
        }
    }
}

/// Checks that enough pods are up, and that none with the label `test=never-lost` is deleted.
async fn pods(pods: Api<Pod>, least: Arc<AtomicUsize>, violations: Arc<Mutex<Vec<String>>>) {
    let mut events = watcher(pods, watcher::Config::default()).default_backoff().boxed();
    let mut up: BTreeSet<String> = BTreeSet::new();
    while let Some(event) = events.next().await {
        let Ok(event) = event else { continue };
        let (pod, is_there) = match event {
            watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => (pod, true),
            watcher::Event::Delete(pod) => (pod, false),
            watcher::Event::Init | watcher::Event::InitDone => continue,
        };
        let label = |name: &str| pod.labels().get(name).cloned().unwrap_or_default();
        let is_staying = is_there && pod.metadata.deletion_timestamp.is_none();
        let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        if label("test") == "never-lost" && is_bound && !is_staying {
            violations.lock().unwrap().push(format!("{} was deleted", pod.name_any()));
        }
        if label("app") != "test" {
            continue;
        }
        if is_bound && is_staying {
            up.insert(pod.name_any());
        } else {
            up.remove(&pod.name_any());
        }
        let least = least.load(Ordering::SeqCst);
        if up.len() < least && !is_staying {
            let text = format!("{} pods are up, fewer than {least}", up.len());
            violations.lock().unwrap().push(text);
        }
    }
}
