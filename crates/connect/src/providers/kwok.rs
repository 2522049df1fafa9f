//! Nodes that a KWOK controller runs, in groups that Cluster Autoscaler's provider `kwok` finds: those of template nodes in a ConfigMap, or
//! of the nodes of the cluster. Plimsoll's own kinds are not needed.
//!
//! The target of a group is the number of its nodes, so there is no other state.

mod config;
mod node;

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::Undecoded;
use cluster::error::status_code;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions};
use tokio::sync::Mutex;

use self::config::{KwokConfig, TemplateGroup};
use super::cluster_error::{read_error, refused, write_error};
use super::{Group, Instance, InstanceState, NodeGroupProvider, ProviderError};
use crate::registry::Context;

/// How long the templates are used before they are read again.
const KEEP_FOR: SignedDuration = SignedDuration::from_secs(60);
/// The key of the ConfigMap with the settings.
const CONFIG_KEY: &str = "config";
/// The key of the ConfigMap with the templates.
const TEMPLATES_KEY: &str = "templates";

struct Kwok {
    context: Context,
    namespace: String,
    config_map: String,
    templates: Mutex<Option<(Timestamp, Arc<Templates>)>>,
    /// Locked while nodes are created or deleted.
    changing: Mutex<()>,
}

/// The groups by name.
struct Templates {
    config: KwokConfig,
    groups: BTreeMap<String, TemplateGroup>,
}

/// Opens the provider. Nothing is sent. The ConfigMap is in a namespace; without one, in that of the client.
pub fn kwok_templates(
    context: &Context,
    namespace: Option<String>,
    config_map: String,
) -> Arc<dyn NodeGroupProvider> {
    let namespace = namespace.unwrap_or_else(|| context.client.default_namespace().to_owned());
    let (context, templates) = (context.clone(), Mutex::default());
    Arc::new(Kwok { context, namespace, config_map, templates, changing: Mutex::default() })
}

impl NodeGroupProvider for Kwok {
    fn snapshot(&self) -> BoxFuture<'_, Result<Vec<Group>, ProviderError>> {
        Box::pin(self.read_groups())
    }

    fn increase<'a>(&'a self, group: &'a str, by: u32) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(self.create_nodes(group, by))
    }

    fn delete_nodes<'a>(
        &'a self,
        group: &'a str,
        instances: &'a [String],
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(self.remove_nodes(group, instances))
    }

    fn decrease_target<'a>(
        &'a self,
        group: &'a str,
        by: u32,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        let message = format!("the target cannot be lowered by {by}: every requested node exists");
        Box::pin(async move { Err(refused(group, message)) })
    }
}

impl Kwok {
    async fn read_groups(&self) -> Result<Vec<Group>, ProviderError> {
        let nodes = self.nodes().await?;
        let templates = self.templates(&nodes).await?;
        let group = |(name, group): (&String, &TemplateGroup)| {
            let instances: Vec<Instance> = templates.members(name, &nodes).map(instance).collect();
            Group {
                id: name.clone(),
                min: group.min,
                max: group.max,
                target: count(instances.len()),
                instances,
                template: Some(node::template(group, &templates.config)),
                ..Group::default()
            }
        };
        Ok(templates.groups.iter().map(group).collect())
    }

    async fn create_nodes(&self, name: &str, by: u32) -> Result<(), ProviderError> {
        let _changing = self.changing.lock().await;
        let nodes = self.nodes().await?;
        let templates = self.templates(&nodes).await?;
        let group = templates.group(name)?;
        let to = count(templates.members(name, &nodes).count()).saturating_add(by);
        if to > group.max {
            let max = group.max;
            return Err(refused(name, format!("{to} nodes are more than max, which is {max}")));
        }
        let api: Api<Node> = Api::all(self.context.client.clone());
        for _ in 0..by {
            let node = node::object(name, group, &templates.config, &self.context.random);
            let created = api.create(&PostParams::default(), &node).await;
            created.map_err(|error| write_error(name, &error))?;
        }
        Ok(())
    }

