//! The informer caches that decisions about nodes are made from.
//!
//! NodeAutoscalers are followed at once, and everything else from the first one on. Where the settings are not objects, Plimsoll's own
//! kinds are not followed at all, and everything else at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::plimsoll::{NodeAutoscaler, NodeGroup};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate,
    ReplicationController,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use process::{Random, Supervised, Supervisor};
use tokio::sync::Notify;

use super::Caches;
use crate::{Cache, CacheEntry, CachedObject, CapacityBuffer};

/// How long after the API was found to have no CapacityBuffers it is discovered again.
const BUFFER_RETRY: Duration = Duration::from_secs(60);

/// Follows one kind in a supervised task that ends when its guard is dropped, from the first NodeAutoscaler on if `waits`.
macro_rules! follow {
    ($field:ident: $kind:ty, $caches:ident, $client:ident, $random:ident, $supervisor:ident, $waits:expr) => {{
        let (caches, client, random) = (Arc::clone($caches), $client.clone(), $random.clone());
        let (name, waits) = (<$kind>::kind(&()), $waits);
        $supervisor.spawn(format!("watch of kind {name} for node autoscaling"), move || {
            let (caches, random) = (Arc::clone(&caches), random.clone());
            let api = Api::all(client.clone());
            async move {
                let caches = &caches.node_scaling;
                if waits {
                    caches.needed().await;
                }
                caches.$field.run(api, watcher::Config::default(), &random).await;
            }
        })
    }};
}

macro_rules! node_caches {
    ($($field:ident: $kind:ty, $doc:literal;)*) => {
        /// A cache of whole objects for each kind that a decision about nodes depends on.
        #[derive(Default)]
        pub struct NodeCaches {
            /// Node autoscalers.
            pub autoscalers: Cache<CachedObject<NodeAutoscaler>>,
            /// Groups of nodes.
            pub groups: Cache<CachedObject<NodeGroup>>,
            $(#[doc = $doc] pub $field: Cache<CachedObject<$kind>>,)*
            /// CapacityBuffers, where the cluster has the kind.
            pub buffers: Cache<CachedObject<CapacityBuffer>>,
            /// The templates of buffers.
            pub pod_templates: Cache<CachedObject<PodTemplate>>,
            /// The deployments that buffers refer to.
            pub deployments: Cache<CachedObject<Deployment>>,
        }

        impl NodeCaches {
            /// Follows all kinds, Plimsoll's own only if the settings are objects.
            pub(super) fn follow(
                caches: &Arc<Caches>,
                client: &Client,
                random: &Random,
                supervisor: &Supervisor,
                has_objects: bool,
            ) -> Vec<Supervised> {
                let mut tasks = vec![
                    $(follow!($field: $kind, caches, client, random, supervisor, has_objects),)*
                ];
                tasks.push(follow_buffers(caches, client, random, supervisor, has_objects));
                if has_objects {
                    let autoscalers =
                        follow!(autoscalers: NodeAutoscaler, caches, client, random, supervisor, false);
                    let groups = follow!(groups: NodeGroup, caches, client, random, supervisor, true);
                    tasks.extend([autoscalers, groups]);
                }
                tasks
            }

            /// Waits until all caches are complete. Without a NodeAutoscaler this waits for the first one.
            pub async fn synced(&self) {
                self.autoscalers.synced().await;
                self.groups.synced().await;
                self.inputs_synced().await;
            }

            /// Waits until the caches of all kinds but Plimsoll's own are complete. Kinds that may not be listed count as empty, but for
            /// nodes and pods.
            pub async fn inputs_synced(&self) {
                self.nodes.synced().await;
                self.pods.synced().await;
                $(self.$field.synced_or_failed().await;)*
            }

            /// Adds how many objects of each kind are skipped because they cannot be decoded.
            pub(super) fn add_unreadable(&self, counts: &mut BTreeMap<&'static str, usize>) {
                let mut add = |kind: &'static str, count: usize| {
                    if count > 0 {
                        let known = counts.entry(kind).or_default();
                        *known = (*known).max(count);
                    }
                };
                add("NodeAutoscaler", self.autoscalers.unreadable());
                add("NodeGroup", self.groups.unreadable());
                $(add(stringify!($kind), self.$field.unreadable());)*
            }
        }
    };
}

node_caches! {
    nodes: Node, "Nodes.";
    pods: Pod, "All pods.";
    namespaces: Namespace, "Namespaces.";
    budgets: PodDisruptionBudget, "Disruption budgets.";
    daemon_sets: DaemonSet, "Daemon sets.";
    replica_sets: ReplicaSet, "Replica sets.";
    stateful_sets: StatefulSet, "Stateful sets.";
    jobs: Job, "Jobs.";
    replication_controllers: ReplicationController, "Replication controllers.";
    claims: PersistentVolumeClaim, "Claims of volumes.";
    volumes: PersistentVolume, "Volumes.";
    classes: StorageClass, "Classes of volumes.";
    csi_nodes: CSINode, "The storage drivers of nodes.";
}

impl NodeCaches {
    /// Waits until there is a NodeAutoscaler.
    pub async fn needed(&self) {
        exists(&self.autoscalers).await;
    }

    /// Follows CapacityBuffers for as long as it is polled, and from the first one on what they refer to. A cluster may not have the kind.
    async fn run_buffers(&self, client: &Client, random: &Random) {
        while client.list_api_group_resources(CapacityBuffer::API_VERSION).await.is_err() {
            tokio::time::sleep(BUFFER_RETRY).await;
        }
        let config = watcher::Config::default;
        let references = async {
            exists(&self.buffers).await;
            tokio::join!(
                self.pod_templates.run(Api::all(client.clone()), config(), random),
                self.deployments.run(Api::all(client.clone()), config(), random),
            );
        };
        tokio::join!(self.buffers.run(Api::all(client.clone()), config(), random), references);
    }
}

/// Waits until there is an object of a kind.
async fn exists<E: CacheEntry>(cache: &Cache<E>) {
    let exists = Arc::new(Notify::new());
    let notified = Arc::clone(&exists);
    let _subscription = cache.subscribe(move |_, new| {
        if new.is_some() {
            notified.notify_one();
        }
    });
    exists.notified().await;
}

/// Follows CapacityBuffers in a supervised task that ends when its guard is dropped, from the first NodeAutoscaler on if `waits`.
fn follow_buffers(
    caches: &Arc<Caches>,
    client: &Client,
    random: &Random,
    supervisor: &Supervisor,
    waits: bool,
) -> Supervised {
    let (caches, client, random) = (Arc::clone(caches), client.clone(), random.clone());
    supervisor.spawn("watch of kind CapacityBuffer for node autoscaling", move || {
        let (caches, client, random) = (Arc::clone(&caches), client.clone(), random.clone());
        async move {
            if waits {
                caches.node_scaling.needed().await;
            }
            caches.node_scaling.run_buffers(&client, &random).await;
        }
    })
}
