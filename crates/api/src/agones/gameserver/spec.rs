//! The spec of a GameServer.

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GameServerPort, GameServerStatus};
use crate::agones::{CounterStatus, ListStatus, PodTemplate, Scheduling, is_zero};

/// The desired state of a game server.
#[expect(clippy::duplicated_attributes, reason = "columns share their types")]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "agones.dev",
    version = "v1",
    kind = "GameServer",
    plural = "gameservers",
    shortname = "gs",
    namespaced,
    status = "GameServerStatus",
    doc = "One process that players connect to.",
    derive = "Default",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.immutableReplicas",
        status_replicas_path = ".status.immutableReplicas"
    ),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Address", type_ = "string", json_path = ".status.address"),
    printcolumn(name = "Port", type_ = "string", json_path = ".status.ports[0].port"),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.nodeName"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    crates(kube_core = "kube_core", k8s_openapi = "k8s_openapi", serde = "serde")
)]
#[serde(rename_all = "camelCase")]
pub struct GameServerSpec {
    /// The container that is the game server. Needed when the pod has more than one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63), regex(pattern = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"))]
    pub container: String,
    /// The ports that players, or others, connect to.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    #[schemars(extend("nullable" = true))]
    pub ports: Vec<GameServerPort>,
    /// How often the process must report that it is healthy.
    #[serde(default)]
    pub health: Health,
    /// How game servers are spread over nodes: `Packed` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// The SDK server beside the process.
    #[serde(default)]
    pub sdk_server: SdkServer,
    /// The pod that the game server runs in.
    pub template: PodTemplate,
    /// Player tracking, which lists have replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub players: Option<PlayerSpec>,
    /// Counters by name, with their first values. No counter can be added later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 1000))]
    pub counters: Option<BTreeMap<String, CounterStatus>>,
    /// Lists by name, with their first values. No list can be added later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 1000))]
    pub lists: Option<BTreeMap<String, ListStatus>>,
    /// Whether the pod of the game server may be evicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction: Option<Eviction>,
}

/// How often the process must report that it is healthy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// True: health checking is disabled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub disabled: bool,
    /// The seconds within which the process must send a health ping: 5 unless given.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub period_seconds: i32,
    /// The consecutive periods without a health ping that make it unhealthy: 3 unless given.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 1))]
    pub failure_threshold: i32,
    /// The seconds before the first check: 5 unless given.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub initial_delay_seconds: i32,
}

/// The SDK server beside the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SdkServer {
    /// How much it logs: `Info` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<LogLevel>,
    /// The gRPC port: 9357 unless given.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 1, max = 65535))]
    pub grpc_port: i32,
    /// The HTTP port: 9358 unless given.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 1, max = 65535))]
    pub http_port: i32,
}

/// How much the SDK server logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LogLevel {
    /// Only what failed.
    Error,
    /// The changed part.
    Info,
    /// Every decision.
    Debug,
    /// Everything.
    Trace,
}

/// Player tracking, which lists have replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlayerSpec {
    /// The players that there is room for at first.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub initial_capacity: i64,
}

/// Whether the pod of the game server may be evicted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Eviction {
    /// `Never` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safe: Option<EvictionSafe>,
}

/// When moving a game server is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EvictionSafe {
    /// At any time.
    Always,
    /// When its node is upgraded.
    OnUpgrade,
    /// At no time.
    Never,
}

fn null_is_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
