//! Which game servers an allocation may take.

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
    /// What else must hold of its labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
    /// The state it must be in: `Ready` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub game_server_state: Option<SelectedState>,
    /// What must hold of its counters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, CounterSelector>,
    /// What must hold of its lists.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub lists: BTreeMap<String, ListSelector>,
}

/// The state that a game server must be in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectedState {
    /// Nobody has it yet.
    #[default]
    Ready,
    /// Someone has it, and more may come.
    Allocated,
}

/// What must hold of a counter. A greatest value of 0 is no bound.
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

/// What must hold of a list. A greatest value of 0 is no bound.
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
