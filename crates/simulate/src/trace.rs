//! Traces: the sessions that players ask for, with their times. The same seed gives the same trace.

use std::time::Duration;

use process::Random;

const DAY: f64 = 24.0 * 3600.0;
/// Sessions are drawn minute by minute.
const STEP: Duration = Duration::from_secs(60);

/// One session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// When it asks for a game server, since the start of the trace.
    pub at: Duration,
    /// How long it keeps the game server.
    pub lasts: Duration,
    /// The fleet that it plays on, as its place in [`DayShape::shares`].
    pub fleet: usize,
}

/// The sessions of a simulation, by time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace(Vec<Session>);

/// The shape of a day.
#[derive(Clone, Debug)]
pub struct DayShape {
    /// How many sessions there are in parallel at the busiest hour, twelve hours after the start; a tenth of it at the start.
    pub peak: f64,
    /// How long a session lasts on average. Single ones last from half of it to one and a half.
    pub mean: Duration,
    /// When an event begins, and how many sessions it adds within a minute, all of them on the first fleet.
    pub event: Option<(Duration, u32)>,
    /// The share of each fleet in the other sessions. Together they are 1.
    pub shares: Vec<f64>,
}

impl Trace {
    /// Draws the sessions of the first part of a day, up to `length`.
    pub fn day(shape: &DayShape, length: Duration, seed: u64) -> Self {
        let random = Random::seeded(seed);
        let mut sessions = Vec::new();
        let mut start = Duration::ZERO;
        while start < length {
            let hour = start.as_secs_f64() / DAY;
            let share = 0.1 + 0.45 * (1.0 - (hour * std::f64::consts::TAU).cos());
            let expected = share * shape.peak * STEP.as_secs_f64() / shape.mean.as_secs_f64();
            let starting = shape.event.filter(|(at, _)| (start..start + STEP).contains(at));
            let of_event = starting.map_or(0, |(_, more)| more);
            let count = whole(expected + random.fraction());
            for number in 0..count + of_event {
                let at = start + STEP.mul_f64(random.fraction());
                let lasts = shape.mean.mul_f64(0.5 + random.fraction());
                let fleet = if number < count { shape.fleet(random.fraction()) } else { 0 };
                sessions.push(Session { at, lasts, fleet });
            }
            start += STEP;
        }
        sessions.sort_by_key(|session| session.at);
        Self(sessions)
    }

    /// Returns the sessions.
    pub fn sessions(&self) -> &[Session] {
        &self.0
    }
}

impl DayShape {
    /// Returns the fleet of a session that was drawn at this place between 0 and 1.
    fn fleet(&self, drawn: f64) -> usize {
        let mut below = 0.0;
        let found = self.shares.iter().position(|share| {
            below += share;
            drawn < below
        });
        found.unwrap_or(0)
    }
}

/// Returns the whole part of a small positive number.
fn whole(number: f64) -> u32 {
    (0..).find(|whole| f64::from(*whole) + 1.0 > number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn shape() -> DayShape {
        let event = Some((18 * HOUR, 30));
        DayShape { peak: 40.0, mean: Duration::from_secs(1200), event, shares: vec![0.8, 0.2] }
    }

    #[test]
    fn the_same_seed_gives_the_same_trace() {
        let day = |seed| Trace::day(&shape(), 24 * HOUR, seed);
        assert_eq!(day(7), day(7));
        assert_ne!(day(7), day(8));
    }

    #[test]
    fn a_day_is_quiet_at_night_busy_at_noon_and_has_its_event() {
        let trace = Trace::day(&shape(), 24 * HOUR, 1);
        let count = |from: Duration, to: Duration| {
            trace.sessions().iter().filter(|session| (from..to).contains(&session.at)).count()
        };
        let (night, noon) = (count(Duration::ZERO, HOUR), count(12 * HOUR, 13 * HOUR));
        assert!(night * 4 < noon, "{night} sessions begin in the first hour, and {noon} at noon");
        let event = count(18 * HOUR, 18 * HOUR + STEP);
        assert!(event >= 30, "{event}");
        assert!(trace.sessions().is_sorted_by_key(|session| session.at));
        let (all, second) =
            (trace.sessions().len(), trace.sessions().iter().filter(|s| s.fleet == 1).count());
        assert!((all / 8..all / 4).contains(&second), "{second} of {all} are on the second fleet");
    }
}
