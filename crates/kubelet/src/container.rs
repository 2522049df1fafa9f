//! The life of one container: when it starts, when it starts again, and how it ends.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::EventType;
use k8s_openapi::api::core::v1::Container;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::exec::Target;
use crate::hooks;
use crate::instance::{Exit, Handle, Instance};
use crate::pod::PodRun;
use crate::probe::Prober;
use crate::status::{ContainerState, Ended, Role, State};

mod end;
mod start;

use end::StopReason;
use start::NotStarted;

/// A container that ran this long without failing starts with the first delay again.
const STEADY_AFTER: Duration = Duration::from_secs(600);
/// The longest delay before a restart, in first delays.
const LONGEST_DELAY: u32 = 30;
/// The first delay before an image is tried again.
const IMAGE_DELAY: Duration = Duration::from_secs(10);

/// Set when the container is to stop: the moment when it must be gone.
pub(crate) type Stop = watch::Receiver<Option<Instant>>;

/// Runs one container.
pub(crate) struct ContainerRunner {
    pub(crate) pod: Arc<PodRun>,
    pub(crate) index: usize,
    pub(crate) role: Role,
    pub(crate) container: Container,
    pub(crate) stop: Stop,
    /// Dropped when the container was started, or could not be, for the first time.
    pub(crate) first: Option<oneshot::Sender<()>>,
}

