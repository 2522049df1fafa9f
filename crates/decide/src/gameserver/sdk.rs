//! What a game server's own process may do to its counters and lists: where an allocation cuts off, the SDK refuses.
//!
//! Changes wait a moment before they are written, and the object may change meanwhile. So what is kept is the change, not
//! the result; each call is checked against the stored value with the waiting changes on top.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::list::MOST_VALUES;
use super::{Counter, List};

/// Why a call is refused. Nothing of it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// It asks for nothing.
    Nothing,
    /// A capacity that is below 0, or above what lists may have.
    Capacity(i64),
    /// A count that is below 0 or above the capacity.
    OutOfRange {
        /// The count that would be.
        count: i64,
        /// The capacity.
        capacity: i64,
    },
    /// The list has no room left.
    Full {
        /// The capacity.
        capacity: i64,
        /// How many values are in it.
        length: i64,
    },
    /// The value is in the list already.
    Duplicate,
    /// The value is not in the list.
    NotThere,
}

impl crate::Reason for Rejected {
    fn code(&self) -> &'static str {
        match self {
            Self::Nothing => "NothingAsked",
            Self::Capacity(_) => "CapacityOutOfRange",
            Self::OutOfRange { .. } => "OutOfRange",
            Self::Full { .. } => "ListFull",
            Self::Duplicate => "AlreadyExists",
            Self::NotThere => "NotFound",
        }
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("the request changes nothing"),
            Self::Capacity(capacity) => write!(f, "a capacity of {capacity} is out of range"),
            Self::OutOfRange { count, capacity } => {
                write!(f, "out of range: {count} is not within 0 and the capacity {capacity}")
            }
            Self::Full { capacity, length } => {
                write!(
                    f,
                    "out of range: the list has no available capacity: {length} of {capacity}"
                )
            }
            Self::Duplicate => f.write_str("the value already exists in the list"),
            Self::NotThere => f.write_str("the value is not in the list"),
        }
    }
}

/// One call about a counter; its parts are applied in the order capacity, count, difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterUpdate {
    /// The capacity to set.
    pub capacity: Option<i64>,
    /// The count to set.
    pub count: Option<i64>,
    /// What to add to the count.
    pub diff: i64,
}

/// Changes to a counter that are not written yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingCounter {
    waiting: CounterUpdate,
}

impl PendingCounter {
    /// Takes in a call, and gives the counter as it will be.
    pub fn update(&mut self, stored: Counter, asked: CounterUpdate) -> Result<Counter, Rejected> {
        if asked == CounterUpdate::default() {
            return Err(Rejected::Nothing);
        }
        let mut next = self.waiting;
        if let Some(capacity) = asked.capacity {
            if capacity < 0 {
                return Err(Rejected::Capacity(capacity));
            }
            next.capacity = Some(capacity);
        }
        let capacity = next.capacity.unwrap_or(stored.capacity);
        let check = |count: i64| {
            let is_within = (0..=capacity).contains(&count);
            if is_within { Ok(()) } else { Err(Rejected::OutOfRange { count, capacity }) }
        };
        if let Some(count) = asked.count {
            check(count)?;
            (next.count, next.diff) = (Some(count), 0);
        }
        if asked.diff != 0 {
            next.diff = next.diff.saturating_add(asked.diff);
            check(next.count.unwrap_or(stored.count).saturating_add(next.diff))?;
        }
        self.waiting = next;
        Ok(self.onto(stored))
    }

    /// Puts the waiting changes onto a value that was just read: what is written, and what a reader is told.
    pub fn onto(&self, stored: Counter) -> Counter {
        let mut counter = stored;
        counter.capacity = self.waiting.capacity.unwrap_or(stored.capacity);
        let count = self.waiting.count.unwrap_or(stored.count);
        counter.set_clamped(count.saturating_add(self.waiting.diff));
        counter
    }
}

/// Changes to a list that are not written yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingList {
    capacity: Option<i64>,
    deleted: BTreeSet<Arc<str>>,
    added: Vec<Arc<str>>,
}

impl PendingList {
    /// Adds a value. That there is room is checked first, so a value that is there already is too much for a full list.
    pub fn add(&mut self, stored: &List, value: Arc<str>) -> Result<List, Rejected> {
        let seen = self.onto(stored);
        if seen.available() <= 0 {
            return Err(Rejected::Full { capacity: seen.capacity, length: seen.len() });
        }
        if seen.contains(&value) {
            return Err(Rejected::Duplicate);
        }
        self.added.push(value);
        Ok(self.onto(stored))
    }

    /// Takes a value away.
    pub fn remove(&mut self, stored: &List, value: &str) -> Result<List, Rejected> {
        if !self.onto(stored).contains(value) {
            return Err(Rejected::NotThere);
        }
        self.added.retain(|added| **added != *value);
        if stored.contains(value) {
            self.deleted.insert(value.into());
        }
        Ok(self.onto(stored))
    }

    /// Sets the capacity, the values, or both. New values come in place of the additions and removals that wait.
    pub fn replace(
        &mut self,
        stored: &List,
        capacity: Option<i64>,
        values: Option<&[Arc<str>]>,
    ) -> Result<List, Rejected> {
        if let Some(capacity) = capacity
            && !(0..=MOST_VALUES).contains(&capacity)
        {
            return Err(Rejected::Capacity(capacity));
        }
        self.capacity = capacity.or(self.capacity);
        if let Some(values) = values {
            let gone = stored.values.iter().filter(|value| !values.contains(value));
            self.deleted = gone.cloned().collect();
            self.added = values.to_vec();
        }
        Ok(self.onto(stored))
    }

