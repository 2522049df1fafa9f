//! Is the process alive, by what it says itself?

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::agones::Health;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};

use super::changes::RequestedState;
use super::core::Core;

/// The signs of life of the process.
pub(super) struct Pulse {
    state: Mutex<State>,
    probed: Notify,
}

struct State {
    last_beat_at: Instant,
    silent_periods: i32,
    threshold: i32,
}

impl Pulse {
    pub(super) fn new() -> Self {
        let state = State { last_beat_at: Instant::now(), silent_periods: 0, threshold: i32::MAX };
        Self { state: Mutex::new(state), probed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a sign of life, which makes up for all silence before it.
    pub(super) fn beat(&self) {
        let mut state = self.state();
        (state.last_beat_at, state.silent_periods) = (Instant::now(), 0);
    }

    /// Answers a probe. The first one starts the watch over the process: its container runs.
    pub(super) fn probe(&self) -> bool {
        self.probed.notify_one();
        let state = self.state();
        state.silent_periods < state.threshold
    }

    /// Ends a period. Gives whether the process was silent for too many in a row just now.
    fn end_period(&self, period: Duration) -> bool {
        let mut state = self.state();
        if state.last_beat_at.elapsed() < period {
            return false;
        }
        state.silent_periods = state.silent_periods.saturating_add(1);
        state.silent_periods == state.threshold
    }
}

/// Watches over the process until the end of time; `from_start`: its container starts together with this.
///
/// Otherwise the watch begins with the first probe of the container or some time after the first call of the process,
/// because until then its image may still be on the way.
pub(super) async fn watch_over(core: &Core, from_start: bool) {
    core.seen().await;
    let Ok(server) = core.current() else { return };
    let health = server.spec.health;
    if health.disabled {
        return;
    }
    let delayed = async {
        if !from_start {
            core.called().await;
        }
        tokio::time::sleep(seconds(health.initial_delay_seconds, 0)).await;
    };
    tokio::select! {
        () = core.pulse.probed.notified() => {}
        () = delayed => {}
    }
    judge(core, &health).await;
}

async fn judge(core: &Core, health: &Health) {
    let period = seconds(health.period_seconds, 5);
    core.pulse.state().threshold =
        if health.failure_threshold > 0 { health.failure_threshold } else { 3 };
    core.pulse.beat();
    let mut ticks = tokio::time::interval_at(Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if core.pulse.end_period(period) {
            tracing::warn!("no sign of life for too long; the game server is unhealthy");
            // A game server that is gone needs no state.
            let _ = core.request_state(RequestedState::Unhealthy);
        }
    }
}

/// Reads a number of seconds; one that no object can have counts as `otherwise`.
fn seconds(number: i32, otherwise: u64) -> Duration {
    let number = u64::try_from(number).ok().filter(|number| *number > 0);
    Duration::from_secs(number.unwrap_or(otherwise))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_counts_by_periods_and_a_beat_makes_up_for_it() {
        let pulse = Pulse::new();
        pulse.state().threshold = 2;
        let period = Duration::from_secs(5);
        let silence = || async {
            tokio::time::sleep(period).await;
            pulse.end_period(period)
        };
        assert!(!silence().await);
        pulse.beat();
        assert!(!silence().await);
        assert!(pulse.probe());
        assert!(silence().await, "two in a row");
        assert!(!pulse.probe());
        assert!(!silence().await, "said once");
        pulse.beat();
        assert!(pulse.probe());
    }
}
