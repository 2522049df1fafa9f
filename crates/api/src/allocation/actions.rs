//! Changes that an allocation makes to the allocated game server.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Labels and annotations to write onto the game server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MetaPatch {
    /// Labels to write.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations to write.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// The action on a counter: first the capacity, then the count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CounterAction {
    /// `Increment` or `Decrement`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// By how much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<i64>,
    /// The capacity to set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<i64>,
}

/// The action on a list: first the capacity, then the added and the removed values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListAction {
    /// Values to add.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub add_values: Option<Vec<String>>,
    /// Values to remove.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_values: Option<Vec<String>>,
    /// The capacity to set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<i64>,
}
