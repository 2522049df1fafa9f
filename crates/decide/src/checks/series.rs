//! Metric series and windows on them.

use jiff::{SignedDuration, Timestamp};

use super::before;

/// Values over time, oldest first. Non-finite values are dropped.
///
/// Times and values are stored apart, because a check searches the former and reads all of the latter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    at: Vec<Timestamp>,
    values: Vec<f64>,
    step: SignedDuration,
}

/// The evaluated part of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its length; `None` is the newest point alone, however old.
    pub length: Option<SignedDuration>,
    /// The distance of its end from now.
    pub offset: SignedDuration,
}

/// The result of reading a metric.
#[derive(Clone, Copy, Debug)]
pub enum Reading<'a> {
    /// Values; possibly none.
    Series(&'a Series),
    /// The metric does not exist.
    Missing,
    /// All values are older than the window; the time of the newest.
    Stale(Timestamp),
    /// The source failed, with this message.
    Failed(&'a str),
}

impl Series {
    /// Creates a series of points in any order. Without a `step`, their median distance is used.
    pub fn new(mut points: Vec<(Timestamp, f64)>, step: Option<SignedDuration>) -> Self {
        points.retain(|(_, value)| value.is_finite());
        points.sort_by_key(|(at, _)| *at);
        let (at, values): (Vec<_>, Vec<_>) = points.into_iter().unzip();
        let step = step.unwrap_or_else(|| usual_distance(&at));
        Self { at, values, step }
    }

    /// Creates a series of evenly spaced values, the last one at `last_at`.
    pub fn even(values: &[f64], step: SignedDuration, last_at: Timestamp) -> Self {
        let count = values.len();
        let moment = |index: usize| {
            let steps = i32::try_from(count - 1 - index).unwrap_or(i32::MAX);
            step.checked_mul(steps).map_or(Timestamp::MIN, |span| before(last_at, span))
        };
        let points = values.iter().enumerate().map(|(index, value)| (moment(index), *value));
        Self::new(points.collect(), Some(step))
    }

    /// Returns the values within a window at `now`, oldest first.
    pub fn observed(&self, window: Window, now: Timestamp) -> &[f64] {
        let end = before(now, window.offset);
        match window.length {
            Some(length) => self.between(before(end, length), end),
            None => {
                let until = self.until(end);
                &self.values[until.saturating_sub(1)..until]
            }
        }
    }

    /// Returns the values from `since` to `now`, inclusive.
    pub fn between(&self, since: Timestamp, now: Timestamp) -> &[f64] {
        let until = self.until(now);
        // A source mostly returns the window alone, so that there is nothing to search.
        let from = match self.at.first() {
            Some(first) if *first >= since => 0,
            Some(_) | None => self.at.partition_point(|at| *at < since),
        };
        &self.values[from.min(until)..until]
    }

    /// Returns the number of points that are not after `end`.
    fn until(&self, end: Timestamp) -> usize {
        match self.at.last() {
            Some(last) if *last <= end => self.at.len(),
            Some(_) | None => self.at.partition_point(|at| *at <= end),
        }
    }

    /// Returns the points, oldest first.
    pub fn points(&self) -> impl Iterator<Item = (Timestamp, f64)> + '_ {
        self.at.iter().copied().zip(self.values.iter().copied())
    }

    /// Returns the time of the first point.
    pub fn first_at(&self) -> Option<Timestamp> {
        self.at.first().copied()
    }

    /// Returns the time of the newest point that is not after `now`.
    pub fn newest_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.at[..self.until(now)].last().copied()
    }

    /// Returns the usual distance of two points.
    pub fn step(&self) -> SignedDuration {
        self.step
    }
}

/// Returns the median of the distances between neighbours.
fn usual_distance(at: &[Timestamp]) -> SignedDuration {
    let mut gaps: Vec<_> = at.windows(2).map(|pair| pair[1].duration_since(pair[0])).collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn window(length: Option<i64>, offset: i64) -> Window {
        Window {
            length: length.map(SignedDuration::from_secs),
            offset: SignedDuration::from_secs(offset),
        }
    }

    #[test]
    fn a_window_includes_both_ends() {
        let series =
            Series::even(&[1.0, 2.0, 3.0, 4.0, 5.0], SignedDuration::from_secs(10), at(100));
        for (length, offset, wanted) in [
            (Some(20), 0, &[3.0, 4.0, 5.0][..]),
            (Some(19), 0, &[4.0, 5.0]),
            (Some(20), 10, &[2.0, 3.0, 4.0]),
            (Some(5), 12, &[]),
            (Some(0), 0, &[5.0]),
            (None, 0, &[5.0]),
            (None, 15, &[3.0]),
            (None, 41, &[]),
        ] {
            let observed = series.observed(window(length, offset), at(100));
            assert_eq!(observed, wanted, "{length:?} {offset}");
        }
    }

    #[test]
    fn points_are_sorted_and_non_finite_values_dropped() {
        let points =
            vec![(at(30), 3.0), (at(10), 1.0), (at(20), f64::NAN), (at(40), f64::INFINITY)];
        let series = Series::new(points, None);
        assert_eq!(series.between(at(0), at(99)), [1.0, 3.0]);
        assert_eq!(series.step(), SignedDuration::from_secs(20));
        assert_eq!((series.first_at(), series.newest_at(at(29))), (Some(at(10)), Some(at(10))));
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let series = Series::even(&[1.0, 2.0, 3.0], SignedDuration::MAX, Timestamp::MIN);
        let everything = Window { length: Some(SignedDuration::MAX), offset: SignedDuration::MAX };
        assert_eq!(series.observed(everything, Timestamp::MIN).len(), 3);
    }
}
