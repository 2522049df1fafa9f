//! Which players are on a game server, as its own process says: player tracking, which has given way to lists.
//!
//! As with counters and lists, what is kept until it is written is the change. Players are a [`List`] that is never cut
//! off: a smaller capacity sends nobody away.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::List;
use super::sdk::Rejected;

/// Changes to the players that are not written yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingPlayers {
    capacity: Option<i64>,
    left: BTreeSet<Arc<str>>,
    joined: Vec<Arc<str>>,
}

impl PendingPlayers {
    /// Lets a player in. False: the player is in already.
    pub fn connect(&mut self, stored: &List, id: &str) -> Result<bool, Rejected> {
        let seen = self.onto(stored);
        if seen.contains(id) {
            return Ok(false);
        }
        if seen.available() <= 0 {
            return Err(Rejected::Full { capacity: seen.capacity, length: seen.len() });
        }
        self.joined.push(id.into());
        Ok(true)
    }

    /// Lets a player go. False: the player is not there.
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

    /// Sets the room for players.
    pub fn set_capacity(&mut self, capacity: i64) -> Result<(), Rejected> {
        if capacity < 0 {
            return Err(Rejected::Capacity(capacity));
        }
        self.capacity = Some(capacity);
        Ok(())
    }

    /// Puts the waiting changes onto what was just read.
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
    fn players_come_once_while_there_is_room_and_leave_once() {
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
    fn a_smaller_capacity_sends_nobody_away() {
        let stored = players(3, "a b c");
        let mut pending = PendingPlayers::default();
        pending.set_capacity(1).unwrap();
        assert_eq!(pending.onto(&stored), players(1, "a b c"));
        let full = Err(Rejected::Full { capacity: 1, length: 3 });
        assert_eq!(pending.connect(&stored, "d"), full);
        assert_eq!(pending.set_capacity(-1), Err(Rejected::Capacity(-1)));
    }
}
