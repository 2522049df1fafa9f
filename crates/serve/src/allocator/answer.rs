//! What does the allocator keep of a game server?
//!
//! Enough to choose it and to answer. Its pod, which is most of the object, is kept as text, and only where servers are written as
//! a whole.

use std::collections::BTreeMap;

use api::agones::{self, GameServer, GameServerStatus};
use api::allocation::{AllocationState, GameServerAllocationStatus, GameServerMetadata};
use cluster::Lenient;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use kube::core::DynamicObject;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A game server without its spec, unless as text.
#[derive(Clone, Debug, Default, Deserialize, Resource)]
#[resource(inherit = GameServer)]
pub(super) struct Server {
    #[serde(default, deserialize_with = "metadata")]
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    pub(super) status: GameServerStatus,
    /// All of it, where it is written as a whole.
    #[serde(skip)]
    pub(super) text: Option<Box<str>>,
}

impl From<DynamicObject> for Server {
    fn from(mut object: DynamicObject) -> Self {
        object.metadata.managed_fields = None;
        let read = serde_json::to_string(&object).and_then(Self::read);
        read.unwrap_or_else(|err| Self::unreadable(object.metadata, &err.to_string()))
    }
}

impl From<Lenient<DynamicObject>> for Server {
    fn from(object: Lenient<DynamicObject>) -> Self {
        match object {
            Lenient::Object(object) => object.into(),
            Lenient::Unreadable { metadata, reason } => Self::unreadable(metadata, &reason),
        }
    }
}

/// A server as a watch shows it, most of it unread: what this process wrote is shown to it once more.
#[derive(Clone, Debug, Resource)]
#[resource(inherit = GameServer)]
pub(super) struct Shown {
    /// Without labels and annotations.
    metadata: ObjectMeta,
    labels: Unread,
    annotations: Unread,
    status: Unread,
}

type Unread = Option<Box<RawValue>>;

impl<'de> Deserialize<'de> for Shown {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Object {
            metadata: Kept<Box<RawValue>>,
            status: Unread,
        }
        let Object { metadata, status } = Object::deserialize(deserializer)?;
        let (metadata, labels, annotations) = metadata.split();
        Ok(Self { metadata, labels, annotations, status })
    }
}

impl From<Shown> for Server {
    fn from(shown: Shown) -> Self {
        let read = || -> serde_json::Result<_> {
            Ok((read(&shown.labels)?, read(&shown.annotations)?, read(&shown.status)?))
        };
        match read() {
            Ok((labels, annotations, status)) => {
                let metadata = ObjectMeta { labels, annotations, ..shown.metadata };
                Self { metadata, status, text: None }
            }
            Err(err) => Self::unreadable(shown.metadata, &err.to_string()),
        }
    }
}

fn read<'a, T: Deserialize<'a> + Default>(text: &'a Unread) -> serde_json::Result<T> {
    text.as_ref().map_or_else(|| Ok(T::default()), |text| serde_json::from_str(text.get()))
}

impl Server {
    /// Reads a server, and keeps the text.
    pub(super) fn read(text: String) -> serde_json::Result<Self> {
        let server: Self = serde_json::from_str(&text)?;
        Ok(Self { text: Some(text.into_boxed_str()), ..server })
    }

    /// Gives what is known by name only, and is nothing to choose.
    fn unreadable(metadata: ObjectMeta, reason: &str) -> Self {
        let name = metadata.name.as_deref();
        tracing::warn!(reason, name, "a game server cannot be read and is passed over");
        Self { metadata, ..Self::default() }
    }

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

    /// Whether this was stored after `other`.
    pub(super) fn is_newer_than(&self, other: &Self) -> bool {
        is_newer(&self.metadata, &other.metadata)
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

/// Whether `this` was stored after `that`. Versions are numbers that grow, on every API server there is; where one is not,
/// the generation must not be older.
pub(super) fn is_newer(this: &ObjectMeta, that: &ObjectMeta) -> bool {
    let number = |meta: &ObjectMeta| meta.resource_version.as_deref()?.parse::<u64>().ok();
    match (number(this), number(that)) {
        (Some(this), Some(that)) => this > that,
        (Some(_) | None, _) => {
            this.resource_version != that.resource_version && this.generation >= that.generation
        }
    }
}

/// The metadata that is kept; reading who owns which field would cost more than all the rest.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept<T> {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<T>,
    annotations: Option<T>,
}

impl<T> Kept<T> {
    /// Gives labels and annotations apart from the rest.
    fn split(self) -> (ObjectMeta, Option<T>, Option<T>) {
        let rest = ObjectMeta {
            name: self.name,
            namespace: self.namespace,
            uid: self.uid,
            resource_version: self.resource_version,
            generation: self.generation,
            creation_timestamp: self.creation_timestamp,
            deletion_timestamp: self.deletion_timestamp,
            ..ObjectMeta::default()
        };
        (rest, self.labels, self.annotations)
    }
}

fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let (rest, labels, annotations) = Kept::deserialize(deserializer)?.split();
    Ok(ObjectMeta { labels, annotations, ..rest })
}

#[cfg(test)]
pub(super) mod tests {
    use kube::api::WatchEvent;
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
        let object = r#"{
            "apiVersion": "agones.dev/v1", "kind": "GameServer", "metadata": {"name": "a", "resourceVersion": "7"},
            "status": {"state": "Ready", "ports": "seven"}
        }"#;
        let whole: Lenient<DynamicObject> = serde_json::from_str(object).unwrap();
        let shown: Shown = serde_json::from_str(object).unwrap();
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let deep = object.replace("\"seven\"", &deep);
        let deep_whole: Lenient<DynamicObject> = serde_json::from_str(&deep).unwrap();
        let deep_shown: Shown = serde_json::from_str(&deep).unwrap();
        for server in
            [Server::from(whole), shown.into(), deep_whole.into(), Server::from(deep_shown)]
        {
            assert_eq!((server.name(), server.version()), ("a", "7"), "it is known by name");
            assert_eq!(server.status.state, GameServerStatus::default().state);
        }
    }

    #[test]
    fn a_server_that_is_shown_is_read_as_any_other() {
        let text = r#"{
            "metadata": {
                "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 3,
                "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"b": "c"}, "annotations": {"d": "e"},
                "managedFields": [{}]
            },
            "spec": {"ports": []},
            "status": {"state": "Ready", "address": "10.0.0.1", "ports": [{"name": "game", "port": 7000}]}
        }"#;
        let event = format!(r#"{{"type": "MODIFIED", "object": {text}}}"#);
        let WatchEvent::Modified::<Shown>(shown) = serde_json::from_str(&event).unwrap() else {
            panic!("it is one that was modified");
        };
        let (shown, read) = (Server::from(shown), serde_json::from_str(text).unwrap());
        let Server { metadata, status, text } = read;
        assert_eq!((shown.metadata, shown.text), (metadata, text));
        assert_eq!(json!(shown.status), json!(status));
        let bare: Shown = serde_json::from_str(r#"{"metadata": {"name": "a"}}"#).unwrap();
        assert_eq!(Server::from(bare).name(), "a");
    }
}