impl ContainerRunner {
    /// Runs the container as often as it is to run, and returns its last exit code.
    pub(crate) async fn run(mut self) -> i32 {
        let mut failures = 0;
        loop {
            let began = Instant::now();
            let outcome = match process::catch_panic(self.run_once()).await {
                Ok(outcome) => outcome,
                Err(cause) => Ok(self.fail(cause)),
            };
            drop(self.first.take());
            if began.elapsed() > STEADY_AFTER {
                failures = 0;
            }
            let code = outcome.as_ref().map_or(137, |exit| exit.code);
            if self.is_stopped() || outcome.is_ok() && !self.is_to_restart(code) {
                return code;
            }
            let delay = match &outcome {
                // The first restart comes at once.
                Ok(_) => self.delay(self.pod.local().restart_after, failures),
                Err(not_started) => self.delay(not_started.first_delay(&self.pod), failures + 1),
            };
            failures += 1;
            match outcome {
                Ok(_) => self.back_off(delay),
                Err(not_started) => self.report_not_started(not_started, failures),
            }
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = stopped(&mut self.stop) => return code,
            }
        }
    }

    fn is_to_restart(&self, code: i32) -> bool {
        let policy = self.pod.spec().restart_policy.as_deref().unwrap_or("Always");
        match (self.role, policy) {
            (Role::Sidecar, _) => true,
            (Role::Init, policy) => code != 0 && policy != "Never",
            (Role::Main, "Never") => false,
            (Role::Main, "OnFailure") => code != 0,
            (Role::Main, _) => true,
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.borrow().is_some()
    }

    fn delay(&self, first: Duration, failures: u32) -> Duration {
        let Some(steps) = failures.checked_sub(1) else { return Duration::ZERO };
        first * 2_u32.saturating_pow(steps).min(LONGEST_DELAY)
    }

    fn set(&self, edit: impl FnOnce(&mut ContainerState)) {
        self.pod.set(self.index, edit);
    }

    fn event(&self, event_type: EventType, reason: &str, note: impl Into<String>) {
        self.pod.object.event(Some(&self.container.name), event_type, reason, note);
    }

    /// Reports that the container waits before its next run.
    fn back_off(&self, delay: Duration) {
        let (name, pod) = (&self.container.name, self.pod.object.long_name());
        if delay.is_zero() {
            // It is started in a moment, and that is reported.
            self.set(|container| container.wait("ContainerCreating", String::new()));
            return;
        }
        let wait = describe(delay);
        let message = format!("back-off {wait} restarting failed container={name} pod={pod}");
        self.set(|container| container.wait("CrashLoopBackOff", message));
        self.pod.publish();
        let note = format!("Back-off restarting failed container {name} in pod {pod}");
        self.event(EventType::Warning, "BackOff", note);
    }

    /// Runs the container once.
    async fn run_once(&mut self) -> Result<Exit, NotStarted> {
        if self.is_stopped() {
            return Err(NotStarted::stopped());
        }
        let clock = self.pod.machine.context.clock.clone();
        let (instance, env) = self.start().await?;
        self.event(EventType::Normal, "Created", "Container created");
        self.event(EventType::Normal, "Started", "Container started");
        let from = clock.now();
        let Instance { id, exit, handle } = instance;
        let target = Target {
            pod: Arc::clone(&self.pod),
            container: self.container.clone(),
            env,
            docker: handle.docker(),
        };
        let exit = self.watch(id, exit, handle, target).await;
        let (code, signal, message) = (exit.code, exit.signal, exit.message.clone());
        self.set(|container| {
            let id = container.id.clone();
            let to = clock.now();
            container.state = State::Ended(Ended { id, code, signal, message, from, to });
            // An init container that is done is ready.
            container.is_ready = container.role == Role::Init && code == 0;
            container.is_started = false;
        });
        if self.role != Role::Main || !self.is_stopped() {
            self.pod.publish();
        }
        Ok(exit)
    }

    /// Notes that a run of the container ended with a panic; what ran has ended with it.
    fn fail(&self, cause: String) -> Exit {
        let container = self.container.name.as_str();
        let pod = &self.pod.object.entry.key;
        tracing::error!(%pod, container, cause, "the task of a container ended; the container has failed");
        let to = self.pod.machine.context.clock.now();
        self.set(|container| {
            let from = match &container.state {
                State::Running { since } => *since,
                State::Waiting { .. } | State::Ended(_) => {
                    container.run(String::new(), to);
                    to
                }
            };
            let (id, message) = (container.id.clone(), cause.clone());
            container.state = State::Ended(Ended { id, code: 2, signal: None, message, from, to });
            (container.is_ready, container.is_started) = (false, false);
        });
        self.pod.publish();
        Exit { code: 2, signal: None, message: cause }
    }

    /// Waits until the container ends: by itself, because it is not well, or because it is to stop.
    async fn watch(
        &mut self,
        id: String,
        mut exit: futures::future::BoxFuture<'static, Exit>,
        handle: Handle,
        target: Target,
    ) -> Exit {
        let since = self.pod.machine.context.clock.now();
        let started = tokio::select! {
            biased;
            started = hooks::post_start(&target) => Some(started),
            () = stopped(&mut self.stop) => None,
            exit = &mut exit => {
                self.set(|container| container.run(id, since));
                return exit;
            }
        };
        self.set(|container| {
            container.run(id, since);
            (container.is_started, container.is_ready) = Prober::initial(&self.container);
            // An init container is ready when it is done.
            container.is_ready &= container.role != Role::Init;
        });
        let waits = self.role == Role::Sidecar && self.container.startup_probe.is_some();
        let first = self.first.take().filter(|_| waits);
        let reason = match started {
            Some(Ok(())) => {
                self.pod.publish();
                let (target, index) = (target.clone(), self.index);
                let mut prober = Prober { target, index, first, reported: Mutex::default() };
                tokio::select! {
                    exit = &mut exit => return exit,
                    () = stopped(&mut self.stop) => StopReason::Pod,
                    unhealthy = prober.until_unhealthy() => StopReason::Unhealthy(unhealthy),
                }
            }
            Some(Err(_)) => StopReason::PostStart,
            None => StopReason::Pod,
        };
        self.end(exit, handle, &target, reason).await
    }
}

/// Waits until it is time to stop.
pub(crate) async fn stopped(stop: &mut Stop) {
    let _ = stop.wait_for(Option::is_some).await;
}

/// Returns a duration as kubelet writes it, such as `10s`, `2m40s` or `100ms`.
fn describe(delay: Duration) -> String {
    let (minutes, seconds, millis) =
        (delay.as_secs() / 60, delay.as_secs() % 60, delay.subsec_millis());
    match (minutes, seconds, millis) {
        (0, 0, millis) => format!("{millis}ms"),
        (0, seconds, 0) => format!("{seconds}s"),
        (0, seconds, millis) => format!("{}s", f64::from(millis) / 1000.0 + seconds as f64),
        (minutes, seconds, _) => format!("{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_read_as_those_of_go() {
        for (millis, text) in [
            (100, "100ms"),
            (10_000, "10s"),
            (160_000, "2m40s"),
            (300_000, "5m0s"),
            (1_500, "1.5s"),
        ] {
            assert_eq!(describe(Duration::from_millis(millis)), text);
        }
    }
}
