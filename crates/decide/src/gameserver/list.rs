//! A list of distinct words with a capacity, and what may be done to it.

use std::sync::Arc;

/// The largest capacity a list may be given.
pub const MOST_VALUES: i64 = 1000;

/// One list of a game server, or of its template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// How many values it may hold.
    pub capacity: i64,
    /// The values, in the order in which they came.
    pub values: Vec<Arc<str>>,
}

impl List {
    /// Counts the values.
    pub fn len(&self) -> i64 {
        i64::try_from(self.values.len()).unwrap_or(i64::MAX)
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Gives the room that is left.
    pub fn available(&self) -> i64 {
        self.capacity.saturating_sub(self.len())
    }
}
