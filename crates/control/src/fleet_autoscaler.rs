//! Fleet autoscalers: look when the fleet changes, decide its size, move it, and say why.
//!
//! An autoscaler is looked at a moment after anything changes that its decision depends on, so that a burst is one look; and at
//! the latest after its sync interval.

mod act;
mod ask;
mod memory;
pub mod observe;
mod record;
mod report;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use api::autoscaling::FleetAutoscaler;
use cluster::{Error, Key, RequeueAt, WorkQueue};
use connect::Ask;
use decide::fleet::{Decision, Policy, settle};
use jiff::SignedDuration;
use tokio::time::Instant;

use crate::context::Context;
use act::Outcome;
use memory::Memories;
use watch::Watchers;

/// The annotation that says how long a fleet waits before it shrinks, such as `5m`.
pub const STABILIZATION_ANNOTATION: &str = "plimsoll.dev/scale-down-stabilization";

/// Every autoscaler, and what is remembered of each between two looks.
struct Autoscalers {
    cx: Arc<Context>,
    ask: Ask,
    queue: Arc<WorkQueue>,
    memories: Arc<Memories>,
    watchers: Arc<Watchers>,
}

/// Works on autoscalers for as long as it is polled.
pub(crate) async fn run(cx: Arc<Context>) {
    let all = Arc::new(Autoscalers {
        ask: Ask::new(),
        queue: Arc::default(),
        memories: Arc::default(),
        watchers: Arc::default(),
        cx: Arc::clone(&cx),
    });
    let _subscriptions = watch::changes(&all);
    let turn = |key| {
        let all = Arc::clone(&all);
        async move { all.turn(&key).await }
    };
    all.queue.run(cx.settings.concurrency, turn).await;
}

impl Autoscalers {
    /// Looks at one autoscaler's fleet, decides its size, moves it, and says why.
    async fn turn(&self, key: &Key) -> Result<RequeueAt, Error> {
        let Some(autoscaler) = self.cx.caches.autoscalers.get(key) else {
            self.memories.forget(key);
            return Ok(None);
        };
        if let Some(at) = self.memories.gathers_until(key) {
            return Ok(Some(at));
        }
        let wanted = observe::wanted(&autoscaler);
        let policy = wanted.as_ref().map(|wanted| &wanted.policy).ok();
        self.memories.looked(key, &autoscaler, policy.is_some_and(Policy::may_ask));
        let Some(fleet) = self.cx.caches.fleets.get(&observe::target(&autoscaler)) else {
            record::missing(&autoscaler, self).await?;
            return Ok(Some(Instant::now() + interval(&autoscaler)));
        };
        if fleet.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let reads_servers = policy.is_some_and(Policy::reads_servers);
        let seen = observe::observe(&autoscaler, &fleet, reads_servers, self);
        let decision = match &wanted {
            Ok(wanted) => {
                let decision = ask::decide(&autoscaler, &wanted.policy, &fleet, &seen, self).await;
                self.settle(key, wanted.stabilization, decision)
            }
            Err(problems) => observe::unreadable(seen.fleet.replicas, problems),
        };
        let outcome = act::resize(&decision, &fleet, self).await;
        record::all(&autoscaler, &seen, &decision, &outcome, self).await?;
        Ok(Some(self.next_look(key, &autoscaler, &decision, &outcome)))
    }

    fn settle(&self, key: &Key, window: Option<SignedDuration>, decision: Decision) -> Decision {
        let Some(window) = window else { return decision };
        let now = self.cx.clock.now();
        self.memories.with(key, |memory| settle(decision, &mut memory.history, window, now))
    }

    /// Notes what was done, and gives whether the status is to tell of a resize; `None`: not now.
    fn tells(&self, autoscaler: &FleetAutoscaler, is_resized: bool) -> Option<bool> {
        let key = Key::from_meta(&autoscaler.metadata);
        let another_comes = self.queue.is_due(&key, Instant::now() + memory::BURST);
        self.memories.with(&key, |memory| memory.tells(is_resized, another_comes))
    }

    /// Says when to look again though nothing changes: sooner after a failure, and when time alone could change the answer.
    fn next_look(
        &self,
        key: &Key,
        autoscaler: &FleetAutoscaler,
        decision: &Decision,
        outcome: &Outcome,
    ) -> Instant {
        let interval = interval(autoscaler);
        let retry_after = self.memories.with(key, |m| m.retry_after(decision, outcome));
        let latest = Instant::now() + retry_after.unwrap_or(interval).min(interval);
        let wake_at = decision.wake_at.map(|at| self.cx.clock.timer(at));
        wake_at.into_iter().chain([latest]).min().unwrap_or(latest)
    }
}

/// The longest time between two looks.
fn interval(autoscaler: &FleetAutoscaler) -> Duration {
    let seconds = autoscaler.spec.sync.as_ref().map_or(30, |sync| sync.fixed_interval.seconds);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(30).max(1))
}
