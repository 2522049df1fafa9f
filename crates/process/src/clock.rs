//! The wall clock and timers, real or virtual.
//!
//! Two clocks are at work. The wall clock names points in time: it may be set at any time, and it continues while the machine is
//! suspended. Timers are monotonic: they are never set, and stand still while the machine is suspended. So the wall clock is
//! read again at each call, and tasks that wait for one of its times read it repeatedly.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The longest that a wait for a moment of the wall clock goes without reading it.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The only source of time of whatever it is given to.
#[derive(Clone)]
pub struct Clock {
    read: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl Clock {
    /// Returns the machine's clock.
    pub fn system() -> Self {
        Self::from_fn(Timestamp::now)
    }

    /// Returns a clock that shows `at` now and follows tokio's time: when that is paused, so is the clock. Call it on a tokio runtime.
    pub fn virtual_at(at: Timestamp) -> Self {
        let since = Instant::now();
        Self::from_fn(move || {
            let passed = SignedDuration::try_from(since.elapsed()).unwrap_or(SignedDuration::MAX);
            at.saturating_add(passed).unwrap_or(Timestamp::MAX)
        })
    }

    /// Returns a clock that shows whatever `read` returns, such as one that a test sets forward and back.
    pub fn from_fn(read: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { read: Arc::new(read) }
    }

    /// Returns the present time.
    pub fn now(&self) -> Timestamp {
        (self.read)()
    }

    /// Returns when a timer that waits for `at` should fire: at that time if the clock is not set meanwhile, and after half a minute at the
    /// latest. The task then reads the clock, and waits again if `at` is still to come.
    pub fn timer(&self, at: Timestamp) -> Instant {
        let ahead = Duration::try_from(at.duration_since(self.now())).unwrap_or_default();
        Instant::now() + ahead.min(LONGEST_WAIT)
    }

    /// Waits until the clock shows `at`, or later, also when it is set meanwhile.
    pub async fn sleep_until(&self, at: Timestamp) {
        while self.now() < at {
            tokio::time::sleep_until(self.timer(at)).await;
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    /// A machine's clock, and by how many seconds it was set forward.
    fn settable() -> (Clock, Arc<AtomicI64>) {
        let (running, forward) = (Clock::virtual_at(Timestamp::UNIX_EPOCH), Arc::default());
        let offset: Arc<AtomicI64> = Arc::clone(&forward);
        let set = move || running.now() + SignedDuration::from_secs(offset.load(Ordering::Relaxed));
        (Clock::from_fn(set), forward)
    }

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn virtual_time_advances_with_tokio_and_only_with_it() {
        let clock = Clock::virtual_at(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.now(), Timestamp::UNIX_EPOCH);
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(clock.now(), second(90));
    }

    #[tokio::test(start_paused = true)]
    async fn the_system_clock_is_the_wall_clock_however_long_timers_stood_still() {
        let clock = Clock::system();
        // Timers run a day ahead of the wall clock here, as they fall behind it while a machine is suspended.
        tokio::time::advance(Duration::from_secs(24 * 3600)).await;
        let (before, now, after) = (Timestamp::now(), clock.now(), Timestamp::now());
        assert!((before..=after).contains(&now), "{now} is not between {before} and {after}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_soon_after_the_wall_clock_is_set_past_its_end() {
        let (clock, forward) = settable();
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep_until(second(8 * 3600)).await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!sleeper.is_finished());
        forward.store(9 * 3600, Ordering::Relaxed);
        let began_at = Instant::now();
        sleeper.await.unwrap();
        assert!(began_at.elapsed() <= LONGEST_WAIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_goes_on_when_the_wall_clock_is_set_back() {
        let (clock, forward) = settable();
        let began_at = Instant::now();
        let set_back = async {
            tokio::time::sleep(Duration::from_secs(50)).await;
            forward.store(-3600, Ordering::Relaxed);
        };
        tokio::join!(clock.sleep_until(second(60)), set_back);
        assert_eq!(began_at.elapsed(), Duration::from_secs(3660));
        assert_eq!(clock.now(), second(60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_moment_that_has_passed_is_not_waited_for() {
        let clock = Clock::virtual_at(second(100));
        let began_at = Instant::now();
        clock.sleep_until(second(99)).await;
        clock.sleep_until(Timestamp::MIN).await;
        assert_eq!(began_at.elapsed(), Duration::ZERO);
    }
}
