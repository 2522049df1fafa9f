//! Cluster API: MachineDeployments, MachineSets and MachinePools of a management cluster, in v1beta1 and v1beta2.
//!
//! A snapshot lists each kind once, however many groups there are. The management cluster is the one that Plimsoll runs on, or that of a
//! kubeconfig in a Secret; the Nodes are always those of the cluster that Plimsoll runs on.

mod change;
mod groups;
mod instance;
mod kubeconfig;
mod management;
mod marks;
mod members;
mod objects;
mod settings;
mod template;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cluster::error::api_message;
use futures::future::BoxFuture;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use serde_json::Value;

use super::cluster_error::read_error;
use super::{Group, InstanceState, NamedGroup, NodeGroupProvider, ProviderError};
use crate::registry::{Context, read_settings};
use change::Changes;
use groups::{Found, KnownGroup, Mark, Objects};
use management::{Management, ManagementCluster, limited};
use objects::{
    Infrastructure, MACHINE, MACHINE_DEPLOYMENT, MACHINE_POOL, MACHINE_SET, Machine, Scalable,
};
use settings::{Namespaces, Settings};

/// How many Nodes are read at the same time.
const PARALLEL_READS: usize = 8;

struct ClusterApi {
    context: Context,
    settings: Settings,
    management: Management,
    named: Mutex<Vec<NamedGroup>>,
    memory: Mutex<Memory>,
    /// Locked while a group is changed.
    locks: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
    changes: Changes,
}

/// What is known from earlier snapshots and changes.
#[derive(Default)]
struct Memory {
    groups: BTreeMap<String, KnownGroup>,
    /// The machines whose deletion was requested, by group: their uids, and the providerIDs of pools.
    requested: BTreeMap<String, BTreeSet<String>>,
    /// A node of each group, and its labels.
    labels: BTreeMap<String, (String, BTreeMap<String, String>)>,
    /// The problems that were logged.
    reported: BTreeSet<String>,
}

/// Opens the provider. Nothing is sent.
pub(super) fn open(
    context: &Context,
    connection: &Value,
) -> Result<Arc<dyn NodeGroupProvider>, String> {
    let settings: Settings = read_settings(connection)?;
    Ok(Arc::new(ClusterApi {
        context: context.clone(),
        management: Management::new(context, &settings),
        settings,
        named: Mutex::default(),
        memory: Mutex::default(),
        locks: Mutex::default(),
        changes: Changes::default(),
    }))
}

impl NodeGroupProvider for ClusterApi {
    fn set_named_groups(&self, groups: &[NamedGroup]) {
        *lock(&self.named) = groups.to_vec();
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<Vec<Group>, ProviderError>> {
        Box::pin(self.read_groups())
    }

    fn increase<'a>(&'a self, group: &'a str, by: u32) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(self.increase_target(group, by))
    }

    fn delete_nodes<'a>(
        &'a self,
        group: &'a str,
        instances: &'a [String],
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(self.delete_machines(group, instances))
    }

    fn decrease_target<'a>(
        &'a self,
        group: &'a str,
        by: u32,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(self.lower_target(group, by))
    }
}

impl ClusterApi {
    async fn read_groups(&self) -> Result<Vec<Group>, ProviderError> {
        let changes = self.changes.settled();
        let named = lock(&self.named).clone();
        let namespaces = self.settings.namespaces(&named);
        if matches!(&namespaces, Namespaces::Some(names) if names.is_empty()) {
            return Ok(Vec::new());
        }
        let cluster = self.connect().await?;
        let named = named.into_iter().map(|group| group.id).collect();
        let mut objects = read_objects(&cluster, &namespaces).await.map_err(|error| {
            // Its credentials or its API may have changed.
            self.management.reconnect();
            read_error(&error)
        })?;
        let mut problems =
            self.read_infrastructure(&cluster, &namespaces, &named, &mut objects).await;
        objects.node_labels =
            self.node_labels(groups::nodes(&objects, &self.settings, &named)).await;
        let found = groups::groups(&objects, &self.settings, &named);
        for Found { group, problems: of_group, .. } in &found {
            let all = group.problem.iter().chain(of_group);
            problems.extend(all.map(|problem| format!("{}: {problem}", group.id)));
        }
        let is_unchanged = changes.is_some() && self.changes.settled() == changes;
        let mut memory = lock(&self.memory);
        memory.report(problems);
        Ok(memory.keep(found, is_unchanged))
    }

    /// Reads the infrastructure templates that describe nodes, each kind once. Groups do without those that cannot be read.
    async fn read_infrastructure(
        &self,
        cluster: &ManagementCluster,
        namespaces: &Namespaces,
        named: &BTreeSet<String>,
        objects: &mut Objects,
    ) -> BTreeSet<String> {
        let (mut all, mut problems) = (BTreeMap::new(), BTreeSet::new());
        for (group, kind) in groups::infrastructure_kinds(objects, &self.settings, named) {
            let templates = cluster.list_infrastructure(group, kind, namespaces).await;
            let templates: Vec<Infrastructure> = templates.unwrap_or_else(|error| {
                let cause = api_message(&error);
                problems.insert(format!("could not list {kind}.{group}: {cause}"));
                Vec::new()
            });
            for template in templates {
                let (namespace, name) = (&template.metadata.namespace, &template.metadata.name);
                let key = [group, kind, namespace, name].map(str::to_owned);
                all.insert(key, template);
            }
        }
        objects.infrastructure = all;
        problems
    }

