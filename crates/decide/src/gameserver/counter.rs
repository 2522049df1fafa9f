//! Counters with a capacity.

/// One counter of a game server, or of its template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// The current value, which may exceed the capacity.
    pub count: i64,
    /// The maximum; 0 means no capacity at all.
    pub capacity: i64,
}

impl Counter {
    /// Returns the free capacity; negative when the count exceeds the capacity.
    pub fn available(self) -> i64 {
        self.capacity.saturating_sub(self.count)
    }
}

/// An invalid counter action of an allocation; the counter stays unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negative(
    /// The negative number.
    pub i64,
);

impl Counter {
    /// Increases the count as an allocation does: limited by the capacity, never an error.
    pub fn increment(&mut self, amount: i64) -> Result<(), Negative> {
        self.set_clamped(self.count.wrapping_add(not_negative(amount)?));
        Ok(())
    }

    /// Decreases the count as an allocation does: not below 0.
    pub fn decrement(&mut self, amount: i64) -> Result<(), Negative> {
        self.set_clamped(self.count.wrapping_sub(not_negative(amount)?));
        Ok(())
    }

    /// Sets the capacity, and lowers the count to it.
    pub fn set_capacity(&mut self, capacity: i64) -> Result<(), Negative> {
        self.capacity = not_negative(capacity)?;
        self.count = self.count.min(capacity);
        Ok(())
    }

    /// Sets the count in Agones' order: the capacity first and 0 last, so that an overflowing sum becomes 0.
    pub(super) fn set_clamped(&mut self, count: i64) {
        self.count = count.min(self.capacity).max(0);
    }
}

fn not_negative(number: i64) -> Result<i64, Negative> {
    if number < 0 { Err(Negative(number)) } else { Ok(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(count: i64, capacity: i64) -> Counter {
        Counter { count, capacity }
    }

    #[test]
    fn the_count_is_limited_at_both_ends() {
        for (count, capacity, amount, up, down) in [
            (3, 10, 4, 7, 0),
            (3, 10, 7, 10, 0),
            (3, 10, 8, 10, 0),
            (9, 10, 0, 9, 9),
            (0, 0, 1, 0, 0),
            (15, 10, 1, 10, 10),
            (i64::MAX, i64::MAX, 1, 0, i64::MAX - 1),
        ] {
            let mut one = counter(count, capacity);
            one.increment(amount).unwrap();
            assert_eq!(one, counter(up, capacity), "{count} of {capacity}, up by {amount}");
            let mut one = counter(count, capacity);
            one.decrement(amount).unwrap();
            assert_eq!(one, counter(down, capacity), "{count} of {capacity}, down by {amount}");
        }
    }

    #[test]
    fn a_smaller_capacity_lowers_the_count() {
        let mut one = counter(7, 10);
        one.set_capacity(5).unwrap();
        assert_eq!(one, counter(5, 5));
        one.set_capacity(9).unwrap();
        assert_eq!(one, counter(5, 9));
    }

    #[test]
    fn negative_numbers_change_nothing() {
        let mut one = counter(7, 10);
        assert_eq!(one.increment(-1), Err(Negative(-1)));
        assert_eq!(one.decrement(-2), Err(Negative(-2)));
        assert_eq!(one.set_capacity(-3), Err(Negative(-3)));
        assert_eq!(one, counter(7, 10));
    }
}
