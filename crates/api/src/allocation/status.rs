//! The result of an allocation.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agones::{CounterStatus, ListStatus, NodeAddress, StatusPort};

/// The result of an allocation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GameServerAllocationStatus {
    /// Whether a game server was taken.
    pub state: AllocationState,
    /// The game server.
    pub game_server_name: String,
    /// The ports to connect to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<StatusPort>,
    /// The address to connect to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// Every address of the node and the pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<NodeAddress>,
    /// The node it runs on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// The source of the response: `local`, or the address of another cluster.
    pub source: String,
    /// The labels and annotations of the game server, as they are now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<GameServerMetadata>,
    /// The counters of the game server, as they are now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<BTreeMap<String, CounterStatus>>,
    /// The lists of the game server, as they are now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lists: Option<BTreeMap<String, ListStatus>>,
}

/// Whether a game server was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AllocationState {
    /// It was.
    Allocated,
    /// There is none that fits.
    #[default]
    UnAllocated,
    /// Others were faster, again and again.
    Contention,
}

/// The labels and annotations of a game server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct GameServerMetadata {
    /// Its labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}
