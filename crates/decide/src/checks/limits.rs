//! The allowed sizes.

/// The smallest and the largest size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    min: i64,
    max: i64,
}

impl Limits {
    /// Creates limits; `None` unless 0 <= min <= max.
    pub fn new(min: i64, max: i64) -> Option<Self> {
        (0 <= min && min <= max).then_some(Self { min, max })
    }

    /// Clamps a size.
    pub fn clamp(self, count: i64) -> i64 {
        count.clamp(self.min, self.max)
    }

    /// Returns the nearest allowed size, if this one is not allowed.
    pub fn nearest(self, count: i64) -> Option<i64> {
        let nearest = self.clamp(count);
        (nearest != count).then_some(nearest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_in_both_directions() {
        let limits = Limits::new(2, 10).unwrap();
        for (asked, allowed) in [(i64::MIN, 2), (0, 2), (2, 2), (5, 5), (10, 10), (i64::MAX, 10)] {
            assert_eq!(limits.clamp(asked), allowed, "asked for {asked}");
            assert_eq!(limits.nearest(asked), (asked != allowed).then_some(allowed));
        }
    }

    #[test]
    fn inverted_limits_are_rejected() {
        assert!(Limits::new(0, 0).is_some());
        assert!(Limits::new(-1, 3).is_none() && Limits::new(4, 3).is_none());
    }
}
