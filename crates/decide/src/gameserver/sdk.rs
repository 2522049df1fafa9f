//! Changes to counters and lists through the SDK: where an allocation truncates, the SDK returns an error.
//!
//! Changes are batched before they are written, and the object may change meanwhile. So the change is kept, not the result;
//! each call is validated against the stored value with the pending changes applied.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::list::MOST_VALUES;
use super::{Counter, List};

/// The reason why a call is rejected. None of it is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// It changes nothing.
    Nothing,
    /// The capacity is negative, or above the maximum of lists.
    Capacity(i64),
    /// The count is negative or above the capacity.
    OutOfRange {
        /// The resulting count.
        count: i64,
        /// The capacity.
        capacity: i64,
    },
    /// The list is full.
    Full {
        /// The capacity.
        capacity: i64,
        /// The number of values.
        length: i64,
    },
    /// The list contains the value already.
    Duplicate,
    /// The list does not contain the value.
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
                write!(f, "out of range: {count} is not between 0 and the capacity {capacity}")
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

/// An update of a counter, applied in the order capacity, count, difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterUpdate {
    /// The capacity to set.
    pub capacity: Option<i64>,
    /// The count to set.
    pub count: Option<i64>,
    /// What to add to the count.
    pub diff: i64,
}

/// Pending changes to a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingCounter {
    waiting: CounterUpdate,
}

impl PendingCounter {
    /// Adds an update, and returns the resulting counter.
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

    /// Applies the pending changes to the stored value.
    pub fn onto(&self, stored: Counter) -> Counter {
        let mut counter = stored;
        counter.capacity = self.waiting.capacity.unwrap_or(stored.capacity);
        let count = self.waiting.count.unwrap_or(stored.count);
        counter.set_clamped(count.saturating_add(self.waiting.diff));
        counter
    }
}

/// Pending changes to a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingList {
    capacity: Option<i64>,
    deleted: BTreeSet<Arc<str>>,
    added: Vec<Arc<str>>,
}

impl PendingList {
    /// Adds a value. The capacity is checked first, so a duplicate in a full list is reported as full.
    pub fn add(&mut self, stored: &List, value: Arc<str>) -> Result<List, Rejected> {
        let current = self.onto(stored);
        if current.available() <= 0 {
            return Err(Rejected::Full { capacity: current.capacity, length: current.len() });
        }
        if current.contains(&value) {
            return Err(Rejected::Duplicate);
        }
        self.added.push(value);
        Ok(self.onto(stored))
    }

    /// Removes a value.
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

    /// Sets the capacity, the values, or both. New values replace pending additions and removals.
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

    /// Applies the pending changes to the stored value: capacity, deletions, additions, then truncation.
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
    fn a_counter_rejects_values_that_an_allocation_would_limit() {
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
    fn updates_accumulate_and_setting_the_count_drops_differences() {
        let mut pending = PendingCounter::default();
        assert_eq!(pending.update(STORED, diff(3)).unwrap().count, 8);
        assert!(pending.update(STORED, diff(3)).is_err(), "5 + 3 + 3 is too much");
        assert_eq!(pending.update(STORED, count(1)).unwrap().count, 1);
        let all = CounterUpdate { capacity: Some(20), count: Some(15), diff: 4 };
        assert_eq!(pending.update(STORED, all).unwrap(), Counter { count: 19, capacity: 20 });
    }

    #[test]
    fn pending_changes_are_applied_to_the_stored_value() {
        let mut pending = PendingCounter::default();
        pending.update(STORED, diff(4)).unwrap();
        let raised_meanwhile = Counter { count: 8, capacity: 10 };
        assert_eq!(
            pending.onto(raised_meanwhile).count,
            10,
            "limited by the capacity; the call has already succeeded"
        );
    }

    fn list(capacity: i64, values: &str) -> List {
        List { capacity, values: words(values) }
    }

    fn words(text: &str) -> Vec<Arc<str>> {
        text.split_whitespace().map(Arc::from).collect()
    }

    #[test]
    fn a_list_rejects_values_that_an_allocation_would_ignore() {
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
    fn list_changes_are_visible_to_the_next_call() {
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
    fn new_values_drop_pending_changes_and_a_new_capacity_does_not() {
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
