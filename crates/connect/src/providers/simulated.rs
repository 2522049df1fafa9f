//! Simulated machines: Node objects that are created and deleted in the cluster itself. The embedded engine runs the pods of `simulated`
//! nodes, and a KWOK controller those of `kwok` nodes.
//!
//! The target of a group is the `status.target` of its NodeGroup, so that it survives a restart.

mod creation;
mod flavor;
mod node;

use std::sync::Arc;

use api::plimsoll::NodeGroup;
use api::plimsoll::node_group::LABEL;
use cluster::Undecoded;
use cluster::error::status_code;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::{Resource as _, ResourceExt as _};
use process::Supervised;
use serde_json::{Value, json};
use tokio::sync::{Mutex, Notify};

use super::cluster_error::{read_error, refused, write_error};
use super::{Group, Instance, InstanceError, InstanceState, NodeGroupProvider, ProviderError};
use crate::registry::Context;
use creation::Creations;
use flavor::{Flavor, KWOK, SIMULATED};

/// How often a target is written that another client wrote in the meantime.
const TRIES: u32 = 5;

/// The provider, and the task that creates nodes when they are due.
struct Simulated {
    machines: Arc<Machines>,
    _creator: Supervised,
}

struct Machines {
    context: Context,
    flavor: &'static Flavor,
    /// The instances that have no Node. Locked during each call, so that calls see each other's work.
    creations: Mutex<Creations>,
    changed: Notify,
}

/// Opens the provider whose nodes the embedded engine runs.
pub(super) fn open(context: &Context, _: &Value) -> Result<Arc<dyn NodeGroupProvider>, String> {
    Ok(open_flavor(context, &SIMULATED))
}

/// Opens the provider whose nodes a KWOK controller runs.
pub(super) fn open_kwok(
    context: &Context,
    _: &Value,
) -> Result<Arc<dyn NodeGroupProvider>, String> {
    Ok(open_flavor(context, &KWOK))
}

fn open_flavor(context: &Context, flavor: &'static Flavor) -> Arc<dyn NodeGroupProvider> {
    let (context, creations) = (context.clone(), Mutex::new(Creations::default()));
    let machines = Machines { context: context.clone(), flavor, creations, changed: Notify::new() };
    let machines = Arc::new(machines);
    let shared = Arc::clone(&machines);
    let task = format!("creation of {} nodes", flavor.name);
    let creator = context.supervisor.spawn(task, move || {
        let machines = Arc::clone(&shared);
        async move { machines.create_when_due().await }
    });
    Arc::new(Simulated { machines, _creator: creator })
}

impl NodeGroupProvider for Simulated {
    fn snapshot(&self) -> BoxFuture<'_, Result<Vec<Group>, ProviderError>> {
        Box::pin(self.machines.snapshot())
    }

    fn increase<'a>(&'a self, group: &'a str, by: u32) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(self.machines.increase(group, by))
    }

    fn delete_nodes<'a>(
        &'a self,
        group: &'a str,
        instances: &'a [String],
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(self.machines.delete_nodes(group, instances))
    }

    fn decrease_target<'a>(
        &'a self,
        group: &'a str,
        by: u32,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(self.machines.decrease_target(group, by))
    }
}

impl Machines {
    async fn snapshot(&self) -> Result<Vec<Group>, ProviderError> {
        let mut creations = self.creations.lock().await;
        let mut groups = Vec::new();
        for group in self.groups().await? {
            let listed = self.nodes(&group.name_any()).await?;
            let nodes = match self.create_due(&mut creations, &group, listed).await {
                // What is wrong with one group must not hide the others; the creator logs it.
                Err(ProviderError::Refused { .. }) => self.nodes(&group.name_any()).await?,
                created => created?,
            };
            groups.push(describe(&group, &nodes, &creations, self.flavor));
        }
        self.changed.notify_one();
        Ok(groups)
    }

