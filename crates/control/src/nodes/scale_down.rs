//! Starts the removals of a plan, marks unneeded nodes, and removes the marks of removals that did not end. The taints of nodes that
//! belong to no group are not changed: they belong to another autoscaler.

use std::sync::Arc;

use api::plimsoll::NodeAutoscaler;
use cluster::Key;
use cluster::error::api_message;
use decide::nodes::{DELETION_CANDIDATE_TAINT, ScaleDown, Settings};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Node;

use super::NodeController;
use super::providers::ProviderGroups;
use super::removal::{Removal, RemovalResult, TAINTS};
use super::taints::{self, TaintChange};

/// The most soft taints that are written in one evaluation.
const MAX_SOFT_TAINTS: usize = 10;

impl NodeController {
    /// Starts the removals of a plan, and returns how many.
    pub(super) fn remove(
        &mut self,
        plan: &ScaleDown,
        autoscaler: &NodeAutoscaler,
        settings: &Settings,
        groups: &ProviderGroups,
    ) -> usize {
        let mut chosen = Vec::new();
        for removal in &plan.delete {
            let nodes = &self.cx.caches.node_scaling.nodes;
            let Some(node) = nodes.get(&Key::new("", &*removal.node)) else { continue };
            let group = self.additions.group_of(&node.0).and_then(|name| groups.get(name));
            let group = group.and_then(|group| group.as_ref().ok());
            let Some(group) = group else { continue };
            if !self.removing.contains(&removal.node) {
                chosen.push((node.0.clone(), group.clone(), removal.is_drain()));
                self.removing.insert(removal.node.clone());
            }
        }
        let count = chosen.len();
        for (node, group, drain) in chosen {
            let name = node.metadata.name.clone().unwrap_or_default();
            tracing::info!(node = name, group = group.state.id, drain, "removing the node");
            let removal = Removal {
                cx: Arc::clone(&self.cx),
                rival: Arc::clone(&self.rival),
                additions: self.additions.clone(),
                autoscaler: autoscaler.clone(),
                group,
                node,
                removing: self.removing.clone(),
                max_graceful_termination: settings.scale_down.max_graceful_termination,
            };
            let task = self.removals.spawn(removal.run());
            self.nodes_of_tasks.insert(task.id(), name);
        }
        count
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
                let status = self.memory.status.get_or_insert_default();
                status.last_delete_at = Some(now);
                status.unneeded_since.remove(&*result.node);
                self.last_failure = None;
            }
            Err(cause) => {
                self.memory.removal_failed(&result.node, now);
                self.last_failure = Some(format!("{}: {cause}", result.node));
            }
        }
        self.trigger.fire();
    }

    /// Removes the taints of removals that did not end: of an earlier controller, or of this one if it could not remove them.
    pub(super) async fn untaint_abandoned(&mut self) {
        let managed = self.additions.managed_nodes(&self.cx.caches.node_scaling);
        let name = |node: &cluster::CachedObject<Node>| -> Box<str> {
            node.0.metadata.name.as_deref().unwrap_or_default().into()
        };
        let tainted = std::mem::take(&mut self.memory.tainted);
        let abandoned = managed
            .iter()
            .map(|node| name(node))
            .filter(|name| tainted.contains(name) && !self.removing.contains(name));
        let untainting = abandoned.map(|name| {
            let client = self.cx.client.clone();
            async move {
                tracing::info!(node = &*name, "removing the taint of an abandoned removal");
                let outcome = taints::change(&client, &name, TaintChange::Remove(TAINTS)).await;
                outcome.map_err(|error| (name, error))
            }
        });
        for outcome in join_all(untainting.collect::<Vec<_>>()).await {
            if let Err((node, error)) = outcome {
                let error = api_message(&error);
                tracing::warn!(node = &*node, error, "could not remove the taint; will retry");
                self.memory.tainted.insert(node);
            }
        }
    }

    /// Marks unneeded nodes, so that the scheduler prefers others, and unmarks those that are needed again.
    pub(super) async fn mark_unneeded(&self, plan: &ScaleDown) {
        let now = self.cx.clock.now();
        let mut changes = Vec::new();
        for node in self.additions.managed_nodes(&self.cx.caches.node_scaling) {
            let name = node.0.metadata.name.clone().unwrap_or_default();
            let is_unneeded = plan.unneeded.binary_search_by(|(n, _)| (**n).cmp(&name)).is_ok();
            let is_marked = taints::has(&node.0, DELETION_CANDIDATE_TAINT);
            match (is_marked, is_unneeded) {
                (true, false) => {
                    changes.push((false, name, TaintChange::Remove(&[DELETION_CANDIDATE_TAINT])));
                }
                (false, true) if !self.removing.contains(&*name) => {
                    let effect = "PreferNoSchedule";
                    let key = DELETION_CANDIDATE_TAINT;
                    changes.push((true, name, TaintChange::Add { key, effect, at: now }));
                }
                (true, true) | (false, _) => {}
            }
        }
        // Needed nodes come first.
        changes.sort_by_key(|(is_new, ..)| *is_new);
        changes.truncate(MAX_SOFT_TAINTS);
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
