//! Observes a cluster for the decision about its nodes.
//!
//! Pods are by far the most, and as the API's types they take several times their text. So each is read and dropped again, once
//! it is known what a decision needs of it.

use std::borrow::Borrow;

use api::nodes::{ClusterObjects, Volumes};
use api::plimsoll::{NodeAutoscaler, NodeGroup};
use decide::nodes::{Answer, Cluster, Settings, Status};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    self as core, Namespace, Node, PersistentVolume, PersistentVolumeClaim, ReplicationController,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};

use super::fleets::{FleetListers, GameServers};
use super::forecast::pods_ahead;
use super::known_pods::{self, KnownPods};
use crate::lister::{Lister, Unreadable, listers};
use crate::settings::Sidecar;

/// Everything that a decision about nodes depends on.
pub struct Observation {
    /// The nodes, the pods, and what else matters to them.
    pub cluster: Cluster,
    /// What the autoscaler's spec asks for.
    pub settings: Settings,
    /// The state from earlier decisions.
    pub status: Status,
    /// What another process answered to the questions of the plan.
    pub answers: Vec<Answer>,
    /// The virtual pods among the pods.
    pub virtual_pods: Vec<core::Pod>,
}

listers! {
    /// The kinds of objects that a decision about nodes depends on.
    NodeListers:
    Lister<Node>,
    Lister<core::Pod>,
    Lister<NodeGroup>,
    Lister<Namespace>,
    Lister<PodDisruptionBudget>,
    Lister<DaemonSet>,
    Lister<ReplicaSet>,
    Lister<StatefulSet>,
    Lister<Job>,
    Lister<ReplicationController>,
    Lister<PersistentVolumeClaim>,
    Lister<PersistentVolume>,
    Lister<StorageClass>,
    Lister<CSINode>,
    FleetListers,
}

/// Observes the cluster of an autoscaler at a time. `sidecar` is the SDK server of game servers that do not exist yet.
pub fn observe(
    autoscaler: &NodeAutoscaler,
    world: &impl NodeListers,
    sidecar: &Sidecar,
    now: Timestamp,
) -> Result<Observation, Unreadable> {
    observe_known(autoscaler, world, sidecar, now, &mut KnownPods::for_once())
}

/// Observes the cluster of an autoscaler. Of the pods only those are read that are not `known`.
pub(super) fn observe_known(
    autoscaler: &NodeAutoscaler,
    world: &impl NodeListers,
    sidecar: &Sidecar,
    now: Timestamp,
    known: &mut KnownPods,
) -> Result<Observation, Unreadable> {
    let settings = api::nodes::settings(&autoscaler.spec);
    let resting = super::inputs::resting(autoscaler);
    let mut observation = Observation {
        settings: settings.map_err(|problems| Unreadable::new(autoscaler, problems))?,
        status: Status { resting, ..api::nodes::status(autoscaler.status.as_ref()) },
        cluster: Cluster::default(),
        answers: super::inputs::answers(autoscaler),
        virtual_pods: Vec::new(),
    };
    let mut servers = match autoscaler.spec.fleets.aware {
        true => GameServers::read(world)?,
        false => GameServers::default(),
    };
    let mut cluster = cluster(world, known, &mut servers)?;
    if autoscaler.spec.fleets.aware {
        observation.virtual_pods = servers.pods_to_come(world, sidecar)?;
        observation.virtual_pods.extend(pods_ahead(world, sidecar, now)?);
    }
    // They have no volumes of their own, since those would have to exist.
    let read = |pod| known.shared(api::nodes::pod(pod, &Volumes::default()));
    if !observation.virtual_pods.is_empty() {
        cluster.pods.extend(observation.virtual_pods.iter().map(read));
        known_pods::sort(&mut cluster.pods);
    }
    Ok(Observation { cluster, ..observation })
}

/// Reads the nodes, the pods and what else matters to them.
fn cluster<W: NodeListers>(
    world: &W,
    known: &mut KnownPods,
    servers: &mut GameServers,
) -> Result<Cluster, Unreadable> {
    let nodes = all::<Node, W>(world)?;
    let groups = all::<NodeGroup, W>(world)?;
    let namespaces = all::<Namespace, W>(world)?;
    let budgets = all::<PodDisruptionBudget, W>(world)?;
    let daemon_sets = all::<DaemonSet, W>(world)?;
    let replica_sets = all::<ReplicaSet, W>(world)?;
    let stateful_sets = all::<StatefulSet, W>(world)?;
    let jobs = all::<Job, W>(world)?;
    let replication_controllers = all::<ReplicationController, W>(world)?;
    let claims = all::<PersistentVolumeClaim, W>(world)?;
    let volumes = all::<PersistentVolume, W>(world)?;
    let classes = all::<StorageClass, W>(world)?;
    let csi_nodes = all::<CSINode, W>(world)?;
    let objects = ClusterObjects {
        nodes: borrowed(&nodes),
        groups: borrowed(&groups),
        namespaces: borrowed(&namespaces),
        budgets: borrowed(&budgets),
        daemon_sets: borrowed(&daemon_sets),
        replica_sets: borrowed(&replica_sets),
        stateful_sets: borrowed(&stateful_sets),
        jobs: borrowed(&jobs),
        replication_controllers: borrowed(&replication_controllers),
        claims: borrowed(&claims),
        volumes: borrowed(&volumes),
        classes: borrowed(&classes),
        csi_nodes: borrowed(&csi_nodes),
    };
    let pods = known.read(world, &objects.storage(), |pod| servers.observe(pod))?;
    Ok(Cluster { pods, ..objects.cluster() })
}

fn all<K, W: Lister<K>>(world: &W) -> Result<Vec<W::Item>, Unreadable> {
    world.list(None).collect()
}

fn borrowed<K, I: Borrow<K>>(items: &[I]) -> Vec<&K> {
    items.iter().map(Borrow::borrow).collect()
}
