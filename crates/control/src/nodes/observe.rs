//! Observes a cluster for the decision about its nodes.
//!
//! Pods are by far the most, and as the API's types they take several times their text. So each is read and dropped again, once
//! it is known what a decision needs of it.

use std::borrow::Borrow;

use api::nodes::ClusterObjects;
use api::plimsoll::{NodeAutoscaler, NodeGroup};
use decide::nodes::{Answer, Cluster, Settings, Status};
use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    self as core, Namespace, Node, PersistentVolume, PersistentVolumeClaim, ReplicationController,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};

use super::known_pods::KnownPods;
use crate::lister::{Lister, Unreadable};

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
}

/// The kinds of objects that a decision about nodes depends on.
pub trait NodeListers:
    Lister<Node>
    + Lister<core::Pod>
    + Lister<NodeGroup>
    + Lister<Namespace>
    + Lister<PodDisruptionBudget>
    + Lister<DaemonSet>
    + Lister<ReplicaSet>
    + Lister<StatefulSet>
    + Lister<Job>
    + Lister<ReplicationController>
    + Lister<PersistentVolumeClaim>
    + Lister<PersistentVolume>
    + Lister<StorageClass>
    + Lister<CSINode>
{
}

impl<W> NodeListers for W where
    W: Lister<Node>
        + Lister<core::Pod>
        + Lister<NodeGroup>
        + Lister<Namespace>
        + Lister<PodDisruptionBudget>
        + Lister<DaemonSet>
        + Lister<ReplicaSet>
        + Lister<StatefulSet>
        + Lister<Job>
        + Lister<ReplicationController>
        + Lister<PersistentVolumeClaim>
        + Lister<PersistentVolume>
        + Lister<StorageClass>
        + Lister<CSINode>
{
}

/// Observes the cluster of an autoscaler.
pub fn observe(
    autoscaler: &NodeAutoscaler,
    world: &impl NodeListers,
) -> Result<Observation, Unreadable> {
    observe_known(autoscaler, world, &mut KnownPods::default())
}

/// Observes the cluster of an autoscaler. Of the pods only those are read that are not `known`.
pub(super) fn observe_known(
    autoscaler: &NodeAutoscaler,
    world: &impl NodeListers,
    known: &mut KnownPods,
) -> Result<Observation, Unreadable> {
    let settings = api::nodes::settings(&autoscaler.spec);
    let resting = super::inputs::resting(autoscaler);
    Ok(Observation {
        settings: settings.map_err(|problems| Unreadable::new(autoscaler, problems))?,
        status: Status { resting, ..api::nodes::status(autoscaler.status.as_ref()) },
        cluster: cluster(world, known)?,
        answers: super::inputs::answers(autoscaler),
    })
}

/// Reads the nodes, the pods and what else matters to them.
fn cluster<W: NodeListers>(world: &W, known: &mut KnownPods) -> Result<Cluster, Unreadable> {
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
    let pods = known.read(world, &objects.storage())?;
    Ok(Cluster { pods, ..objects.cluster() })
}

fn all<K, W: Lister<K>>(world: &W) -> Result<Vec<W::Item>, Unreadable> {
    world.list(None).collect()
}

fn borrowed<K, I: Borrow<K>>(items: &[I]) -> Vec<&K> {
    items.iter().map(Borrow::borrow).collect()
}
