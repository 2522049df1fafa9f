//! A NodeGroup: the number of its machines, through its provider.
//!
//! Pods are not evicted for a policy: to remove machines, those that have not appeared are cancelled, and then nodes are deleted that
//! nothing runs on. Where these are too few, nothing is changed.

mod empty;

use std::cmp::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use api::plimsoll::{NodeAutoscaler, NodeGroup};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde_json::Value;

use super::{Target, TargetError, TargetRef, TargetStatus, Version, object_error};
use crate::providers::{
    Group, Instance, InstanceState, NamedGroup, NodeGroupProvider, ProviderError, SharedProvider,
    named_group, open_shared,
};
use crate::registry::Context;

struct NodeGroupTarget {
    context: Context,
    name: String,
    /// The provider that was used last, so that it stays open.
    opened: Mutex<Option<Arc<SharedProvider>>>,
}

/// A group at its provider.
struct AtProvider {
    shared: Arc<SharedProvider>,
    named: NamedGroup,
    state: Group,
}

pub(super) fn open(context: &Context, target: &TargetRef) -> Result<Arc<dyn Target>, String> {
    let name = target.spec.node_group.clone().map(|group| group.name).unwrap_or_default();
    if name.is_empty() {
        return Err("name: required".to_owned());
    }
    let (context, opened) = (context.clone(), Mutex::default());
    Ok(Arc::new(NodeGroupTarget { context, name, opened }))
}

impl Target for NodeGroupTarget {
    fn status(&self) -> BoxFuture<'_, Result<TargetStatus, TargetError>> {
        Box::pin(async move {
            let group = self.group().await?;
            let manager = self.manager().await?;
            let (target, nodes) = match recorded_target(&group).filter(|_| manager.is_some()) {
                // Two of one process must not create the same simulated machines.
                Some(target) => (target, self.nodes(None).await?),
                None => {
                    let found = self.at_provider(&group, manager.as_ref()).await?;
                    (found.state.target, self.nodes(Some(&found.state)).await?)
                }
            };
            let ready = nodes.iter().filter(|node| is_ready(node)).count();
            let ready = u32::try_from(ready).unwrap_or(u32::MAX);
            Ok(TargetStatus { count: target, ready, version: version(target) })
        })
    }

    fn scale<'a>(
        &'a self,
        to: u32,
        version: &'a Version,
    ) -> BoxFuture<'a, Result<(), TargetError>> {
        Box::pin(self.set(to, version))
    }
}

impl NodeGroupTarget {
    async fn set(&self, to: u32, version: &Version) -> Result<(), TargetError> {
        let group = self.group().await?;
        if let Some(manager) = self.manager().await? {
            let name = manager.name_any();
            let problem =
                format!("the NodeAutoscaler `{name}` manages its nodes; delete one of the two");
            return Err(self.refused(problem));
        }
        let limit = |count: i32| u32::try_from(count).unwrap_or(0);
        let (min, max) = (limit(group.spec.min), limit(group.spec.max));
        if to < min || to > max {
            let problem =
                format!("{to} nodes are not between its min and max, which are {min} and {max}");
            return Err(self.refused(problem));
        }
        let found = self.at_provider(&group, None).await?;
        let target = found.state.target;
        if self::version(target) != *version {
            let message = format!("its target is {target}");
            return Err(TargetError::Conflict { target: self.to_string(), message });
        }
        match to.cmp(&target) {
            Ordering::Equal => Ok(()),
            Ordering::Greater => {
                let raised = found.provider().increase(&found.named.id, to - target).await;
                raised.map_err(|error| self.failed(error))
            }
            Ordering::Less => self.shrink(&found, target - to).await,
        }
    }

    /// Cancels machines that have not appeared, and deletes empty nodes.
    async fn shrink(&self, found: &AtProvider, by: u32) -> Result<(), TargetError> {
        let state = &found.state;
        let is_waiting = |instance: &&Instance| instance.state == InstanceState::Creating;
        let waiting = state.instances.iter().filter(is_waiting).count();
        let cancelled = by.min(u32::try_from(waiting).unwrap_or(u32::MAX));
        let doomed = match (by - cancelled) as usize {
            0 => Vec::new(),
            count => {
                let mut nodes = self.nodes(Some(state)).await?;
                nodes.retain(|node| {
                    state.instances.iter().any(|instance| is_machine_of(instance, node))
                });
                self.reserve_empty(nodes, count).await?
            }
        };
        let ids: Vec<String> = doomed.iter().filter_map(|one| provider_id(&one.node)).collect();
        let outcome = async {
            if cancelled > 0 {
                found.provider().decrease_target(&found.named.id, cancelled).await?;
            }
            if ids.is_empty() {
                return Ok(());
            }
            let deleted = found.provider().delete_nodes(&found.named.id, &ids).await;
            deleted.map_err(|error| match cancelled {
                0 => error,
                _ => ProviderError::Unknown {
                    group: found.named.id.clone(),
                    message: error.to_string(),
                },
            })
        };
        match outcome.await {
            Ok(()) => {
                self.delete(&doomed).await;
                Ok(())
            }
            Err(error) => {
                self.release(&doomed).await;
                Err(self.failed(error))
            }
        }
    }

