//! Runs one container: starts it, probes it, restarts it, and stops it.

mod backoff;
mod end;
mod start;
mod volumes;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::EventType;
use k8s_openapi::api::core::v1::Container;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::exec::Target;
use crate::hooks;
use crate::instance::{Handle, Instance};
use crate::pod::PodRun;
use crate::probe::Prober;
use crate::running::{RunningContainer, RunningGuard};
use crate::status::{ContainerState, Ended, Exit, Role, State};
use crate::streams::Stdin;

use end::StopReason;
use start::NotStarted;

/// After a run of this length the delays start again with the first.
const STEADY_AFTER: Duration = Duration::from_secs(600);

/// Set when the container is to stop: the time when it is killed.
pub(crate) type Stop = watch::Receiver<Option<Instant>>;

/// Runs one container.
pub(crate) struct ContainerRunner {
    pub(crate) pod: Arc<PodRun>,
    pub(crate) index: usize,
    pub(crate) role: Role,
    pub(crate) container: Container,
    pub(crate) stop: Stop,
    /// Dropped when the container has started for the first time, or could not be started.
    pub(crate) first: Option<oneshot::Sender<()>>,
}

impl ContainerRunner {
    /// Runs the container until it is not to be restarted, and returns its last exit code.
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
                // The first restart is immediate.
                Ok(_) => backoff::delay(self.pod.local().restart_after, failures),
                Err(not_started) => {
                    backoff::delay(not_started.first_delay(&self.pod), failures + 1)
                }
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

    fn set(&self, edit: impl FnOnce(&mut ContainerState)) {
        self.pod.set(self.index, edit);
    }

    fn event(&self, event_type: EventType, reason: &str, note: impl Into<String>) {
        self.pod.object.event(Some(&self.container.name), event_type, reason, note);
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
        let Instance { id, exit, handle, stdin } = instance;
        let target = Target {
            pod: Arc::clone(&self.pod),
            container: self.container.clone(),
            env,
            docker: handle.docker().cloned(),
        };
        let uid = &self.pod.object.entry.uid;
        let _measured = self.pod.machine.meter.register(uid, &self.container.name, &handle);
        let running = self.running(&target, &handle, stdin);
        let exit = self.watch(id, exit, handle, target).await;
        drop(running);
        self.set(|container| {
            let (id, exit, to) = (container.id.clone(), exit.clone(), clock.now());
            // An init container is ready when it has completed.
            container.is_ready = container.role == Role::Init && exit.code == 0;
            container.state = State::Ended(Ended { id, exit, from, to });
            container.is_started = false;
        });
        if self.role != Role::Main || !self.is_stopped() {
            self.pod.publish();
        }
        Ok(exit)
    }

    /// Lets clients connect to the container until the returned guard is dropped.
    fn running(&self, target: &Target, handle: &Handle, stdin: Option<Stdin>) -> RunningGuard {
        let machine = &self.pod.machine;
        let terminal = match &stdin {
            Some(Stdin::Terminal(terminal)) => Some(terminal.clone()),
            Some(Stdin::Pipe(_) | Stdin::Docker { .. } | Stdin::Shared { .. }) | None => None,
        };
        machine.running.insert(RunningContainer {
            target: target.clone(),
            is_program: matches!(handle, Handle::Program { .. }),
            terminal,
            stdin: stdin.map(|stdin| Arc::new(tokio::sync::Mutex::new(Some(Box::new(stdin))))),
            log: machine.logs.find(&self.pod.object.entry.uid, &self.container.name, false),
            ended: CancellationToken::new(),
        })
    }

    /// Reports that the task of a run panicked; the container was killed with it.
    fn fail(&self, cause: String) -> Exit {
        let container = self.container.name.as_str();
        let pod = &self.pod.object.entry.key;
        tracing::error!(%pod, container, cause, "the task of a container panicked; the container has failed");
        let (exit, to) = (Exit::failure(2, cause), self.pod.machine.context.clock.now());
        self.set(|container| {
            let from = match &container.state {
                State::Running { since } => *since,
                State::Waiting { .. } | State::Ended(_) => {
                    container.run(String::new(), to);
                    to
                }
            };
            let (id, exit) = (container.id.clone(), exit.clone());
            container.state = State::Ended(Ended { id, exit, from, to });
            (container.is_ready, container.is_started) = (false, false);
        });
        self.pod.publish();
        exit
    }

    /// Waits until the container ends: by itself, because it is unhealthy, or because it is to stop.
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
            // An init container is ready when it has completed.
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
