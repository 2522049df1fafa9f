//! Starts the removals of a plan, marks unneeded nodes, and removes the marks of removals that did not end. The taints of nodes that
//! belong to no group are not changed: they belong to another autoscaler.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::plimsoll::NodeAutoscaler;
use cluster::error::api_message;
use cluster::{EventType, Key};
use decide::nodes::{DELETION_CANDIDATE_TAINT, Readiness, ScaleDown, readiness};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Node;

use super::NodeController;
use super::batch::WholeGroup;
use super::observe::Observation;
use super::options::RemovalOptions;
use super::providers::{ProviderGroup, ProviderGroups};
use super::record::{Note, SOURCE};
use super::removal::{NotRemoved, Removal, RemovalResult};
use super::taints::{self, TaintChange};

/// A node that was chosen to be removed.
struct ChosenNode {
    node: Node,
    group: ProviderGroup,
    group_name: String,
    /// The names of the pods that move.
    moves: Vec<String>,
}

impl NodeController {
    /// Starts the removals of a plan, and returns how many.
    pub(super) fn remove(
        &mut self,
        plan: &ScaleDown,
        autoscaler: &NodeAutoscaler,
        observed: &Observation,
        groups: &ProviderGroups,
    ) -> usize {
        let chosen = self.chosen(plan, observed, groups);
        let mut whole = BTreeMap::new();
        for group in observed.cluster.groups.iter().filter(|group| group.all_or_nothing) {
            let of_group = chosen.iter().filter(|one| *one.group_name == *group.name);
            whole.insert(group.name.clone(), WholeGroup::new(of_group.count()));
        }
        let count = chosen.len();
        for ChosenNode { node, group, group_name, moves } in chosen {
            let name = node.metadata.name.clone().unwrap_or_default();
            let is_drain = !moves.is_empty();
            tracing::info!(node = name, group = group_name, drain = is_drain, "removing the node");
            self.about_cluster(match is_drain {
                false => {
                    let text = format!("Scale-down: removing empty node {name:?}");
                    Note::normal("ScaleDownEmpty", text)
                }
                true => {
                    let pods = moves.join(",");
                    let text =
                        format!("Scale-down: removing node {name}, pods to reschedule: {pods}");
                    Note::normal("ScaleDown", text)
                }
            });
            let now = self.cx.clock.now();
            let mut nodes = observed.cluster.nodes.iter();
            let found = nodes.find(|node| *node.name == *name);
            let state = found.map(|node| readiness(node, &observed.settings, now));
            let removal = Removal {
                cx: Arc::clone(&self.cx),
                rival: Arc::clone(&self.rival),
                additions: Arc::clone(&self.additions),
                autoscaler: autoscaler.clone(),
                options: RemovalOptions::from(&autoscaler.spec.scale_down),
                whole: whole.get(&*group_name).cloned(),
                group,
                group_name,
                batches: Arc::clone(&self.batches),
                node,
                is_drain,
                is_ready: state == Some(Readiness::Ready),
                removing: self.removing.clone(),
            };
            let task = self.removals.spawn(removal.run());
            self.nodes_of_tasks.insert(task.id(), name);
        }
        if count > 0 {
            self.cx.settings.node_metrics.active("scaleDown", self.cx.clock.now());
        }
        count
    }

    /// Returns the nodes of a plan whose removal can begin, which counts as in progress from now on.
    fn chosen(
        &mut self,
        plan: &ScaleDown,
        observed: &Observation,
        groups: &ProviderGroups,
    ) -> Vec<ChosenNode> {
        let mut chosen = Vec::new();
        for removal in &plan.delete {
            let nodes = &self.cx.caches.node_scaling.nodes;
            let Some(node) = nodes.get(&Key::new("", &*removal.node)) else { continue };
            let Some(name) = self.additions.group_of(&node.0) else { continue };
            let Some(Ok(group)) = groups.get(name) else { continue };
            if !self.removing.contains(&removal.node) {
                let moves = removal.moves.iter();
                let moves = moves.map(|(pod, _)| observed.cluster.pods[*pod].full_name());
                let moves = moves.collect();
                let (group_name, group) = (name.to_owned(), group.clone());
                chosen.push(ChosenNode { node: node.0.clone(), group, group_name, moves });
                self.removing.insert(removal.node.clone());
            }
        }
        chosen
    }

