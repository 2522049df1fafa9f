//! Splits a rejected batch of changes into parts that can be written separately.
//!
//! The state comes first and alone, so that no other change can keep it from being written. The rest is halved until the
//! rejected change is alone.

use std::collections::BTreeMap;

use decide::gameserver::players::PendingPlayers;

use super::Changes;

impl Changes {
    /// Removes and returns the requested state, if there is one.
    pub(in super::super) fn take_state(&mut self) -> Option<Self> {
        let requested = self.requested_state.take()?;
        Some(Self { requested_state: Some(requested), ..Self::default() })
    }

    /// Splits changes into a part that can be written on its own and the rest; a single change has no rest.
    pub(in super::super) fn split(mut self) -> (Self, Option<Self>) {
        if self.len() < 2 {
            return (self, None);
        }
        if let Some(state) = self.take_state() {
            return (state, Some(self));
        }
        let mut room = self.len() / 2;
        let mut first = Self {
            labels: take(&mut self.labels, &mut room),
            annotations: take(&mut self.annotations, &mut room),
            counters: take(&mut self.counters, &mut room),
            lists: take(&mut self.lists, &mut room),
            ..Self::default()
        };
        if room > 0 {
            first.players = std::mem::take(&mut self.players);
        }
        (first, Some(self))
    }

    /// Returns a description of each change.
    pub(in super::super) fn names(&self) -> Vec<String> {
        let state = self.requested_state.map(|requested| format!("state {}", requested.state()));
        let labels = self.labels.keys().map(|key| format!("label {key}"));
        let annotations = self.annotations.keys().map(|key| format!("annotation {key}"));
        let counters = self.counters.keys().map(|name| format!("counter {name}"));
        let lists = self.lists.keys().map(|name| format!("list {name}"));
        let players = self.has_players().then(|| "players".to_owned());
        let named = state.into_iter().chain(labels).chain(annotations);
        named.chain(counters).chain(lists).chain(players).collect()
    }

    /// Returns how many changes there are.
    fn len(&self) -> usize {
        let texts = self.labels.len() + self.annotations.len();
        let counts = self.counters.len() + self.lists.len();
        texts
            + counts
            + usize::from(self.requested_state.is_some())
            + usize::from(self.has_players())
    }

    fn has_players(&self) -> bool {
        self.players != PendingPlayers::default()
    }
}

/// Moves entries out of a map while there is room.
fn take<V>(from: &mut BTreeMap<String, V>, room: &mut usize) -> BTreeMap<String, V> {
    let mut taken = BTreeMap::new();
    while *room > 0
        && let Some((key, value)) = from.pop_first()
    {
        taken.insert(key, value);
        *room -= 1;
    }
    taken
}

#[cfg(test)]
mod tests {
    use decide::gameserver::sdk::PendingCounter;

    use super::super::RequestedState;
    use super::*;

    /// Splits until every part is a single change, and names them in the order in which they are sent.
    fn single(changes: Changes) -> Vec<String> {
        match changes.split() {
            (first, Some(rest)) => [single(first), single(rest)].concat(),
            (one, None) => vec![one.names().join(" and ")],
        }
    }

    #[test]
    fn the_state_comes_first_and_every_change_ends_up_alone() {
        let mut changes = Changes::default();
        for key in ["a", "b", "c"] {
            changes.labels.insert(key.to_owned(), "1".to_owned());
        }
        changes.annotations.insert("d".to_owned(), "1".to_owned());
        changes.counters.insert("rooms".to_owned(), PendingCounter::default());
        changes.players.set_capacity(3).unwrap();
        changes.request_state(RequestedState::Allocated);
        assert_eq!(
            single(changes),
            [
                "state Allocated",
                "label a",
                "label b",
                "label c",
                "annotation d",
                "counter rooms",
                "players"
            ]
        );
    }
}
