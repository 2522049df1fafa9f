//! The autoscaler and its groups: objects, or values with the groups that providers list.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::plimsoll::node_group::{NodeGroupSpec, Options};
use api::plimsoll::{NodeAutoscaler, NodeGroup};
use cluster::{CacheEntry as _, CachedObject};
use connect::providers::node_group_block;

use super::NodeController;
use super::caches::Additions;
use super::providers::ProviderStates;
use super::wanted::Wanted;
use crate::node_settings::{GroupValue, NodeSource, NodeValues};

impl NodeController {
    /// Returns the settings, if they are values.
    pub(super) fn values(&self) -> Option<Arc<NodeValues>> {
        match &self.cx.settings.nodes.source {
            NodeSource::Objects => None,
            NodeSource::Values(values) => Some(Arc::clone(values)),
        }
    }

    /// Returns the autoscaler: of objects the one named `default`, or the first by name.
    pub(super) fn autoscaler(&self) -> Option<Arc<CachedObject<NodeAutoscaler>>> {
        if let Some(values) = self.values() {
            let autoscaler = NodeAutoscaler::new("cluster-autoscaler", values.autoscaler.clone());
            return Some(Arc::new(CachedObject(autoscaler)));
        }
        let name = |autoscaler: &Arc<CachedObject<NodeAutoscaler>>| autoscaler.meta().name.clone();
        let all = self.cx.caches.node_scaling.autoscalers.all().into_iter();
        all.min_by_key(|one| (name(one).as_deref() != Some("default"), name(one)))
    }

    /// Reads the state of all groups from their providers, and finds out which nodes are in them.
    pub(super) async fn read_providers(&mut self, autoscaler: &NodeAutoscaler) -> ProviderStates {
        let values = self.values();
        let mut objects = self.cx.caches.node_scaling.groups.all();
        objects.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let wanted = match &values {
            Some(values) => Wanted::from_values(values),
            None => Wanted::from_objects(autoscaler, objects.iter().map(|group| &group.0)),
        };
        let mut states = self.providers.read(&wanted, &self.cx, &self.trigger).await;
        let groups = match &values {
            Some(values) => groups(values, &states),
            None => objects,
        };
        let membership = std::mem::take(&mut states.membership);
        let virtual_pods = self.additions.virtual_pods.clone();
        self.additions = Arc::new(Additions { groups, membership, virtual_pods });
        states
    }
}

/// Returns the groups that are named and those that providers list.
fn groups(values: &NodeValues, states: &ProviderStates) -> Vec<Arc<CachedObject<NodeGroup>>> {
    let named = values.groups.iter();
    let named = named.map(|GroupValue { provider, id, min, max }| group(provider, id, *min, *max));
    let listed = states.unnamed.iter();
    let listed = listed.map(|(provider, found)| group(provider, &found.id, found.min, found.max));
    let mut seen = BTreeSet::new();
    let is_new = |group: &NodeGroup| seen.insert(group.metadata.name.clone());
    named.chain(listed).filter(is_new).map(|group| Arc::new(CachedObject(group))).collect()
}

/// Returns a group of a provider as an object.
pub(super) fn group(provider: &str, id: &str, min: u32, max: u32) -> NodeGroup {
    let count = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    let spec = NodeGroupSpec {
        min: count(min),
        max: count(max),
        price: None,
        priority: 0,
        all_or_nothing: false,
        template: None,
        options: Options::default(),
        provider: node_group_block(provider, id),
    };
    NodeGroup::new(id, spec)
}
