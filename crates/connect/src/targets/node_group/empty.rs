//! Nodes that nothing runs on but what every node has: pods of DaemonSets and static pods.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use cluster::error::{api_message, status_code};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions};

use super::{NodeGroupTarget, TargetError};

/// The annotation of a static pod's object.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The annotation of a node that no autoscaler removes.
const KEEP: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";

/// A node that is about to be deleted: no pod can be placed on it.
pub(super) struct Reserved {
    pub(super) node: Node,
    was_schedulable: bool,
}

impl NodeGroupTarget {
    /// Finds some empty nodes, and keeps pods away from them. The newest go first. Where there are too few, nothing is changed.
    pub(super) async fn reserve_empty(
        &self,
        nodes: Vec<Node>,
        count: usize,
    ) -> Result<Vec<Reserved>, TargetError> {
        let busy = self.busy_nodes(&ListParams::default()).await?;
        let is_kept =
            |node: &Node| node.annotations().get(KEEP).is_some_and(|value| value == "true");
        let mut empty = nodes;
        empty.retain(|node| !busy.contains(&node.name_any()) && !is_kept(node));
        if empty.len() < count {
            let found = empty.len();
            return Err(self.refused(format!(
                "{count} empty nodes would have to be deleted, and {found} are empty; pods are not evicted for a policy"
            )));
        }
        let age = |node: &Node| node.metadata.creation_timestamp.as_ref().map(|time| time.0);
        empty.sort_by_key(|node| (is_schedulable(node), Reverse(age(node)), node.name_any()));
        empty.truncate(count);
        let mut reserved = Vec::new();
        for node in empty {
            match self.reserve(node).await {
                Ok(node) => reserved.push(node),
                Err(error) => {
                    self.release(&reserved).await;
                    return Err(error);
                }
            }
        }
        Ok(reserved)
    }

    /// Makes a node unschedulable, and looks again whether it is empty.
    async fn reserve(&self, node: Node) -> Result<Reserved, TargetError> {
        let reserved = Reserved { was_schedulable: is_schedulable(&node), node };
        if reserved.was_schedulable {
            self.set_schedulable(reserved.node.clone(), false).await?;
        }
        let name = reserved.node.name_any();
        let on_node = ListParams::default().fields(&format!("spec.nodeName={name}"));
        let problem = match self.busy_nodes(&on_node).await {
            Ok(busy) if busy.is_empty() => return Ok(reserved),
            Ok(_) => TargetError::Conflict {
                target: self.to_string(),
                message: format!("node {name} is no longer empty"),
            },
            Err(error) => error,
        };
        self.release(&[reserved]).await;
        Err(problem)
    }

    /// Lets pods onto nodes again that were not deleted, unless somebody else keeps them away.
    pub(super) async fn release(&self, nodes: &[Reserved]) {
        let api: Api<Node> = Api::all(self.context.client.clone());
        for reserved in nodes.iter().filter(|reserved| reserved.was_schedulable) {
            let name = reserved.node.name_any();
            let released = match api.get(&name).await {
                Ok(node) => self.set_schedulable(node, true).await,
                Err(error) => Err(self.read_error(&error)),
            };
            if let Err(error) = released {
                tracing::warn!(%error, node = name, "the node may stay unschedulable");
            }
        }
    }

    /// Deletes the Nodes of machines that are deleted. Elsewhere the cloud's own controller does so later.
    pub(super) async fn delete(&self, nodes: &[Reserved]) {
        let api: Api<Node> = Api::all(self.context.client.clone());
        for Reserved { node, .. } in nodes {
            let preconditions = Preconditions { uid: node.uid(), resource_version: None };
            let params =
                DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            match api.delete(&node.name_any(), &params).await {
                Err(error) if !matches!(status_code(&error), Some(404 | 409)) => {
                    tracing::warn!(
                        error = api_message(&error),
                        node = node.name_any(),
                        "could not delete the node"
                    );
                }
                Ok(_) | Err(_) => {}
            }
        }
    }

    async fn set_schedulable(&self, mut node: Node, schedulable: bool) -> Result<(), TargetError> {
        node.spec.get_or_insert_default().unschedulable = (!schedulable).then_some(true);
        let api: Api<Node> = Api::all(self.context.client.clone());
        let written = api.replace(&node.name_any(), &PostParams::default(), &node).await;
        written.map(drop).map_err(|error| match status_code(&error) {
            Some(404 | 409) => {
                let message = api_message(&error);
                TargetError::Conflict { target: self.to_string(), message }
            }
            Some(_) | None => self.read_error(&error),
        })
    }

    /// Returns the names of the nodes that run pods.
    async fn busy_nodes(&self, pods: &ListParams) -> Result<BTreeSet<String>, TargetError> {
        let api: Api<Pod> = Api::all(self.context.client.clone());
        let pods = api.list(pods).await.map_err(|error| self.read_error(&error))?;
        let busy = pods.items.into_iter().filter(keeps_its_node);
        Ok(busy.filter_map(|pod| pod.spec?.node_name).collect())
    }
}

fn is_schedulable(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) != Some(true)
}

/// Whether a pod is lost, or has to move, when its node goes.
fn keeps_its_node(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let is_over = matches!(phase, Some("Succeeded" | "Failed"));
    let is_daemon = pod
        .owner_references()
        .iter()
        .any(|owner| owner.controller == Some(true) && owner.kind == "DaemonSet");
    !is_over && !is_daemon && !pod.annotations().contains_key(MIRROR)
}
