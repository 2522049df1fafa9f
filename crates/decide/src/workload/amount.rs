//! Numbers of pods, as counts or percentages.

/// A number of pods, or a percentage of the desired ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntOrPercent {
    /// A number.
    Int(i32),
    /// A percentage.
    Percent(i32),
}

impl IntOrPercent {
    /// Reads a percentage such as `25%`; `None` if it is not one.
    pub fn parse_percent(text: &str) -> Option<Self> {
        text.strip_suffix('%')?.parse().ok().map(Self::Percent)
    }

    /// Returns the number of pods out of `total`, rounded up.
    pub fn rounded_up(self, total: i32) -> i32 {
        self.resolve(total, 99)
    }

    /// Returns the number of pods out of `total`, rounded down.
    pub fn rounded_down(self, total: i32) -> i32 {
        self.resolve(total, 0)
    }

    fn resolve(self, total: i32, rounding: i64) -> i32 {
        match self {
            Self::Int(count) => count,
            Self::Percent(percent) => {
                let hundredths = i64::from(percent) * i64::from(total);
                i32::try_from((hundredths + rounding) / 100).unwrap_or(i32::MAX)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_in_the_requested_direction() {
        let quarter = IntOrPercent::parse_percent("25%").unwrap();
        for (total, up, down) in [(0, 0, 0), (1, 1, 0), (3, 1, 0), (4, 1, 1), (10, 3, 2)] {
            assert_eq!((quarter.rounded_up(total), quarter.rounded_down(total)), (up, down));
        }
        assert_eq!(IntOrPercent::Int(7).rounded_up(2), 7);
        assert_eq!(IntOrPercent::parse_percent("25"), None);
    }
}
