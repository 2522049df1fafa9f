//! Player tracking through the SDK, which lists have replaced.
//!
//! As with counters and lists, the pending change is kept until it is written. Players are a [`List`] that is never truncated: a
//! smaller capacity disconnects no player.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::List;
use super::sdk::Rejected;

/// Pending changes to the players.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingPlayers {
    capacity: Option<i64>,
    left: BTreeSet<Arc<str>>,
    joined: Vec<Arc<str>>,
}

impl PendingPlayers {
    /// Connects a player. Returns false if the player is connected already.
    pub fn connect(&mut self, stored: &List, id: &str) -> Result<bool, Rejected> {
        let current = self.onto(stored);
        if current.contains(id) {
            return Ok(false);
        }
        if current.available() <= 0 {
            return Err(Rejected::Full { capacity: current.capacity, length: current.len() });
        }
        self.joined.push(id.into());
        Ok(true)
    }

    /// Disconnects a player. Returns false if the player is not connected.
    pub fn disconnect(&mut self, stored: &List, id: &str) -> bool {
        if !self.onto(stored).contains(id) {
            return false;
        }
        self.joined.retain(|joined| **joined != *id);
        if stored.contains(id) {
            self.left.insert(id.into());
        }
        true
    }

    /// Sets the capacity for players.
    pub fn set_capacity(&mut self, capacity: i64) -> Result<(), Rejected> {
        if capacity < 0 {
            return Err(Rejected::Capacity(capacity));
        }
        self.capacity = Some(capacity);
        Ok(())
    }

    /// Applies the pending changes to the stored value.
    pub fn onto(&self, stored: &List) -> List {
        let kept = stored.values.iter().filter(|id| !self.left.contains(*id));
        let mut values: Vec<_> = kept.cloned().collect();
        let new = self.joined.iter().filter(|id| !values.contains(id));
        let new: Vec<_> = new.cloned().collect();
        values.extend(new);
        List { capacity: self.capacity.unwrap_or(stored.capacity), values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn players(capacity: i64, ids: &str) -> List {
        List { capacity, values: ids.split_whitespace().map(Arc::from).collect() }
    }

    #[test]
    fn players_connect_once_while_there_is_capacity_and_disconnect_once() {
        let stored = players(2, "a");
        let mut pending = PendingPlayers::default();
        assert_eq!(pending.connect(&stored, "a"), Ok(false), "there already");
        assert_eq!(pending.connect(&stored, "b"), Ok(true));
        let full = Err(Rejected::Full { capacity: 2, length: 2 });
        assert_eq!(pending.connect(&stored, "c"), full);
        assert!(pending.disconnect(&stored, "a"));
        assert!(!pending.disconnect(&stored, "a"), "gone already");
        assert_eq!(pending.connect(&stored, "a"), Ok(true), "and back");
        assert_eq!(pending.onto(&stored), players(2, "b a"));
    }

    #[test]
    fn a_smaller_capacity_disconnects_no_player() {
        let stored = players(3, "a b c");
        let mut pending = PendingPlayers::default();
        pending.set_capacity(1).unwrap();
        assert_eq!(pending.onto(&stored), players(1, "a b c"));
        let full = Err(Rejected::Full { capacity: 1, length: 3 });
        assert_eq!(pending.connect(&stored, "d"), full);
        assert_eq!(pending.set_capacity(-1), Err(Rejected::Capacity(-1)));
    }
}
