//! The game servers of each node, followed for as long as a leadership term lasts.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cluster::{CachedPod, Caches, Key, Subscription};
use decide::gameserver::Occupancy;

/// How many game servers each node has, and which.
#[derive(Default)]
pub struct NodeIndex {
    occupancy: Arc<Mutex<Occupancy>>,
    pods: Arc<Mutex<HashMap<String, BTreeSet<Key>>>>,
}

impl NodeIndex {
    /// Follows the caches until the subscriptions are dropped.
    pub(crate) fn following(caches: &Caches) -> (Self, [Subscription; 3]) {
        let index = Self::default();
        let occupancy = Arc::clone(&index.occupancy);
        let servers = caches.servers.subscribe(move |old, new| {
            let mut occupancy = occupancy.lock().unwrap_or_else(PoisonError::into_inner);
            old.inspect(|server| occupancy.remove(&server.view));
            new.inspect(|server| occupancy.add(&server.view));
        });
        let occupancy = Arc::clone(&index.occupancy);
        let nodes = caches.nodes.subscribe(move |old, new| {
            let Some(node) = new.or(old) else { return };
            let name = node.metadata.name.as_deref().unwrap_or_default();
            let mut occupancy = occupancy.lock().unwrap_or_else(PoisonError::into_inner);
            match new {
                Some(new) => occupancy.set_unneeded(name, new.unneeded_since()),
                None => occupancy.remove_node(name),
            }
        });
        let by_node = Arc::clone(&index.pods);
        let pods = caches.pods.subscribe(move |old, new| {
            let mut by_node = by_node.lock().unwrap_or_else(PoisonError::into_inner);
            old.inspect(|pod| remove(&mut by_node, pod));
            if let Some((node, key)) = new.and_then(|pod| bound(pod)) {
                by_node.entry(node).or_default().insert(key);
            }
        });
        (index, [servers, nodes, pods])
    }

    /// Returns how many game servers each node has.
    pub fn occupancy(&self) -> MutexGuard<'_, Occupancy> {
        self.occupancy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the keys of the pods on a node, which are those of their game servers.
    pub fn pods_on(&self, node: &str) -> Vec<Key> {
        let pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        pods.get(node).into_iter().flatten().cloned().collect()
    }
}

fn remove(by_node: &mut HashMap<String, BTreeSet<Key>>, pod: &CachedPod) {
    if let Some((node, key)) = bound(pod)
        && let Some(there) = by_node.get_mut(&node)
    {
        there.remove(&key);
        if there.is_empty() {
            by_node.remove(&node);
        }
    }
}

/// Returns the node that a pod is bound to, and the pod's key.
fn bound(pod: &CachedPod) -> Option<(String, Key)> {
    Some((pod.spec.node_name.clone()?, Key::from_meta(&pod.metadata)))
}
