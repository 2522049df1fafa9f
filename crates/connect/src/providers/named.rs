//! Which group of a provider does a NodeGroup name? And which block of a NodeGroup names a group that a provider has discovered?
//!
//! A group has one id at its provider, which both directions agree on.

use api::plimsoll::NodeGroup;
use kube::ResourceExt as _;
use serde_json::{Map, Value, json};

use super::PROVIDERS;
use crate::registry::OpenError;

/// A group that is named in a NodeGroup or by a flag.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedGroup {
    /// The id of the group at its provider.
    pub id: String,
    /// The block that names it, such as `spec.provider.aws` of a NodeGroup.
    pub settings: Value,
}

/// Returns the provider of a NodeGroup by name, and the group there.
pub fn named_group(group: &NodeGroup) -> Result<(&str, NamedGroup), OpenError> {
    let (name, settings) = PROVIDERS.only(&group.spec.provider)?;
    let id = id(name, settings, group).map_err(PROVIDERS.settings_error(name))?;
    Ok((name, NamedGroup { id, settings: settings.clone() }))
}

/// Returns whether the nodes of a provider's groups name their group in the label `plimsoll.dev/node-group`, as simulated ones do. Those of
/// others are known by the ids of their instances.
pub fn labels_nodes(provider: &str) -> bool {
    matches!(provider, "kwok" | "simulated")
}

/// Returns `spec.provider` of a NodeGroup for a group that a provider has discovered.
pub fn node_group_block(provider: &str, id: &str) -> Map<String, Value> {
    let settings = match provider {
        "externalGrpc" => json!({"group": id}),
        "clusterApi" => {
            let mut parts = id.splitn(3, '/');
            let mut part = || parts.next().unwrap_or_default();
            json!({"kind": part(), "namespace": part(), "name": part()})
        }
        "aws" => json!({"autoScalingGroup": id}),
        _ => json!({}),
    };
    Map::from_iter([(provider.to_owned(), settings)])
}

/// Returns the id of the group that a block names. The groups of simulated machines are the NodeGroups themselves.
fn id(provider: &str, settings: &Value, group: &NodeGroup) -> Result<String, String> {
    let field = |name: &str| match settings[name].as_str() {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        Some(_) | None => Err(format!("{name}: expected the name of a group")),
    };
    match provider {
        "externalGrpc" => field("group"),
        "clusterApi" => {
            let (kind, namespace, name) = (field("kind")?, field("namespace")?, field("name")?);
            Ok(format!("{kind}/{namespace}/{name}"))
        }
        // Groups of the connection's own region are discovered without it.
        "aws" => match (field("autoScalingGroup")?, settings["region"].as_str()) {
            (name, Some(region)) if !region.is_empty() => Ok(format!("{region}/{name}")),
            (name, _) => Ok(name),
        },
        _ => Ok(group.name_any()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(provider: Value) -> NodeGroup {
        let group = json!({"metadata": {"name": "g"}, "spec": {"max": 1, "provider": provider}});
        serde_json::from_value(group).unwrap()
    }

    #[test]
    fn the_block_of_a_discovered_group_names_it() {
        let ids = [
            ("externalGrpc", "pool/a"),
            ("clusterApi", "MachineDeployment/games/pool"),
            ("aws", "workers-eu"),
        ];
        for (provider, id) in ids {
            let block = Value::Object(node_group_block(provider, id));
            let named = id_of(&block, provider);
            assert_eq!(named, Ok(id.to_owned()), "{block}");
        }
    }

    #[test]
    fn groups_of_two_regions_may_have_one_name() {
        let block = json!({"aws": {"autoScalingGroup": "workers", "region": "eu-west-1"}});
        assert_eq!(id_of(&block, "aws").as_deref(), Ok("eu-west-1/workers"));
    }

    fn id_of(block: &Value, provider: &str) -> Result<String, String> {
        id(provider, &block[provider], &group(block.clone()))
    }

    #[test]
    fn a_block_without_the_name_of_a_group_is_refused_by_its_field() {
        for (provider, wanted) in [
            ("externalGrpc", "group: expected the name of a group"),
            ("clusterApi", "kind: expected the name of a group"),
            ("aws", "autoScalingGroup: expected the name of a group"),
        ] {
            assert_eq!(id_of(&json!({provider: {}}), provider), Err(wanted.to_owned()));
        }
        let simulated = group(json!({"simulated": {}}));
        let (name, named) = named_group(&simulated).unwrap();
        assert_eq!((name, &*named.id), ("simulated", "g"));
    }
}