    /// Records the result of a removal.
    pub(super) fn removal_ended(&mut self, result: RemovalResult) {
        let now = self.cx.clock.now();
        self.removing.remove(&*result.node);
        if result.is_tainted {
            self.memory.tainted.insert(result.node.as_str().into());
        }
        match result.outcome {
            Ok(()) => {
                self.memory.removed(&result.node, &result.group, now);
                self.last_failure = None;
                let node = &result.node;
                self.about_cluster(match result.is_drain {
                    false => {
                        let text = format!("Scale-down: empty node {node} removed");
                        Note::normal("ScaleDownEmpty", text)
                    }
                    true => {
                        let text = format!("Scale-down: node {node} removed with drain");
                        Note::normal("ScaleDown", text)
                    }
                });
            }
            Err(NotRemoved::Needed(_)) => {
                let status = self.memory.status.get_or_insert_default();
                status.unneeded_since.remove(&*result.node);
            }
            Err(NotRemoved::Failed(cause)) => {
                self.memory.removal_failed(&result.node, &result.group, now);
                self.last_failure = Some(format!("{}: {cause}", result.node));
            }
        }
        self.trigger.fire();
    }

    /// Removes the taints and cordons of removals that did not end: of an earlier controller, or of this one if it could not remove them.
    pub(super) async fn untaint_abandoned(&mut self, autoscaler: &NodeAutoscaler) {
        if self.memory.tainted.is_empty() {
            return;
        }
        let managed = self.additions.managed_nodes(&self.cx.caches.node_scaling);
        let name = |node: &cluster::CachedObject<Node>| -> Box<str> {
            node.0.metadata.name.as_deref().unwrap_or_default().into()
        };
        let tainted = std::mem::take(&mut self.memory.tainted);
        let abandoned = managed.iter().filter(|node| {
            let name = name(node);
            tainted.contains(&name) && !self.removing.contains(&name)
        });
        let change = TaintChange::Abort { foreign_cordon: autoscaler.spec.scale_down.cordon };
        let untainting = abandoned.map(|node| {
            let (cx, name) = (Arc::clone(&self.cx), name(node));
            async move {
                tracing::info!(node = &*name, "removing the taint of an abandoned removal");
                taints::change(&cx.client, &name, change).await.map_err(|error| (name, error))?;
                let text = "removed the taint of an abandoned removal".to_owned();
                let reason = "ClusterAutoscalerCleanup";
                cx.events.record(&node.0, SOURCE, EventType::Normal, reason, text);
                Ok(())
            }
        });
        let outcomes: Vec<Result<(), (Box<str>, kube::Error)>> =
            join_all(untainting.collect::<Vec<_>>()).await;
        for (node, error) in outcomes.into_iter().filter_map(Result::err) {
            let error = api_message(&error);
            tracing::warn!(node = &*node, error, "could not remove the taint; will retry");
            self.memory.tainted.insert(node);
        }
    }

    /// Marks unneeded nodes, so that the scheduler prefers others, and unmarks those that are needed again.
    pub(super) async fn mark_unneeded(&self, plan: &ScaleDown, autoscaler: &NodeAutoscaler) {
        let most = usize::try_from(autoscaler.spec.scale_down.max_soft_taints).unwrap_or(0);
        let now = self.cx.clock.now();
        let mut changes = Vec::new();
        for node in self.additions.managed_nodes(&self.cx.caches.node_scaling) {
            let name = node.0.metadata.name.clone().unwrap_or_default();
            let is_unneeded = plan.unneeded.binary_search_by(|(n, _)| (**n).cmp(&name)).is_ok();
            match (taints::has(&node.0, DELETION_CANDIDATE_TAINT), is_unneeded && most > 0) {
                (true, false) => changes.push((false, name, TaintChange::Unmark)),
                (false, true) if !self.removing.contains(&*name) => {
                    changes.push((true, name, TaintChange::Mark { at: now }));
                }
                (true, true) | (false, _) => {}
            }
        }
        // Needed nodes come first.
        changes.sort_by_key(|(is_new, ..)| *is_new);
        changes.truncate(most.max(1));
        let writes = changes.into_iter().map(|(_, name, change)| {
            let client = self.cx.client.clone();
            async move {
                if let Err(error) = taints::change(&client, &name, change).await {
                    let error = api_message(&error);
                    tracing::debug!(node = name, error, "could not mark a node; will retry");
                }
            }
        });
        join_all(writes).await;
    }
}
