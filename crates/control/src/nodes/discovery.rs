//! NodeGroups of discovered groups: each group that a provider finds and no NodeGroup names gets one. Its bounds follow the provider's
//! unless someone edits them, and it goes with the group.

use std::collections::BTreeMap;

use api::plimsoll::NodeGroup;
use cluster::error::{api_message, status_code};
use connect::providers::{Group, named_group};
use futures::future::join_all;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Map, Value, json};

use super::NodeController;
use super::providers::ProviderStates;
use super::source::group;

/// The annotation of a NodeGroup that was discovered: the bounds of its provider, as `MIN-MAX`. A bound of the spec that differs from the
/// one here was edited.
const BOUNDS: &str = "plimsoll.dev/discovered-bounds";
/// The most characters of an id in the name of its NodeGroup.
const LONGEST_ID: usize = 50;

/// The fewest and the most nodes of a group.
type Bounds = (u32, u32);

/// A change of a NodeGroup.
enum Change {
    Create(Box<NodeGroup>),
    Patch(Value),
    Delete,
}

/// Returns whether a NodeGroup was made for a group that a provider discovered.
pub(super) fn is_discovered(group: &NodeGroup) -> bool {
    group.annotations().contains_key(BOUNDS)
}

impl NodeController {
    /// Brings NodeGroups in line with what providers discover. What fails is tried again at the next evaluation.
    pub(super) async fn discover(&self, states: &ProviderStates) {
        if self.values().is_some() {
            return;
        }
        let mut changes: Vec<(NodeGroup, Change)> = Vec::new();
        for (provider, found) in &states.unnamed {
            let new = discovered(provider, found);
            changes.push((new.clone(), Change::Create(Box::new(new))));
        }
        for object in self.additions.groups.iter().filter(|object| is_discovered(&object.0)) {
            let Ok((provider, named)) = named_group(&object.0) else { continue };
            let Some(listed) = states.listed.get(provider) else { continue };
            let change = match listed.get(&named.id) {
                Some(bounds) => followed(&object.0, *bounds).map(Change::Patch),
                None => Some(Change::Delete),
            };
            changes.extend(change.map(|change| (object.0.clone(), change)));
        }
        join_all(changes.into_iter().map(|(object, change)| self.apply(object, change))).await;
    }

    async fn apply(&self, object: NodeGroup, change: Change) {
        let api: Api<NodeGroup> = Api::all(self.cx.client.clone());
        let name = object.name_any();
        let outcome = match change {
            Change::Create(new) => {
                tracing::info!(group = name, "discovered a group of nodes");
                api.create(&PostParams::default(), &new).await.map(drop)
            }
            Change::Patch(change) => {
                let change = Patch::Merge(change);
                api.patch(&name, &PatchParams::default(), &change).await.map(drop)
            }
            Change::Delete => {
                tracing::info!(group = name, "a discovered group of nodes is gone");
                let preconditions = Preconditions { uid: object.uid(), resource_version: None };
                let preconditions = Some(preconditions);
                let params = DeleteParams { preconditions, ..DeleteParams::default() };
                api.delete(&name, &params).await.map(drop)
            }
        };
        match outcome {
            Ok(()) => {}
            // The cache is behind; the next evaluation sees what is there.
            Err(error) if matches!(status_code(&error), Some(404 | 409)) => {}
            Err(error) => {
                let error = api_message(&error);
                tracing::warn!(group = name, error, "could not write a NodeGroup; will retry");
            }
        }
    }
}

/// Returns the NodeGroup of a discovered group.
fn discovered(provider: &str, found: &Group) -> NodeGroup {
    let mut new = group(provider, &found.id, found.min, found.max);
    new.metadata.name = Some(name(provider, &found.id));
    let bounds = format!("{}-{}", found.min, found.max);
    new.metadata.annotations = Some(BTreeMap::from([(BOUNDS.to_owned(), bounds)]));
    new
}

/// Returns the patch that lets a NodeGroup follow the bounds of its provider, if they have changed.
fn followed(object: &NodeGroup, (min, max): Bounds) -> Option<Value> {
    let recorded = object.annotations().get(BOUNDS)?;
    let bounds = format!("{min}-{max}");
    if *recorded == bounds {
        return None;
    }
    let (old_min, old_max) = recorded.split_once('-').unwrap_or_default();
    let is_unedited = |own: i32, recorded: &str| own.to_string() == recorded;
    let mut spec = Map::new();
    if is_unedited(object.spec.min, old_min) {
        spec.insert("min".to_owned(), json!(min));
    }
    if is_unedited(object.spec.max, old_max) {
        spec.insert("max".to_owned(), json!(max));
    }
    let annotations = json!({BOUNDS: bounds});
    let metadata =
        json!({"resourceVersion": object.resource_version(), "annotations": annotations});
    Some(json!({"metadata": metadata, "spec": spec}))
}

/// Returns the name of the NodeGroup of a group: its id with what a name may not hold replaced, and a hash of it.
fn name(provider: &str, id: &str) -> String {
    let is_kept = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '-';
    let id_part: String = id.to_lowercase().chars().take(LONGEST_ID).collect();
    let id_part: String = id_part.chars().map(|c| if is_kept(c) { c } else { '-' }).collect();
    let id_part = id_part.trim_matches(['-', '.']).replace("..", "-").replace(".-", "-");
    let id_part = if id_part.is_empty() { provider.to_lowercase() } else { id_part };
    format!("{id_part}-{:08x}", hash(&format!("{provider}/{id}")))
}

/// Hashes a text by FNV-1a, which is the same in every build.
fn hash(text: &str) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    text.bytes().fold(0x811c_9dc5, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_discovered_group_is_named_by_its_id_and_a_hash() {
        for (id, wanted) in [
            ("Workers_EU", "workers-eu-"),
            ("MachineDeployment/games/pool.a", "machinedeployment-games-pool.a-"),
            ("//", "aws-"),
            (&"x".repeat(300), &format!("{}-", "x".repeat(50))),
        ] {
            let found = name("aws", id);
            let hash = found.strip_prefix(wanted).unwrap_or_else(|| panic!("{found}"));
            assert_eq!(hash.len(), 8, "{found}");
        }
        assert_ne!(name("aws", "a_b"), name("aws", "a-b"));
    }

    #[test]
    fn bounds_follow_the_provider_unless_they_were_edited() {
        let found = Group { id: "g".to_owned(), min: 1, max: 5, ..Group::default() };
        let object = discovered("externalGrpc", &found);
        assert!(is_discovered(&object));
        assert_eq!(followed(&object, (1, 5)), None);
        let change = followed(&object, (2, 6)).unwrap();
        assert_eq!(change["spec"], json!({"min": 2, "max": 6}));
        assert_eq!(change["metadata"]["annotations"], json!({BOUNDS: "2-6"}));
        let mut edited = object;
        edited.spec.max = 3;
        assert_eq!(followed(&edited, (2, 6)).unwrap()["spec"], json!({"min": 2}));
    }
}
