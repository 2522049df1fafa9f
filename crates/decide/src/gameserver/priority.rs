//! Compares servers by a counter or a list, for both scale-down and allocation.

use std::cmp::Ordering;
use std::sync::Arc;

use super::GameServer;

/// One entry of `priorities`, normalized from any dialect.
///
/// The first servers are deleted first when scaling down, and tried first when allocating.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority {
    /// Whether the key is a counter or a list.
    pub source: Source,
    /// The counter's or list's name.
    pub key: Arc<str>,
    /// The compared number.
    pub measure: Measure,
    /// Which end of that number comes first.
    pub first: First,
    /// The position of servers without the key.
    pub missing: Missing,
}

/// The sort key of a server for one priority; less is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    after: bool,
    number: i64,
}

impl Rank {
    /// Returns the rank as one number of 65 bits with the same order.
    pub(crate) fn code(self) -> u128 {
        let from_zero = self.number.cast_unsigned() ^ (1 << 63);
        u128::from(self.after) << 64 | u128::from(from_zero)
    }
}

/// The kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A counter.
    Counter,
    /// A list.
    List,
}

/// The compared number of a counter or list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Capacity minus count: as in Agones.
    Available,
    /// The count, or the number of values: as in the first design.
    Used,
}

/// Which end of the number comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum First {
    /// Agones' `Ascending`, in both lists of priorities.
    Smallest,
    /// Agones' `Descending`.
    Largest,
}

/// The position of a server without the key relative to one that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Missing {
    /// After it: Agones' rule, for either order.
    Last,
    /// Before it: the first design's rule for which servers a fleet keeps.
    First,
    /// Neither: Agones' rule where `order` is empty, which is only possible in a bare GameServerSet.
    Undecided,
}

impl Priority {
    /// Converts an entry of Agones: available capacity, and servers without the key last. `order` is `Ascending`, `Descending`, or
    /// empty.
    pub fn by_available(source: Source, key: impl Into<Arc<str>>, order: Option<First>) -> Self {
        let missing = if order.is_some() { Missing::Last } else { Missing::Undecided };
        let first = order.unwrap_or(First::Smallest);
        Self { source, key: key.into(), measure: Measure::Available, first, missing }
    }

    /// Returns the compared number; `None` when the server lacks the key.
    pub fn number(&self, server: &GameServer) -> Option<i64> {
        match self.source {
            Source::Counter => server.counters.get(&self.key).map(|c| match self.measure {
                Measure::Available => c.available(),
                Measure::Used => c.count,
            }),
            Source::List => server.lists.get(&self.key).map(|l| match self.measure {
                Measure::Available => l.available(),
                Measure::Used => l.len(),
            }),
        }
    }

    /// Returns the sort key of a server, less being first. A server without the key comes last where the position is
    /// undecided.
    pub fn rank(&self, server: &GameServer) -> Rank {
        let missing_first = self.missing == Missing::First;
        match self.number(server) {
            None => Rank { after: !missing_first, number: 0 },
            Some(number) => {
                // Inverting all bits inverts the order without overflow.
                let number = if self.first == First::Largest { !number } else { number };
                Rank { after: missing_first, number }
            }
        }
    }

    /// Compares two numbers by this priority.
    pub fn compare_numbers(&self, a: Option<i64>, b: Option<i64>) -> Ordering {
        match (a, b) {
            (Some(a), Some(b)) => match self.first {
                First::Smallest => a.cmp(&b),
                First::Largest => b.cmp(&a),
            },
            (None, None) => Ordering::Equal,
            (None, Some(_)) => self.missing.against_present(),
            (Some(_), None) => self.missing.against_present().reverse(),
        }
    }

    /// Compares two servers by the first of `priorities` that distinguishes them.
    pub fn compare(priorities: &[Self], a: &GameServer, b: &GameServer) -> Ordering {
        priorities
            .iter()
            .map(|p| p.compare_numbers(p.number(a), p.number(b)))
            .find(|o| o.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

impl Missing {
    fn against_present(self) -> Ordering {
        match self {
            Self::Last => Ordering::Greater,
            Self::First => Ordering::Less,
            Self::Undecided => Ordering::Equal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_their_codes_have_the_same_order() {
        let numbers = [i64::MIN, -1, 0, 1, i64::MAX];
        let ranks: Vec<Rank> = [false, true]
            .into_iter()
            .flat_map(|after| numbers.map(|number| Rank { after, number }))
            .collect();
        assert!(ranks.is_sorted());
        assert!(ranks.is_sorted_by_key(|rank| rank.code()));
    }
}
