//! Why does a game server have no node? It is told once in the scheduler's words, and again when they change, but not every moment.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cluster::{EventType, Key, RequeueAt};
use decide::gameserver::State;
use tokio::time::Instant;

use super::act::SOURCE;
use super::observe::Observed;
use crate::context::Context;

/// The least time between two events about one server.
const PAUSE: Duration = Duration::from_secs(60);

/// What was told last about each server that waits, and when.
#[derive(Default)]
pub(crate) struct Waiting(Mutex<HashMap<Key, (String, Instant)>>);

impl Waiting {
    /// Whether `why` is to be told now; otherwise the moment at which it is, if it is new.
    fn is_news(&self, key: &Key, why: &str, now: Instant) -> Result<(), RequeueAt> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match told.get(key) {
            Some((before, _)) if before == why => return Err(None),
            Some((_, at)) if *at + PAUSE > now => return Err(Some(*at + PAUSE)),
            Some(_) | None => {}
        }
        told.insert(key.clone(), (why.to_owned(), now));
        Ok(())
    }

    /// Forgets a server that waits no more.
    pub(super) fn forget(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// Tells why the pod of a server has no node, if that is news.
pub(super) fn tell(seen: &Observed, cx: &Context) -> RequeueAt {
    let server = &seen.server.object;
    let key = Key::from_meta(&server.metadata);
    let why = seen.pod.as_ref().and_then(|pod| pod.unschedulable());
    let Some(why) = why.filter(|_| seen.seen.state.is_before_pod()) else {
        // A pod that was deleted for want of ports comes back, and then waits as before.
        if !seen.seen.state.is_before_pod() {
            cx.waiting.forget(&key);
        }
        return None;
    };
    if let Err(again) = cx.waiting.is_news(&key, why, Instant::now()) {
        return again;
    }
    let note = format!("Pod waits for a node: {why}");
    cx.events.record(server, SOURCE, EventType::Warning, State::Starting.as_str(), note);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_waits_says_why_once_and_again_when_it_changes() {
        let (waiting, key, now) = (Waiting::default(), Key::new("ns", "a"), Instant::now());
        assert_eq!(waiting.is_news(&key, "no cpu", now), Ok(()));
        assert_eq!(waiting.is_news(&key, "no cpu", now + PAUSE), Err(None));
        let soon = now + PAUSE / 2;
        assert_eq!(waiting.is_news(&key, "no ports", soon), Err(Some(now + PAUSE)));
        assert_eq!(waiting.is_news(&key, "no ports", now + PAUSE), Ok(()));
        waiting.forget(&key);
        assert_eq!(waiting.is_news(&key, "no ports", now + PAUSE), Ok(()));
    }
}
