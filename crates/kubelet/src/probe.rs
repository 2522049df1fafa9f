//! Startup, liveness and readiness probes.
//!
//! Probes are made inside the network of the pod. A startup or liveness probe that fails too often ends the run of the
//! container; a readiness probe only changes whether it is ready.

mod schedule;

use std::sync::Mutex;
use std::time::Duration;

use cluster::EventType;
use k8s_openapi::api::core::v1::{Container, Probe};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::exec::Target;
use schedule::{ProbeSchedule, seconds};

/// The user agent of the HTTP requests of probes.
const USER_AGENT: &str = "kube-probe/plimsoll";

/// Probes one run of a container.
pub(crate) struct Prober {
    pub(crate) target: Target,
    /// The index of the container in the state of its pod.
    pub(crate) index: usize,
    /// Dropped when the container has started.
    pub(crate) first: Option<oneshot::Sender<()>>,
    /// The failures that were reported last, by kind of probe.
    pub(crate) reported: Mutex<Vec<(ProbeKind, String)>>,
}

/// The probe that failed, and how long the container may take to terminate.
pub(crate) struct Unhealthy {
    pub(crate) kind: ProbeKind,
    pub(crate) grace: Option<Duration>,
}

/// The kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeKind {
    Startup,
    Liveness,
    Readiness,
}

impl ProbeKind {
    /// Returns the kind in lower case.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Liveness => "liveness",
            Self::Readiness => "readiness",
        }
    }
}

impl Prober {
    /// Returns whether the container counts as started, and as ready, as soon as it runs.
    pub(crate) fn initial(container: &Container) -> (bool, bool) {
        let is_started = container.startup_probe.is_none();
        (is_started, is_started && container.readiness_probe.is_none())
    }

    /// Probes the container until it has to be stopped.
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
        let mut schedule = ProbeSchedule::new(probe);
        loop {
            schedule.next().await;
            match schedule.count(self.check(ProbeKind::Startup, probe).await) {
                Some(true) => return None,
                Some(false) => return Some(unhealthy(ProbeKind::Startup, probe)),
                None => {}
            }
        }
    }

    async fn liveness(&self) -> Unhealthy {
        let Some(probe) = &self.target.container.liveness_probe else {
            return std::future::pending().await;
        };
        let mut schedule = ProbeSchedule::new(probe);
        loop {
            schedule.next().await;
            if schedule.count(self.check(ProbeKind::Liveness, probe).await) == Some(false) {
                return unhealthy(ProbeKind::Liveness, probe);
            }
        }
    }

    async fn readiness(&self) -> std::convert::Infallible {
        let Some(probe) = &self.target.container.readiness_probe else {
            return std::future::pending().await;
        };
        let mut schedule = ProbeSchedule::new(probe);
        let mut was_ready = false;
        loop {
            schedule.next().await;
            let is_ready =
                schedule.count(self.check(ProbeKind::Readiness, probe).await).unwrap_or(was_ready);
            if is_ready != was_ready {
                self.target.pod.set(self.index, |c| c.is_ready = is_ready);
                self.target.pod.publish();
                was_ready = is_ready;
            }
        }
    }

    /// Makes a probe, and reports its failure.
    async fn check(&self, kind: ProbeKind, probe: &Probe) -> bool {
        let within = seconds(probe.timeout_seconds, 1);
        let outcome = match timeout(within, self.probe(probe)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("no answer within {} s", within.as_secs())),
        };
        self.report(kind, &outcome);
        outcome.is_ok()
    }

    /// Records an event about the first of several equal failures in a row.
    fn report(&self, kind: ProbeKind, outcome: &Result<(), String>) {
        let mut reported = self.reported.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let before = reported.iter().position(|(reported, _)| *reported == kind);
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

    async fn probe(&self, probe: &Probe) -> Result<(), String> {
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
            // Other handlers are not supported, and always succeed.
            None => Ok(()),
        }
    }
}

fn unhealthy(kind: ProbeKind, probe: &Probe) -> Unhealthy {
    let grace = probe.termination_grace_period_seconds.and_then(|s| u64::try_from(s).ok());
    Unhealthy { kind, grace: grace.map(Duration::from_secs) }
}
