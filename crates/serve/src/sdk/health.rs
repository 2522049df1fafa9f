//! Health checking: a process that stops sending health pings is Unhealthy.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::agones::Health;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};

use super::changes::RequestedState;
use super::core::Core;

/// The health pings of the process.
pub(super) struct Heartbeat {
    state: Mutex<HeartbeatState>,
    probed: Notify,
}

struct HeartbeatState {
    last_ping_at: Instant,
    missed_periods: i32,
    threshold: i32,
}

impl Heartbeat {
    pub(super) fn new() -> Self {
        let state =
            HeartbeatState { last_ping_at: Instant::now(), missed_periods: 0, threshold: i32::MAX };
        Self { state: Mutex::new(state), probed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, HeartbeatState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a health ping, which resets the count of missed periods.
    pub(super) fn ping(&self) {
        let mut state = self.state();
        (state.last_ping_at, state.missed_periods) = (Instant::now(), 0);
    }

    /// Answers a liveness probe. The first one starts health checking, since the container runs.
    pub(super) fn probe(&self) -> bool {
        self.probed.notify_one();
        let state = self.state();
        state.missed_periods < state.threshold
    }

    /// Ends a period. Returns true when the number of missed periods in a row has just reached the threshold.
    fn end_period(&self, period: Duration) -> bool {
        let mut state = self.state();
        if state.last_ping_at.elapsed() < period {
            return false;
        }
        state.missed_periods = state.missed_periods.saturating_add(1);
        state.missed_periods == state.threshold
    }
}

/// Monitors the process; with `from_start` from now on.
///
/// Otherwise monitoring begins with the first probe of the container, or after the initial delay that follows the first call,
/// because until then the image may still be pulled.
pub(super) async fn monitor(core: &Core, from_start: bool) {
    core.synced().await;
    let Ok(server) = core.current() else { return };
    let health = server.spec.health;
    if health.disabled {
        return;
    }
    let delayed = async {
        if !from_start {
            core.first_call().await;
        }
        tokio::time::sleep(seconds(health.initial_delay_seconds, 0)).await;
    };
    tokio::select! {
        () = core.heartbeat.probed.notified() => {}
        () = delayed => {}
    }
    check_periods(core, &health).await;
}

async fn check_periods(core: &Core, health: &Health) {
    let period = seconds(health.period_seconds, 5);
    core.heartbeat.state().threshold =
        if health.failure_threshold > 0 { health.failure_threshold } else { 3 };
    core.heartbeat.ping();
    let mut ticks = tokio::time::interval_at(Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if core.heartbeat.end_period(period) {
            tracing::warn!("no health ping in time; the game server is Unhealthy");
            // A game server that no longer exists needs no state.
            let _ = core.request_state(RequestedState::Unhealthy);
        }
    }
}

/// Returns a number of seconds, or the default if it is not positive.
fn seconds(number: i32, default: u64) -> Duration {
    let number = u64::try_from(number).ok().filter(|number| *number > 0);
    Duration::from_secs(number.unwrap_or(default))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn missed_periods_are_counted_and_a_ping_resets_them() {
        let heartbeat = Heartbeat::new();
        heartbeat.state().threshold = 2;
        let period = Duration::from_secs(5);
        let missed_period = || async {
            tokio::time::sleep(period).await;
            heartbeat.end_period(period)
        };
        assert!(!missed_period().await);
        heartbeat.ping();
        assert!(!missed_period().await);
        assert!(heartbeat.probe());
        assert!(missed_period().await, "two in a row");
        assert!(!heartbeat.probe());
        assert!(!missed_period().await, "reported once");
        heartbeat.ping();
        assert!(heartbeat.probe());
    }
}
