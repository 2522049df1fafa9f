//! What does the allocator keep of a game server?
//!
//! Enough to choose it and to answer. Its pod, which is most of the object, is kept as text, and only where servers are written as
//! a whole.

use std::borrow::Cow;
use std::collections::BTreeMap;

use api::agones::{self, GameServer, GameServerStatus};
use api::allocation::{AllocationState, GameServerAllocationStatus, GameServerMetadata};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use kube::core::DynamicObject;
use serde::Deserialize;

/// A game server without its spec, unless as text.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Server {
    #[serde(default, deserialize_with = "metadata")]
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    pub(super) status: GameServerStatus,
    /// All of it but who owns which field, where it is written as a whole.
    #[serde(skip)]
    pub(super) text: Option<Box<str>>,
}

impl From<DynamicObject> for Server {
    fn from(mut object: DynamicObject) -> Self {
        object.metadata.managed_fields = None;
        let read = serde_json::to_string(&object)
            .and_then(|text| Ok((serde_json::from_str(&text)?, text.into_boxed_str())));
        match read {
            Ok((server, text)) => Self { text: Some(text), ..server },
            Err(err) => {
                let name = object.metadata.name.as_deref();
                tracing::warn!(
                    error = &err as &dyn std::error::Error,
                    name,
                    "passing over a game server"
                );
                Self { metadata: object.metadata, ..Self::default() }
            }
        }
    }
}

impl Server {
    pub(super) fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or("default")
    }

    pub(super) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or_default()
    }

    /// Gives what the choice looks at.
    pub(super) fn view(&self) -> decide::gameserver::GameServer {
        agones::server_view(&self.metadata, &self.status)
    }

    /// Whether this was stored after `other`. Versions are numbers that grow, on every API server there is; where one is
    /// not, the generation must not be older.
    pub(super) fn is_newer_than(&self, other: &Self) -> bool {
        match (self.version().parse::<u64>(), other.version().parse::<u64>()) {
            (Ok(this), Ok(that)) => this > that,
            (Ok(_) | Err(_), _) => {
                self.version() != other.version()
                    && self.metadata.generation >= other.metadata.generation
            }
        }
    }

    /// Gives the answer for who got this server.
    pub(super) fn answer(&self) -> GameServerAllocationStatus {
        let status = &self.status;
        let texts = |map: &Option<BTreeMap<_, _>>| map.clone().unwrap_or_default();
        GameServerAllocationStatus {
            state: AllocationState::Allocated,
            game_server_name: self.name().to_owned(),
            ports: status.ports.clone().unwrap_or_default(),
            address: status.address.clone(),
            addresses: status.addresses.clone().unwrap_or_default(),
            node_name: status.node_name.clone(),
            source: "local".to_owned(),
            metadata: Some(GameServerMetadata {
                labels: texts(&self.metadata.labels),
                annotations: texts(&self.metadata.annotations),
            }),
            counters: status.counters.clone(),
            lists: status.lists.clone(),
        }
    }
}

impl Resource for Server {
    type DynamicType = ();
    type Scope = kube::core::NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        GameServer::kind(&())
    }

    fn group(_: &()) -> Cow<'_, str> {
        GameServer::group(&())
    }

    fn version(_: &()) -> Cow<'_, str> {
        GameServer::version(&())
    }

    fn plural(_: &()) -> Cow<'_, str> {
        GameServer::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The metadata that is kept; reading who owns which field would cost more than all the rest.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

fn metadata<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let kept = Kept::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: kept.name,
        namespace: kept.namespace,
        uid: kept.uid,
        resource_version: kept.resource_version,
        generation: kept.generation,
        creation_timestamp: kept.creation_timestamp,
        deletion_timestamp: kept.deletion_timestamp,
        labels: kept.labels,
        annotations: kept.annotations,
        ..ObjectMeta::default()
    })
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// Makes a server as the API would give it.
    pub(in crate::allocator) fn server(name: &str, version: &str, state: &str) -> Server {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "default", "resourceVersion": version, "managedFields": [{}]},
            "spec": {"template": {"spec": {"containers": []}}},
            "status": {"state": state, "address": "10.0.0.1", "ports": [{"name": "game", "port": 7000}],
                       "counters": {"rooms": {"count": 0, "capacity": 2}}},
        }))
        .unwrap()
    }

    #[test]
    fn the_greater_version_is_the_newer_one() {
        let at = |version| server("a", version, "Ready");
        assert!(at("10").is_newer_than(&at("9")));
        assert!(!at("9").is_newer_than(&at("10")));
        assert!(!at("9").is_newer_than(&at("9")));
        assert!(at("x").is_newer_than(&at("9")), "an opaque version that differs is believed");
    }

    #[test]
    fn a_server_that_cannot_be_read_is_nothing_to_choose() {
        let object = json!({
            "apiVersion": "agones.dev/v1", "kind": "GameServer", "metadata": {"name": "a", "resourceVersion": "7"},
            "status": {"state": "Ready", "ports": "seven"},
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let server = Server::from(object);
        assert_eq!((server.name(), server.version()), ("a", "7"), "it is known by name");
        assert_eq!(server.status.state, GameServerStatus::default().state);
    }
}