    async fn increase(&self, name: &str, by: u32) -> Result<(), ProviderError> {
        let mut creations = self.creations.lock().await;
        let group = self.group(name).await?;
        if group.spec.template.is_none() {
            return Err(refused(name, "needs a template to create nodes from"));
        }
        let settings = creation::settings(&group, self.flavor)?;
        if settings.out_of_stock {
            let message = "there are no machines, as outOfStock asks for".to_owned();
            return Err(ProviderError::OutOfResources { group: name.to_owned(), message });
        }
        // A list that must be up to date may wait for the API server's cache after a write, so there is none after that of the target.
        let nodes = self.nodes(name).await?;
        let group = self.set_target(name, nodes.len(), |target, group| {
            let to = target.saturating_add(by);
            let max = limit(group.spec.max);
            let problem = || format!("{to} nodes are more than max, which is {max}");
            if to > max { Err(refused(name, problem())) } else { Ok(to) }
        });
        let group = group.await?;
        // The increase is accepted with its target; what fails from here on, the creator tries again.
        if let Err(error) = self.create_due(&mut creations, &group, nodes).await {
            tracing::debug!(%error, group = name, "could not create simulated nodes at once");
        }
        self.changed.notify_one();
        Ok(())
    }

    async fn delete_nodes(&self, name: &str, instances: &[String]) -> Result<(), ProviderError> {
        let mut creations = self.creations.lock().await;
        let group = self.group(name).await?;
        let nodes = self.nodes(name).await?;
        let present = nodes.len();
        let is_asked_for =
            |node: &&Node| instances.contains(&self.flavor.instance_id(&node.name_any()));
        let doomed: Vec<Node> = nodes.iter().filter(is_asked_for).cloned().collect();
        let failed = creations.count_failed(name, instances);
        let left = target(&group, present).saturating_sub(limit_usize(doomed.len() + failed));
        let min = limit(group.spec.min);
        if left < min && !(doomed.is_empty() && failed == 0) {
            return Err(refused(name, format!("{left} nodes are fewer than min, which is {min}")));
        }
        let mut gone = creations.remove_failed(name, instances);
        let mut outcome = Ok(());
        for node in &doomed {
            match self.delete(node).await {
                Ok(()) => gone += 1,
                Err(error) => outcome = Err(write_error(name, &error)),
            }
        }
        // The target follows what is gone: a crash in between leaves it too high, never too low.
        let gone = limit_usize(gone);
        self.set_target(name, present, |target, _| Ok(target.saturating_sub(gone))).await?;
        outcome
    }

    async fn decrease_target(&self, name: &str, by: u32) -> Result<(), ProviderError> {
        let mut creations = self.creations.lock().await;
        let nodes = self.nodes(name).await?;
        let present = nodes.len();
        let group = self.set_target(name, present, |target, _| {
            let (to, least) = (target.saturating_sub(by), limit_usize(present));
            let problem = || format!("a target of {to} would delete nodes: {least} exist");
            if to < least { Err(refused(name, problem())) } else { Ok(to) }
        });
        let group = group.await?;
        creations.cancel_failed(name, limit_usize(present), target(&group, present));
        self.create_due(&mut creations, &group, nodes).await?;
        Ok(())
    }