    /// Puts the waiting changes onto a value that was just read: capacity, deletions, additions, and what does not fit is cut off.
    pub fn onto(&self, stored: &List) -> List {
        let mut list = stored.clone();
        list.capacity = self.capacity.unwrap_or(stored.capacity);
        list.values.retain(|value| !self.deleted.contains(value));
        list.append(&self.added);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORED: Counter = Counter { count: 5, capacity: 10 };

    fn diff(diff: i64) -> CounterUpdate {
        CounterUpdate { diff, ..CounterUpdate::default() }
    }

    fn count(count: i64) -> CounterUpdate {
        CounterUpdate { count: Some(count), ..CounterUpdate::default() }
    }

    fn capacity(capacity: i64) -> CounterUpdate {
        CounterUpdate { capacity: Some(capacity), ..CounterUpdate::default() }
    }

    #[test]
    fn a_counter_refuses_what_an_allocation_would_cut_off() {
        for (asked, answer) in [
            (diff(5), Ok((10, 10))),
            (diff(6), Err(Rejected::OutOfRange { count: 11, capacity: 10 })),
            (diff(-5), Ok((0, 10))),
            (diff(-6), Err(Rejected::OutOfRange { count: -1, capacity: 10 })),
            (count(0), Ok((0, 10))),
            (count(11), Err(Rejected::OutOfRange { count: 11, capacity: 10 })),
            (count(-1), Err(Rejected::OutOfRange { count: -1, capacity: 10 })),
            (capacity(3), Ok((3, 3))),
            (capacity(0), Ok((0, 0))),
            (capacity(-1), Err(Rejected::Capacity(-1))),
            (CounterUpdate::default(), Err(Rejected::Nothing)),
            (diff(i64::MAX), Err(Rejected::OutOfRange { count: i64::MAX, capacity: 10 })),
        ] {
            let mut pending = PendingCounter::default();
            let got = pending.update(STORED, asked).map(|c| (c.count, c.capacity));
            assert_eq!(got, answer, "{asked:?}");
            if answer.is_err() {
                assert_eq!(pending, PendingCounter::default(), "nothing is kept of {asked:?}");
            }
        }
    }

    #[test]
    fn calls_add_up_and_setting_the_count_forgets_differences() {
        let mut pending = PendingCounter::default();
        assert_eq!(pending.update(STORED, diff(3)).unwrap().count, 8);
        assert!(pending.update(STORED, diff(3)).is_err(), "5 + 3 + 3 is too much");
        assert_eq!(pending.update(STORED, count(1)).unwrap().count, 1);
        let all = CounterUpdate { capacity: Some(20), count: Some(15), diff: 4 };
        assert_eq!(pending.update(STORED, all).unwrap(), Counter { count: 19, capacity: 20 });
    }

    #[test]
    fn what_waits_is_put_onto_what_is_there_by_then() {
        let mut pending = PendingCounter::default();
        pending.update(STORED, diff(4)).unwrap();
        let raised_meanwhile = Counter { count: 8, capacity: 10 };
        assert_eq!(
            pending.onto(raised_meanwhile).count,
            10,
            "cut off, since nobody is left to refuse"
        );
    }

    fn list(capacity: i64, values: &str) -> List {
        List { capacity, values: words(values) }
    }

    fn words(text: &str) -> Vec<Arc<str>> {
        text.split_whitespace().map(Arc::from).collect()
    }

    #[test]
    fn a_list_refuses_what_an_allocation_would_let_pass() {
        let full = list(2, "a b");
        let too_much = Err(Rejected::Full { capacity: 2, length: 2 });
        assert_eq!(PendingList::default().add(&full, "c".into()), too_much);
        assert_eq!(PendingList::default().add(&full, "a".into()), too_much, "room first");
        let open = list(3, "a b");
        assert_eq!(PendingList::default().add(&open, "a".into()), Err(Rejected::Duplicate));
        assert_eq!(PendingList::default().remove(&open, "x"), Err(Rejected::NotThere));
        let over = PendingList::default().replace(&open, Some(1001), None);
        assert_eq!(over, Err(Rejected::Capacity(1001)));
    }

    #[test]
    fn list_calls_are_seen_by_the_next_call() {
        let stored = list(3, "a b");
        let mut pending = PendingList::default();
        assert_eq!(pending.remove(&stored, "a").unwrap(), list(3, "b"));
        assert_eq!(pending.add(&stored, "a".into()).unwrap(), list(3, "b a"));
        assert_eq!(pending.add(&stored, "c".into()).unwrap(), list(3, "b a c"));
        let too_much = Err(Rejected::Full { capacity: 3, length: 3 });
        assert_eq!(pending.add(&stored, "d".into()), too_much);
        assert_eq!(pending.remove(&stored, "c").unwrap(), list(3, "b a"), "added and taken back");
    }

    #[test]
    fn new_values_drop_what_waits_and_a_new_capacity_does_not() {
        let stored = list(3, "a b");
        let mut pending = PendingList::default();
        pending.add(&stored, "c".into()).unwrap();
        let smaller = pending.replace(&stored, Some(2), None).unwrap();
        assert_eq!(smaller, list(2, "a b"), "cut off");
        let larger = pending.replace(&stored, Some(4), None).unwrap();
        assert_eq!(larger, list(4, "a b c"), "and nothing was forgotten");
        let values = words("x a");
        assert_eq!(pending.replace(&stored, None, Some(&values)).unwrap(), list(4, "a x"));
        let same = pending.replace(&stored, None, None).unwrap();
        assert_eq!(same, list(4, "a x"), "nothing asked, nothing changed");
        assert_eq!(pending.replace(&stored, Some(1001), None), Err(Rejected::Capacity(1001)));
    }
}