    async fn group(&self) -> Result<NodeGroup, TargetError> {
        let api: Api<NodeGroup> = Api::all(self.context.client.clone());
        api.get(&self.name).await.map_err(|error| self.read_error(&error))
    }

    /// Returns the NodeAutoscaler, which manages all groups: the one named `default`, or the first by name.
    async fn manager(&self) -> Result<Option<NodeAutoscaler>, TargetError> {
        let api: Api<NodeAutoscaler> = Api::all(self.context.client.clone());
        let all = api.list(&ListParams::default()).await;
        let all = all.map_err(|error| self.read_error(&error))?.items.into_iter();
        Ok(all.min_by_key(|one| (one.name_any() != "default", one.name_any())))
    }

    /// Reads the group at its provider, over the connection that the NodeAutoscaler has, if there is one.
    async fn at_provider(
        &self,
        group: &NodeGroup,
        manager: Option<&NodeAutoscaler>,
    ) -> Result<AtProvider, TargetError> {
        let unusable = |error: crate::OpenError| self.refused(error.to_string());
        let (provider, named) = named_group(group).map_err(unusable)?;
        let connections = manager.map(|manager| manager.spec.providers.connections());
        let connection = connections.and_then(|mut all| all.remove(provider));
        let connection = connection.unwrap_or(Value::Null);
        let shared = open_shared(&self.context, provider, &connection);
        let shared = shared.map_err(unusable)?;
        let last = Some(Arc::clone(&shared));
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = last;
        let groups = shared.with(&named).snapshot().await.map_err(|error| self.failed(error))?;
        let state = groups.into_iter().find(|group| group.id == named.id);
        let missing = || self.refused(format!("its provider has no group `{}`", named.id));
        Ok(AtProvider { state: state.ok_or_else(missing)?, shared, named })
    }

    /// Lists the nodes of the group: those that its provider lists, and those with its label.
    async fn nodes(&self, state: Option<&Group>) -> Result<Vec<Node>, TargetError> {
        let api: Api<Node> = Api::all(self.context.client.clone());
        let mut nodes =
            api.list(&ListParams::default()).await.map_err(|e| self.read_error(&e))?.items;
        nodes.retain(|node| {
            let id = provider_id(node);
            let is_listed = |state: &Group| {
                state.instances.iter().any(|instance| id.as_ref() == Some(&instance.id))
            };
            node.labels().get(api::plimsoll::node_group::LABEL) == Some(&self.name)
                || state.is_some_and(is_listed)
        });
        Ok(nodes)
    }

    fn failed(&self, error: ProviderError) -> TargetError {
        let (target, text) = (self.to_string(), error.to_string());
        match error {
            ProviderError::UnknownGroup { .. } => TargetError::Refused { target, message: text },
            ProviderError::Refused { message, .. } => TargetError::Refused { target, message },
            ProviderError::OutOfResources { message, .. } => {
                let message = format!("out of resources: {message}");
                TargetError::Unavailable { target, message }
            }
            ProviderError::Unavailable { message } => TargetError::Unavailable { target, message },
            ProviderError::Unknown { message, .. } => TargetError::Unknown { target, message },
        }
    }

    fn refused(&self, message: String) -> TargetError {
        TargetError::Refused { target: self.to_string(), message }
    }

    fn read_error(&self, error: &kube::Error) -> TargetError {
        object_error(self.to_string(), error)
    }
}

impl AtProvider {
    fn provider(&self) -> &dyn NodeGroupProvider {
        self.shared.with(&self.named)
    }
}

impl std::fmt::Display for NodeGroupTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NodeGroup {}", self.name)
    }
}

/// AWS and others have no versions: the target itself is one.
fn version(target: u32) -> Version {
    Version::new(target.to_string())
}

/// Returns the target of a group whose machines are Node objects of this cluster.
fn recorded_target(group: &NodeGroup) -> Option<u32> {
    group.status.as_ref()?.target.and_then(|target| u32::try_from(target).ok())
}

fn provider_id(node: &Node) -> Option<String> {
    node.spec.as_ref()?.provider_id.clone()
}

/// Returns whether a node is the one of an instance that exists.
fn is_machine_of(instance: &Instance, node: &Node) -> bool {
    instance.state == InstanceState::Running && provider_id(node).as_ref() == Some(&instance.id)
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let is_true = |condition: &k8s_openapi::api::core::v1::NodeCondition| {
        condition.type_ == "Ready" && condition.status == "True"
    };
    conditions.into_iter().flatten().any(is_true)
}
