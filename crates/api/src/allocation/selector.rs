//! Selectors of allocations: the game servers that a request accepts.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which game servers an allocation may take. All of it must hold; an empty selector takes every Ready one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GameServerSelector {
    /// Labels that the game server must have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements on its labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
    /// The state it must be in: `Ready` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub game_server_state: Option<SelectedState>,
    /// Requirements on its counters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, CounterSelector>,
    /// Requirements on its lists.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub lists: BTreeMap<String, ListSelector>,
}

/// The state that a game server must be in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectedState {
    /// Not allocated yet.
    #[default]
    Ready,
    /// It is allocated, and may have room for more.
    Allocated,
}

/// Requirements on a counter. A maximum of 0 is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CounterSelector {
    /// The least count.
    pub min_count: i64,
    /// The greatest count.
    pub max_count: i64,
    /// The least capacity that is left.
    pub min_available: i64,
    /// The greatest capacity that is left.
    pub max_available: i64,
}

/// Requirements on a list. A maximum of 0 is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListSelector {
    /// A value that must be in the list; empty is any.
    pub contains_value: String,
    /// The least capacity that is left.
    pub min_available: i64,
    /// The greatest capacity that is left.
    pub max_available: i64,
}