    /// Returns the labels of a node of each group. A node is read once.
    async fn node_labels(
        &self,
        nodes: BTreeMap<String, String>,
    ) -> BTreeMap<String, BTreeMap<String, String>> {
        let known = std::mem::take(&mut lock(&self.memory).labels);
        let read = |(group, name): (String, String)| {
            let known = known.get(&group).filter(|(node, _)| *node == name).cloned();
            let api: Api<Node> = Api::all(self.context.client.clone());
            async move {
                if let Some((_, labels)) = known {
                    return Some((group, (name, labels)));
                }
                // Without an answer it is read again for the next snapshot. A node of another cluster has no labels here.
                let found = limited(api.get_metadata_opt(&name)).await.ok()?;
                let labels = found.and_then(|node| node.metadata.labels).unwrap_or_default();
                Some((group, (name, labels)))
            }
        };
        let read: Vec<_> =
            stream::iter(nodes).map(read).buffer_unordered(PARALLEL_READS).collect().await;
        let read: BTreeMap<_, _> = read.into_iter().flatten().collect();
        let labels = read.iter().map(|(group, (_, labels))| (group.clone(), labels.clone()));
        let labels = labels.collect();
        lock(&self.memory).labels = read;
        labels
    }

    async fn connect(&self) -> Result<Arc<ManagementCluster>, ProviderError> {
        let connected = self.management.connect().await;
        connected.map_err(|message| ProviderError::Unavailable { message })
    }

    fn known(&self, id: &str) -> Option<KnownGroup> {
        lock(&self.memory).groups.get(id).cloned()
    }

    fn requested(&self, id: &str) -> BTreeSet<String> {
        lock(&self.memory).requested.get(id).cloned().unwrap_or_default()
    }

    fn remember_requested(&self, id: &str, machines: impl Iterator<Item = String>) {
        lock(&self.memory).requested.entry(id.to_owned()).or_default().extend(machines);
    }

    fn lock(&self, id: &str) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(lock(&self.locks).entry(id.to_owned()).or_default())
    }
}

impl Memory {
    /// Keeps the groups of a snapshot, and returns them with the machines that are about to be deleted.
    fn keep(&mut self, found: Vec<Found>, is_unchanged: bool) -> Vec<Group> {
        self.groups.clear();
        let mut requested = std::mem::take(&mut self.requested);
        let mut groups = Vec::new();
        for Found { mut group, known, .. } in found {
            let before = requested.remove(&group.id).unwrap_or_default();
            let going = going(&known, before, is_unchanged);
            let ids = known.machines.iter().filter(|machine| going.contains(&machine.uid));
            let ids: BTreeSet<&String> =
                ids.map(|machine| &machine.instance).chain(&going).collect();
            for instance in group.instances.iter_mut().filter(|it| ids.contains(&it.id)) {
                (instance.state, instance.error) = (InstanceState::Deleting, None);
            }
            if !going.is_empty() {
                self.requested.insert(group.id.clone(), going);
            }
            self.groups.insert(group.id.clone(), known);
            groups.push(group);
        }
        groups
    }

    /// Logs problems that were not there before.
    fn report(&mut self, problems: BTreeSet<String>) {
        for problem in problems.difference(&self.reported) {
            tracing::warn!(problem, "a group of Cluster API cannot be used as it is");
        }
        self.reported = problems;
    }
}

/// Returns the machines that Cluster API is about to delete: those that were requested, and after a restart those that are marked. Once
/// there are no more machines than replicas, no deletion is due.
fn going(known: &KnownGroup, requested: BTreeSet<String>, is_unchanged: bool) -> BTreeSet<String> {
    let is_due = known.alive() > known.replicas as usize;
    if !is_due && is_unchanged {
        return BTreeSet::new();
    }
    let marked =
        known.machines.iter().filter(|it| is_due && it.mark == Mark::Own && !it.is_deleting);
    let exists = |id: &String| {
        known.pooled.contains(id) || known.machines.iter().any(|machine| machine.uid == *id)
    };
    let marked: BTreeSet<String> = marked.map(|machine| machine.uid.clone()).collect();
    requested.into_iter().filter(exists).chain(marked).collect()
}

/// Lists the objects of all groups.
async fn read_objects(
    cluster: &ManagementCluster,
    namespaces: &Namespaces,
) -> Result<Objects, kube::Error> {
    let scalables = async |kind| {
        let mut all: Vec<Scalable> = cluster.list(kind, namespaces).await?;
        all.iter_mut().for_each(|object| object.kind = kind);
        Ok(all)
    };
    let (mut deployments, sets, pools, machines) = tokio::try_join!(
        scalables(MACHINE_DEPLOYMENT),
        scalables(MACHINE_SET),
        scalables(MACHINE_POOL),
        cluster.list::<Machine>(MACHINE, namespaces),
    )?;
    deployments.extend(sets);
    deployments.extend(pools);
    Ok(Objects { scalables: deployments, machines, ..Objects::default() })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