    async fn remove_nodes(&self, name: &str, ids: &[String]) -> Result<(), ProviderError> {
        let _changing = self.changing.lock().await;
        let nodes = self.nodes().await?;
        let templates = self.templates(&nodes).await?;
        let group = templates.group(name)?;
        let (doomed, left): (Vec<&Node>, Vec<&Node>) = templates
            .members(name, &nodes)
            .partition(|node| ids.contains(&node::instance_id(node)));
        if count(left.len()) < group.min && !doomed.is_empty() {
            let (left, min) = (left.len(), group.min);
            return Err(refused(name, format!("{left} nodes are fewer than min, which is {min}")));
        }
        let api: Api<Node> = Api::all(self.context.client.clone());
        for node in doomed {
            let preconditions = Preconditions { uid: node.uid(), resource_version: None };
            let params =
                DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            match api.delete(&node.name_any(), &params).await {
                Ok(_) => {}
                // It was deleted, and another one may have its name.
                Err(error) if matches!(status_code(&error), Some(404 | 409)) => {}
                Err(error) => return Err(write_error(name, &error)),
            }
        }
        Ok(())
    }

    /// Lists all nodes. One that cannot be decoded is in no group.
    async fn nodes(&self) -> Result<Vec<Node>, ProviderError> {
        let api: Api<Undecoded<Node>> = Api::all(self.context.client.clone());
        let all = api.list(&ListParams::default()).await.map_err(|error| read_error(&error))?;
        Ok(all.items.iter().filter_map(Undecoded::decode).collect())
    }

    /// Returns the templates, which are read at most once a minute.
    async fn templates(&self, nodes: &[Node]) -> Result<Arc<Templates>, ProviderError> {
        let mut kept = self.templates.lock().await;
        let now = self.context.clock.now();
        if let Some((read_at, templates)) = &*kept
            && now.duration_since(*read_at) < KEEP_FOR
        {
            return Ok(Arc::clone(templates));
        }
        let text = self.config_map(&self.config_map, CONFIG_KEY).await?;
        let config =
            KwokConfig::parse(&text).map_err(|problem| self.wrong(&self.config_map, &problem))?;
        let found = match config.templates_map() {
            Some(name) => {
                let text = self.config_map(name, TEMPLATES_KEY).await?;
                config::nodes(&text).map_err(|problem| self.wrong(name, &problem))?
            }
            None => nodes.to_vec(),
        };
        let groups = config::groups(&config, found)
            .map_err(|problem| self.wrong(&self.config_map, &problem))?;
        let templates = Arc::new(Templates { config, groups });
        *kept = Some((now, Arc::clone(&templates)));
        Ok(templates)
    }

    async fn config_map(&self, name: &str, key: &str) -> Result<String, ProviderError> {
        let api: Api<ConfigMap> = Api::namespaced(self.context.client.clone(), &self.namespace);
        let map = api.get(name).await.map_err(|error| read_error(&error))?;
        let text = map.data.and_then(|mut data| data.remove(key));
        text.ok_or_else(|| self.wrong(name, &format!("the key `{key}` is missing")))
    }

    fn wrong(&self, name: &str, problem: &str) -> ProviderError {
        let message = format!("ConfigMap {}/{name}: {problem}", self.namespace);
        ProviderError::Unavailable { message }
    }
}

impl Templates {
    fn group(&self, name: &str) -> Result<&TemplateGroup, ProviderError> {
        let group = self.groups.get(name);
        group.ok_or_else(|| ProviderError::UnknownGroup { group: name.to_owned() })
    }

    /// Returns the nodes of a group.
    fn members<'a>(&'a self, name: &'a str, nodes: &'a [Node]) -> impl Iterator<Item = &'a Node> {
        nodes.iter().filter(move |node| self.config.group_of(node) == Some(name))
    }
}

fn instance(node: &Node) -> Instance {
    let state = match node.metadata.deletion_timestamp {
        Some(_) => InstanceState::Deleting,
        None => InstanceState::Running,
    };
    Instance { id: node::instance_id(node), state, error: None }
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
