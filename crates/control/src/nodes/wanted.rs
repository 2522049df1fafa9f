//! What is asked from each provider: its connection, and the groups that are named.

use std::collections::BTreeMap;

use api::plimsoll::{NodeAutoscaler, NodeGroup};
use connect::providers::{NamedGroup, labels_nodes, named_group, node_group_block};
use kube::ResourceExt as _;
use serde_json::Value;

use super::discovery::is_discovered;
use crate::node_settings::{GroupValue, NodeValues};

/// What is asked from each provider, by its name.
#[derive(Default)]
pub(super) struct Wanted {
    pub(super) providers: BTreeMap<String, WantedProvider>,
    /// The groups that no provider can be asked about, with the cause.
    pub(super) problems: BTreeMap<String, String>,
}

/// A provider to ask.
#[derive(Default)]
pub(super) struct WantedProvider {
    /// The settings of its connection; null: the defaults.
    pub(super) settings: Value,
    /// The groups that are named, without those that it discovers.
    pub(super) named: Vec<NamedGroup>,
    /// The names of their NodeGroups by the id of the group.
    pub(super) names: BTreeMap<String, String>,
    /// What becomes of the groups that are not named.
    pub(super) unnamed: Unnamed,
    /// Whether its nodes name their group in a label.
    pub(super) labels_nodes: bool,
}

/// What becomes of the groups that a provider lists and that are not named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Unnamed {
    /// They are left alone.
    #[default]
    Ignored,
    /// They get NodeGroups.
    Discovered,
    /// They are scaled under their id.
    Scaled,
}

impl Wanted {
    /// Returns what objects ask for.
    pub(super) fn from_objects<'a>(
        autoscaler: &NodeAutoscaler,
        groups: impl Iterator<Item = &'a NodeGroup>,
    ) -> Self {
        let mut wanted = Self::default();
        let providers = &autoscaler.spec.providers;
        let connections = providers.connections();
        for name in connections.keys().filter(|name| providers.discovers(name)) {
            wanted.provider(name).unnamed = Unnamed::Discovered;
        }
        for group in groups {
            let own = group.name_any();
            let outcome = named_group(group).map_err(|error| error.to_string());
            let outcome = outcome.and_then(|(provider, named)| {
                let provider = wanted.provider(provider);
                provider.name(&own, &named.id)?;
                // A discovered group is there for as long as its provider finds it.
                if provider.unnamed != Unnamed::Discovered || !is_discovered(group) {
                    provider.named.push(named);
                }
                Ok(())
            });
            if let Err(problem) = outcome {
                wanted.problems.insert(own, problem);
            }
        }
        for (name, settings) in connections {
            if let Some(provider) = wanted.providers.get_mut(&name) {
                provider.settings = settings;
            }
        }
        wanted
    }

    /// Returns what values ask for. Whatever a provider lists is used.
    pub(super) fn from_values(values: &NodeValues) -> Self {
        let mut wanted = Self::default();
        for (name, settings) in &values.connections {
            let settings = settings.clone();
            let unnamed = Unnamed::Scaled;
            let provider = WantedProvider { settings, unnamed, ..WantedProvider::default() };
            wanted.providers.insert(name.clone(), provider);
        }
        for GroupValue { provider, id, .. } in &values.groups {
            let mut block = node_group_block(provider, id);
            let settings = block.remove(provider).unwrap_or_default();
            let provider = wanted.provider(provider);
            // A flag may be given twice; both name the same group.
            if provider.name(id, id).is_ok() {
                provider.named.push(NamedGroup { id: id.clone(), settings });
            }
        }
        // A node is known by its id alone: labels belong to objects.
        wanted.providers.values_mut().for_each(|provider| provider.labels_nodes = false);
        wanted
    }

    fn provider(&mut self, name: &str) -> &mut WantedProvider {
        self.providers.entry(name.to_owned()).or_insert_with(|| WantedProvider {
            labels_nodes: labels_nodes(name),
            ..WantedProvider::default()
        })
    }
}

impl WantedProvider {
    /// Sets the name of the group with an id. Two NodeGroups cannot scale the same machines.
    fn name(&mut self, group: &str, id: &str) -> Result<(), String> {
        if let Some(other) = self.names.get(id) {
            return Err(format!("NodeGroup {other} names the same group, `{id}`"));
        }
        self.names.insert(id.to_owned(), group.to_owned());
        Ok(())
    }
}
