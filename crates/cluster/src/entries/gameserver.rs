//! Cached game servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::agones::{GameServer, GameServerSpec, GameServerStatus};
use decide::gameserver;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::Deserialize;

use crate::CacheEntry;

/// A game server, and its view for decisions.
#[derive(Debug)]
pub struct CachedGameServer {
    /// The object.
    pub object: GameServer,
    /// What decisions read of it.
    pub view: Arc<gameserver::GameServer>,
    /// Whether it was stored without its defaults, because no webhook admitted it. Here it has them.
    pub is_bare: bool,
    /// The stored object as JSON, where the cache keeps texts and this entry was decoded from one.
    pub text: Option<Box<str>>,
}

impl CacheEntry for CachedGameServer {
    type Object = GameServer;

    fn from_object(mut object: GameServer) -> Self {
        object.metadata.managed_fields = None;
        let is_bare = object.fill();
        let view = Arc::new(object.view());
        Self { object, view, is_bare, text: None }
    }

    fn decode(text: &str) -> serde_json::Result<Self> {
        let Stored { metadata, spec, status } = serde_json::from_str(text)?;
        Ok(Self::from_object(GameServer { metadata: metadata.into(), spec, status }))
    }

    fn with_text(self, text: Box<str>) -> Self {
        Self { text: Some(text), ..self }
    }

    fn meta(&self) -> &ObjectMeta {
        &self.object.metadata
    }
}

/// A game server without its field managers: decoding those would cost more than all the rest.
#[derive(Deserialize)]
struct Stored {
    metadata: Metadata,
    spec: GameServerSpec,
    status: Option<GameServerStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    annotations: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    deletion_timestamp: Option<Time>,
    finalizers: Option<Vec<String>>,
    generate_name: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    name: Option<String>,
    namespace: Option<String>,
    owner_references: Option<Vec<OwnerReference>>,
    resource_version: Option<String>,
    uid: Option<String>,
}

impl From<Metadata> for ObjectMeta {
    fn from(metadata: Metadata) -> Self {
        Self {
            annotations: metadata.annotations,
            creation_timestamp: metadata.creation_timestamp,
            deletion_grace_period_seconds: metadata.deletion_grace_period_seconds,
            deletion_timestamp: metadata.deletion_timestamp,
            finalizers: metadata.finalizers,
            generate_name: metadata.generate_name,
            generation: metadata.generation,
            labels: metadata.labels,
            managed_fields: None,
            name: metadata.name,
            namespace: metadata.namespace,
            owner_references: metadata.owner_references,
            resource_version: metadata.resource_version,
            self_link: None,
            uid: metadata.uid,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_game_server_is_decoded_in_full_but_for_its_field_managers() {
        let object = json!({
            "apiVersion": "agones.dev/v1", "kind": "GameServer",
            "metadata": {
                "name": "a", "generateName": "a-", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 3,
                "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"b": "c"}, "annotations": {"d": "e"},
                "deletionTimestamp": "2026-01-02T00:00:00Z", "deletionGracePeriodSeconds": 5, "finalizers": ["f"],
                "ownerReferences": [{"apiVersion": "agones.dev/v1", "kind": "GameServerSet", "name": "s", "uid": "o"}],
                "managedFields": [{"manager": "m", "fieldsV1": {}}],
            },
            "spec": {"ports": [], "template": {"spec": {"containers": [{"name": "game"}]}}},
            "status": {"state": "Ready", "address": "10.0.0.1", "ports": [{"name": "game", "port": 7000}]},
        });
        let decoded = CachedGameServer::decode(&object.to_string()).unwrap();
        let whole = CachedGameServer::from_object(serde_json::from_value(object).unwrap());
        assert_eq!(decoded.object, whole.object);
    }
}
