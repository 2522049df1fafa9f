//! Has a container started, is it alive, is it ready?
//!
//! Probes are made inside the network of the pod, as often as they say. A startup or liveness probe that failed too
//! often ends the run of the container; a readiness probe only says whether it is ready.

use std::sync::Mutex;
use std::time::Duration;

use cluster::EventType;
use k8s_openapi::api::core::v1::{Container, Probe};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::exec::Target;

/// The name that HTTP requests of probes carry.
const USER_AGENT: &str = "kube-probe/plimsoll";

/// Probes one run of a container.
pub(crate) struct Prober {
    pub(crate) target: Target,
    /// The container's place in the state of its pod.
    pub(crate) index: usize,
    /// Dropped when the container has started.
    pub(crate) first: Option<oneshot::Sender<()>>,
    /// The failures that were reported last, by the kind of the probe.
    pub(crate) reported: Mutex<Vec<(Kind, String)>>,
}

/// A run that is to end: the probe that failed, and how long it may take.
pub(crate) struct Unhealthy {
    pub(crate) kind: Kind,
    pub(crate) grace: Option<Duration>,
}

/// The kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Startup,
    Liveness,
    Readiness,
}

impl Kind {
    /// Returns the kind as it is written within a sentence.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Liveness => "liveness",
            Self::Readiness => "readiness",
        }
    }
}

impl Prober {
    /// Whether the container counts as started, and as ready, as soon as it runs.
    pub(crate) fn initial(container: &Container) -> (bool, bool) {
        let is_started = container.startup_probe.is_none();
        (is_started, is_started && container.readiness_probe.is_none())
    }

    /// Probes until the container is to end.
    pub(crate) async fn until_unhealthy(&mut self) -> Unhealthy {
        let container = &self.target.container;
        if let Some(probe) = &container.startup_probe {
            if let Some(failed) = self.startup(probe).await {
                return failed;
            }
            drop(self.first.take());
            let is_ready = self.target.container.readiness_probe.is_none();
            let pod = &self.target.pod;
            pod.set(self.index, |c| (c.is_started, c.is_ready) = (true, is_ready));
            pod.publish();
        }
        tokio::select! {
            failed = self.liveness() => failed,
            never = self.readiness() => match never {},
        }
    }

    async fn startup(&self, probe: &Probe) -> Option<Unhealthy> {
        let mut rounds = Rounds::new(probe);
        loop {
            rounds.next().await;
            match rounds.count(self.check(Kind::Startup, probe).await) {
                Some(true) => return None,
                Some(false) => return Some(unhealthy(Kind::Startup, probe)),
                None => {}
            }
        }
    }

    async fn liveness(&self) -> Unhealthy {
        let Some(probe) = &self.target.container.liveness_probe else {
            return std::future::pending().await;
        };
        let mut rounds = Rounds::new(probe);
        loop {
            rounds.next().await;
            if rounds.count(self.check(Kind::Liveness, probe).await) == Some(false) {
                return unhealthy(Kind::Liveness, probe);
            }
        }
    }

    async fn readiness(&self) -> std::convert::Infallible {
        let Some(probe) = &self.target.container.readiness_probe else {
            return std::future::pending().await;
        };
        let mut rounds = Rounds::new(probe);
        let mut was_ready = false;
        loop {
            rounds.next().await;
            let is_ready =
                rounds.count(self.check(Kind::Readiness, probe).await).unwrap_or(was_ready);
            if is_ready != was_ready {
                self.target.pod.set(self.index, |c| c.is_ready = is_ready);
                self.target.pod.publish();
                was_ready = is_ready;
            }
        }
    }

    /// Makes a probe, and reports a failure.
    async fn check(&self, kind: Kind, probe: &Probe) -> bool {
        let within = seconds(probe.timeout_seconds, 1);
        let outcome = match timeout(within, self.ask(probe)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {} s", within.as_secs())),
        };
        self.report(kind, &outcome);
        outcome.is_ok()
    }

    /// Records an event about the first of several equal failures in a row.
    fn report(&self, kind: Kind, outcome: &Result<(), String>) {
        let mut reported = self.reported.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let before = reported.iter().position(|(of, _)| *of == kind);
        let before = before.map(|at| reported.swap_remove(at).1);
        let Err(cause) = outcome else { return };
        if before.as_ref() != Some(cause) {
            let mut name = kind.name().to_owned();
            name[..1].make_ascii_uppercase();
            let (pod, container) = (&self.target.pod.object, self.target.container.name.as_str());
            let note = format!("{name} probe failed: {cause}");
            pod.event(Some(container), EventType::Warning, "Unhealthy", note);
        }
        reported.push((kind, cause.clone()));
    }

    async fn ask(&self, probe: &Probe) -> Result<(), String> {
        if let Some(get) = &probe.http_get {
            let code = self.target.http_get(get, USER_AGENT).await?;
            return if (200..400).contains(&code) {
                Ok(())
            } else {
                Err(format!("HTTP probe failed with statuscode: {code}"))
            };
        }
        if let Some(tcp) = &probe.tcp_socket {
            return self.target.connect(&tcp.port).await.map(drop);
        }
        match &probe.exec {
            Some(exec) => self.target.exec(exec).await,
            // A kind of probe that is not made here says nothing.
            None => Ok(()),
        }
    }
}

fn unhealthy(kind: Kind, probe: &Probe) -> Unhealthy {
    let grace = probe.termination_grace_period_seconds.and_then(|s| u64::try_from(s).ok());
    Unhealthy { kind, grace: grace.map(Duration::from_secs) }
}

fn seconds(given: Option<i32>, default: u64) -> Duration {
    Duration::from_secs(
        given.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0).unwrap_or(default),
    )
}

/// When the next probe is due, and how the last ones went.
struct Rounds {
    wait: Duration,
    period: Duration,
    successes_wanted: i32,
    failures_allowed: i32,
    successes: i32,
    failures: i32,
}

impl Rounds {
    fn new(probe: &Probe) -> Self {
        Self {
            wait: Duration::from_secs(
                u64::try_from(probe.initial_delay_seconds.unwrap_or(0)).unwrap_or(0),
            ),
            period: seconds(probe.period_seconds, 10),
            successes_wanted: probe.success_threshold.unwrap_or(1).max(1),
            failures_allowed: probe.failure_threshold.unwrap_or(3).max(1),
            successes: 0,
            failures: 0,
        }
    }

    async fn next(&mut self) {
        tokio::time::sleep(std::mem::replace(&mut self.wait, self.period)).await;
    }

    /// Counts an answer, and returns it once it came often enough in a row.
    fn count(&mut self, is_good: bool) -> Option<bool> {
        if is_good {
            (self.successes, self.failures) = (self.successes.saturating_add(1), 0);
        } else {
            (self.successes, self.failures) = (0, self.failures.saturating_add(1));
        }
        let is_decided =
            self.successes >= self.successes_wanted || self.failures >= self.failures_allowed;
        is_decided.then_some(is_good)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_enough_answers_in_a_row_decide() {
        let probe = Probe { failure_threshold: Some(2), ..Probe::default() };
        let mut rounds = Rounds::new(&probe);
        assert_eq!(rounds.count(false), None);
        assert_eq!(rounds.count(true), Some(true));
        assert_eq!(rounds.count(false), None, "the row starts again");
        assert_eq!(rounds.count(false), Some(false));
    }
}
