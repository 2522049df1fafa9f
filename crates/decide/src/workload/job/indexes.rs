//! Sets of completion indexes, as the status of an Indexed Job writes them: `1,3-5,7`.

use std::fmt;

/// Completion indexes, as ordered intervals that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes(Vec<Interval>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Interval {
    first: i32,
    last: i32,
}

impl Indexes {
    /// Reads indexes below `completions`. Parts that are no numbers are ignored, as Kubernetes does.
    pub fn parse(text: &str, completions: i32) -> Self {
        let interval = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse().ok()?, last.parse::<i32>().ok()?);
            let last = last.min(completions.saturating_sub(1));
            (0 <= first && first <= last).then_some(Interval { first, last })
        };
        Self::merged(text.split(',').filter_map(interval).collect())
    }

    fn merged(mut all: Vec<Interval>) -> Self {
        all.sort_unstable();
        let mut merged: Vec<Interval> = Vec::with_capacity(all.len());
        for interval in all {
            match merged.last_mut() {
                Some(before) if interval.first <= before.last.saturating_add(1) => {
                    before.last = before.last.max(interval.last);
                }
                _ => merged.push(interval),
            }
        }
        Self(merged)
    }

    /// Returns these indexes and `others`.
    #[must_use]
    pub fn with(&self, others: impl IntoIterator<Item = i32>) -> Self {
        let others = others.into_iter().map(|index| Interval { first: index, last: index });
        Self::merged(self.0.iter().copied().chain(others).collect())
    }

    /// Whether `index` is one of them.
    pub fn contains(&self, index: i32) -> bool {
        let after = self.0.partition_point(|interval| interval.first <= index);
        self.0[..after].last().is_some_and(|interval| index <= interval.last)
    }

    /// Returns how many there are.
    pub fn len(&self) -> i32 {
        self.0.iter().fold(0, |sum: i32, Interval { first, last }| {
            sum.saturating_add(last.saturating_sub(*first).saturating_add(1))
        })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns those that are also in `others`.
    #[must_use]
    pub fn intersection(&self, others: &Self) -> Self {
        let mut common = Vec::new();
        let (mut ours, mut theirs) = (self.0.iter().peekable(), others.0.iter().peekable());
        while let (Some(our), Some(their)) = (ours.peek(), theirs.peek()) {
            let (first, last) = (our.first.max(their.first), our.last.min(their.last));
            if first <= last {
                common.push(Interval { first, last });
            }
            if our.last < their.last {
                ours.next();
            } else {
                theirs.next();
            }
        }
        Self(common)
    }

    /// Returns the lowest `count` indexes below `completions` that are not among these.
    pub fn first_missing(&self, count: usize, completions: i32) -> Vec<i32> {
        let mut missing = Vec::new();
        let mut from = 0;
        for interval in &self.0 {
            missing.extend((from..interval.first.min(completions)).take(count - missing.len()));
            from = interval.last.saturating_add(1);
        }
        missing.extend((from..completions).take(count - missing.len()));
        missing
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, Interval { first, last }) in self.0.iter().enumerate() {
            let comma = if position > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indexes(text: &str) -> Indexes {
        Indexes::parse(text, 100)
    }

    #[test]
    fn indexes_are_written_as_they_are_read() {
        for (text, written, len) in [
            ("", "", 0),
            ("0", "0", 1),
            ("1,3-5,7", "1,3-5,7", 5),
            ("1-2", "1,2", 2),
            ("1,2,3", "1-3", 3),
            ("98-120", "98,99", 2),
            ("100", "", 0),
            ("x,2-y,4", "4", 1),
            ("5-3", "", 0),
        ] {
            let read = indexes(text);
            assert_eq!((read.to_string().as_str(), read.len()), (written, len), "{text}");
            assert_eq!(read.is_empty(), len == 0, "{text}");
        }
    }

    #[test]
    fn indexes_are_added_and_compared() {
        let some = indexes("1,3-5");
        assert_eq!(some.with([2, 9, 9, 0]).to_string(), "0-5,9");
        for (index, is_in) in [(0, false), (1, true), (2, false), (4, true), (5, true), (6, false)]
        {
            assert_eq!(some.contains(index), is_in, "{index}");
        }
        for (others, common) in [("0-9", "1,3-5"), ("2,5-7", "5"), ("", ""), ("1-3", "1,3")] {
            assert_eq!(some.intersection(&indexes(others)).to_string(), common, "{others}");
        }
    }

    #[test]
    fn missing_indexes_are_the_lowest() {
        for (text, count, completions, missing) in [
            ("", 2, 4, vec![0, 1]),
            ("0,2", 5, 4, vec![1, 3]),
            ("1-2", 1, 4, vec![0]),
            ("0-3", 2, 4, vec![]),
            ("", 0, 4, vec![]),
            ("6", 9, 3, vec![0, 1, 2]),
        ] {
            assert_eq!(indexes(text).first_missing(count, completions), missing, "{text}");
        }
    }
}
