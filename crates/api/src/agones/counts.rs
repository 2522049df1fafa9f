//! Counters and lists: on one game server, and summed up over many.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A counter of a game server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CounterStatus {
    /// The present count. Counters start with the one in `spec`.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub count: i64,
    /// The greatest count that the game server has room for.
    #[serde(default = "thousand")]
    #[schemars(range(min = 0))]
    pub capacity: i64,
}

/// A list of a game server: distinct values in the order in which they came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListStatus {
    /// The greatest number of values that the game server has room for.
    #[serde(default = "thousand")]
    #[schemars(range(min = 0, max = 1000))]
    pub capacity: i64,
    /// The present values. Lists start with those in `spec`.
    #[serde(default)]
    #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "set"))]
    pub values: Vec<String>,
}

/// A counter or list, summed up over the game servers of a set or fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AggregateCount {
    /// The counts, or numbers of values, of Allocated game servers.
    pub allocated_count: i64,
    /// The capacities of Allocated game servers.
    pub allocated_capacity: i64,
    /// The counts, or numbers of values, of all game servers that are not going away.
    pub count: i64,
    /// The capacities of all game servers that are not going away.
    pub capacity: i64,
}

/// Players, summed up over the game servers of a set or fleet. Player tracking has given way to lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PlayerAggregate {
    /// The players that are connected.
    pub count: i64,
    /// The players that there is room for.
    pub capacity: i64,
}

impl Default for CounterStatus {
    fn default() -> Self {
        Self { count: 0, capacity: thousand() }
    }
}

impl Default for ListStatus {
    fn default() -> Self {
        Self { capacity: thousand(), values: Vec::new() }
    }
}

/// The capacity of counters and lists that do not give one.
fn thousand() -> i64 {
    1000
}
