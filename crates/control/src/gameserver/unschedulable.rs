//! Reports why the pod of a game server has no node: once, and again when the scheduler's message changes, but at most once a minute.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cluster::{EventType, Key, RequeueAt};
use decide::gameserver::State;
use tokio::time::Instant;

use super::act::SOURCE;
use super::observe::ObservedGameServer;
use crate::context::Context;

/// The least time between two events about one server.
const PAUSE: Duration = Duration::from_secs(60);

/// The message that was last reported for each unschedulable game server, and when.
#[derive(Default)]
pub(crate) struct ReportedUnschedulable(Mutex<HashMap<Key, (String, Instant)>>);

impl ReportedUnschedulable {
    /// Returns whether to report `why` now; otherwise when to do so, if it is new.
    fn is_due(&self, key: &Key, why: &str, now: Instant) -> Result<(), RequeueAt> {
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match reported.get(key) {
            Some((before, _)) if before == why => return Err(None),
            Some((_, at)) if *at + PAUSE > now => return Err(Some(*at + PAUSE)),
            Some(_) | None => {}
        }
        reported.insert(key.clone(), (why.to_owned(), now));
        Ok(())
    }

    /// Removes a game server whose pod has a node or is gone.
    pub(super) fn forget(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// Records an event with the reason why the pod of a game server has no node, if that is new.
pub(super) fn report(observed: &ObservedGameServer, cx: &Context) -> RequeueAt {
    let server = &observed.server.object;
    let key = Key::from_meta(&server.metadata);
    let why = observed.pod.as_ref().and_then(|pod| pod.unschedulable());
    let Some(why) = why.filter(|_| observed.observation.state.is_before_pod()) else {
        // A pod that was deleted because its ports were taken is created again, and may be unschedulable as before.
        if !observed.observation.state.is_before_pod() {
            cx.unschedulable.forget(&key);
        }
        return None;
    };
    if let Err(requeue_at) = cx.unschedulable.is_due(&key, why, Instant::now()) {
        return requeue_at;
    }
    let note = format!("Pod waits for a node: {why}");
    cx.events.record(server, SOURCE, EventType::Warning, State::Starting.as_str(), note);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unschedulable_server_is_reported_once_and_again_when_the_reason_changes() {
        let (reported, key, now) =
            (ReportedUnschedulable::default(), Key::new("ns", "a"), Instant::now());
        assert_eq!(reported.is_due(&key, "no cpu", now), Ok(()));
        assert_eq!(reported.is_due(&key, "no cpu", now + PAUSE), Err(None));
        let soon = now + PAUSE / 2;
        assert_eq!(reported.is_due(&key, "no ports", soon), Err(Some(now + PAUSE)));
        assert_eq!(reported.is_due(&key, "no ports", now + PAUSE), Ok(()));
        reported.forget(&key);
        assert_eq!(reported.is_due(&key, "no ports", now + PAUSE), Ok(()));
    }
}
