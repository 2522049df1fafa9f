//! The status of a GameServer.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Eviction;
use crate::agones::{CounterStatus, ListStatus};

/// The observed state of a game server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GameServerStatus {
    /// Where it is in its life, from `PortAllocation` to `Shutdown`.
    pub state: String,
    /// The ports that players connect to.
    pub ports: Option<Vec<StatusPort>>,
    /// The address that players connect to.
    pub address: String,
    /// Every address of the node and the pod.
    pub addresses: Option<Vec<NodeAddress>>,
    /// The node it runs on.
    pub node_name: String,
    /// The moment at which a Reserved game server becomes Ready again.
    pub reserved_until: Option<Time>,
    /// Player tracking, which lists have replaced.
    pub players: Option<PlayerStatus>,
    /// The counters by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<BTreeMap<String, CounterStatus>>,
    /// The lists by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lists: Option<BTreeMap<String, ListStatus>>,
    /// Whether the pod of the game server may be evicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction: Option<Eviction>,
}

/// A port that players connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StatusPort {
    /// The name of the port in `spec`.
    pub name: String,
    /// The number of the port.
    pub port: i32,
}

/// An address of the node or the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeAddress {
    /// The type of the address: that of a node's address, or `PodIP`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The address.
    pub address: String,
}

/// Player tracking, which lists have replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PlayerStatus {
    /// The players that are connected.
    pub count: i64,
    /// The players that there is room for.
    pub capacity: i64,
    /// The ids of the connected players.
    pub ids: Option<Vec<String>>,
}