    /// Writes the target that `change` returns for the present one, and returns the group with it.
    async fn set_target(
        &self,
        name: &str,
        present: usize,
        change: impl Fn(u32, &NodeGroup) -> Result<u32, ProviderError>,
    ) -> Result<NodeGroup, ProviderError> {
        let api: Api<NodeGroup> = Api::all(self.context.client.clone());
        let mut tries = 0;
        loop {
            let group = self.group(name).await?;
            let from = group.status.as_ref().and_then(|status| status.target);
            let to = change(target(&group, present), &group)?;
            if from == i32::try_from(to).ok() {
                return Ok(group);
            }
            tries += 1;
            let version = group.resource_version();
            let patch = json!({"metadata": {"resourceVersion": version}, "status": {"target": to}});
            match api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(group) => return Ok(group),
                Err(error) if status_code(&error) == Some(409) && tries < TRIES => {}
                Err(error) => return Err(write_error(name, &error)),
            }
        }
    }

    async fn delete(&self, node: &Node) -> Result<(), kube::Error> {
        let api: Api<Node> = Api::all(self.context.client.clone());
        let preconditions = Preconditions { uid: node.uid(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match api.delete(&node.name_any(), &params).await {
            Ok(_) => Ok(()),
            // It was deleted, and another one may have its name.
            Err(error) if matches!(status_code(&error), Some(404 | 409)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Lists the groups of this provider. A group that cannot be decoded is skipped.
    async fn groups(&self) -> Result<Vec<NodeGroup>, ProviderError> {
        let api: Api<Undecoded<NodeGroup>> = Api::all(self.context.client.clone());
        let all = api.list(&ListParams::default()).await.map_err(|error| read_error(&error))?;
        let groups = all.items.iter().filter_map(Undecoded::decode);
        Ok(groups.filter(|group| self.flavor.is_of(group)).collect())
    }

    async fn group(&self, name: &str) -> Result<NodeGroup, ProviderError> {
        let api: Api<NodeGroup> = Api::all(self.context.client.clone());
        let group = api.get_opt(name).await.map_err(|error| read_error(&error))?;
        let unknown = || ProviderError::UnknownGroup { group: name.to_owned() };
        group.filter(|group| self.flavor.is_of(group)).ok_or_else(unknown)
    }

    /// Lists the nodes of a group, without those that are being deleted. A node that cannot be decoded is still an instance: only its name
    /// is known.
    async fn nodes(&self, group: &str) -> Result<Vec<Node>, ProviderError> {
        let api: Api<Undecoded<Node>> = Api::all(self.context.client.clone());
        let params = ListParams::default().labels(&format!("{LABEL}={group}"));
        let nodes = api.list(&params).await.map_err(|error| read_error(&error))?;
        let named =
            |node: &Undecoded<Node>| Node { metadata: node.meta().clone(), ..Node::default() };
        let nodes = nodes.items.iter().map(|node| node.decode().unwrap_or_else(|| named(node)));
        Ok(nodes.filter(|node| node.metadata.deletion_timestamp.is_none()).collect())
    }
}

fn describe(group: &NodeGroup, nodes: &[Node], creations: &Creations, flavor: &Flavor) -> Group {
    let (name, read) = (group.name_any(), api::nodes::group(group));
    let instance = |id: String, state, error| Instance { id, state, error };
    let running = nodes
        .iter()
        .map(|node| instance(flavor.instance_id(&node.name_any()), InstanceState::Running, None));
    let failed = creations.failed(&name).map(|id| {
        let message = "the machine failed to start, as failureRate asks for".to_owned();
        let error = InstanceError { is_out_of_resources: false, message };
        instance(id.to_owned(), InstanceState::Creating, Some(error))
    });
    let starting = (0..creations.count_starting(&name)).map(|number| {
        let id = flavor.instance_id(&format!("{name}/starting-{number}"));
        instance(id, InstanceState::Creating, None)
    });
    Group {
        min: read.min,
        max: read.max,
        target: target(group, nodes.len()),
        instances: running.chain(failed).chain(starting).collect(),
        template: read.template,
        options: read.options,
        all_or_nothing: read.all_or_nothing,
        price: read.price,
        id: name,
        ..Group::default()
    }
}

/// Returns the requested size; by default the number of existing nodes.
fn target(group: &NodeGroup, present: usize) -> u32 {
    let asked_for = group.status.as_ref().and_then(|status| status.target);
    asked_for.map_or(limit_usize(present), limit)
}

fn limit(count: i32) -> u32 {
    u32::try_from(count).unwrap_or(0)
}

fn limit_usize(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
