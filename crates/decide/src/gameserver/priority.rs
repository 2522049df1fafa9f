//! Which of two servers comes first, by a counter or a list: the comparison that scaling down and allocating share.

use std::cmp::Ordering;
use std::sync::Arc;

use super::GameServer;

/// One entry of `priorities`, in normal form: whatever dialect it was written in, it says which servers come first.
///
/// First means deleted first when scaling down, and tried first when allocating.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority {
    /// Whether the key is looked up among the counters or the lists.
    pub source: Source,
    /// The counter's or list's name.
    pub key: Arc<str>,
    /// Which number of it is compared.
    pub measure: Measure,
    /// Which end of that number comes first.
    pub first: First,
    /// Where a server without the key goes.
    pub missing: Missing,
}

/// What a server is compared by for one priority, less being first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    after: bool,
    number: i64,
}

impl Rank {
    /// Gives the rank as one number of 65 bits that compares alike.
    pub(crate) fn code(self) -> u128 {
        let from_zero = self.number.cast_unsigned() ^ (1 << 63);
        u128::from(self.after) << 64 | u128::from(from_zero)
    }
}

/// Where a priority finds its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Among the counters.
    Counter,
    /// Among the lists.
    List,
}

/// The number of a counter or list that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Capacity less count: Agones' meaning.
    Available,
    /// The count, or the number of values: the first design's meaning.
    Used,
}

/// Which end of the number comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum First {
    /// Agones' `Ascending`, on both lists of priorities.
    Smallest,
    /// Agones' `Descending`.
    Largest,
}

/// Where a server without the key goes when the other has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Missing {
    /// After those that have it: Agones' rule, for either order.
    Last,
    /// Before those that have it: the first design's rule for which servers a fleet keeps.
    First,
    /// Neither before nor after: Agones' rule where `order` is empty, which only a bare GameServerSet can be.
    Undecided,
}

impl Priority {
    /// Reads Agones' own spelling: available capacity, and servers without the key last. `order` is what was written:
    /// `Ascending`, `Descending`, or nothing.
    pub fn by_available(source: Source, key: impl Into<Arc<str>>, order: Option<First>) -> Self {
        let missing = if order.is_some() { Missing::Last } else { Missing::Undecided };
        let first = order.unwrap_or(First::Smallest);
        Self { source, key: key.into(), measure: Measure::Available, first, missing }
    }

    /// Gives the number that is compared, or nothing when the server lacks the key.
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

    /// Gives what a server is compared by, less being first. A server without the key comes last where nothing was said
    /// about it.
    pub fn rank(&self, server: &GameServer) -> Rank {
        let missing_first = self.missing == Missing::First;
        match self.number(server) {
            None => Rank { after: !missing_first, number: 0 },
            Some(number) => {
                // Turning all bits around turns the order around, without an end that could overflow.
                let number = if self.first == First::Largest { !number } else { number };
                Rank { after: missing_first, number }
            }
        }
    }

    /// Compares two numbers of this priority.
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

    /// Compares two servers by the first of `priorities` that tells them apart.
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
    fn ranks_and_their_codes_compare_alike() {
        let numbers = [i64::MIN, -1, 0, 1, i64::MAX];
        let ranks: Vec<Rank> = [false, true]
            .into_iter()
            .flat_map(|after| numbers.map(|number| Rank { after, number }))
            .collect();
        assert!(ranks.is_sorted());
        assert!(ranks.is_sorted_by_key(|rank| rank.code()));
    }
}
