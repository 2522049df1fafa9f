//! How does one container live: when does it start, when again, and how does it end?

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Container;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::docker;
use super::env::{Source, Variables, expand};
use super::instance::{Exit, Instance};
use super::pod::PodRun;
use super::probe::{Prober, Unhealthy};
use super::process::{self, Plan};
use super::program::ProgramContext;
use super::resolve::{self, What};
use super::status::{Ended, Role, State};
use crate::deadline;

/// A container that ran this long without failing has a clean slate.
const STEADY_AFTER: Duration = Duration::from_secs(600);
/// The longest wait before a restart, in first waits.
const LONGEST_WAIT: u32 = 30;

/// Says when to stop, and when at the latest to be gone.
pub(super) type Stop = watch::Receiver<Option<Instant>>;

/// Looks after one container.
pub(super) struct Keeper {
    pub(super) pod: Arc<PodRun>,
    pub(super) index: usize,
    pub(super) role: Role,
    pub(super) container: Container,
    pub(super) stop: Stop,
    /// Told when the container was started, or could not be, for the first time.
    pub(super) first: Option<oneshot::Sender<()>>,
}

/// Why a container did not start: a word and a sentence.
type NotStarted = (&'static str, String);

impl Keeper {
    /// Runs the container as often as it is to run, and gives its last exit code.
    pub(super) async fn keep(mut self) -> i32 {
        let mut failures = 0;
        loop {
            let began = Instant::now();
            let ended = match ::process::catch_panic(self.run_once()).await {
                Ok(ended) => ended,
                Err(cause) => Some(self.fail(cause).await),
            };
            drop(self.first.take());
            if began.elapsed() > STEADY_AFTER {
                failures = 0;
            }
            let wait = match &ended {
                Some(exit) if !self.is_to_run_again(exit.code) => return exit.code,
                _ if self.is_stopped() => return ended.map_or(137, |exit| exit.code),
                // The first restart comes at once.
                Some(_) => self.wait_before(failures),
                None => self.wait_before(failures + 1),
            };
            failures += 1;
            if ended.is_some() {
                self.pod.set(self.index, |container| {
                    let reason =
                        if wait.is_zero() { "ContainerCreating" } else { "CrashLoopBackOff" };
                    let message =
                        format!("back-off {}s restarting failed container", wait.as_secs());
                    let waiting = State::Waiting { reason, message };
                    if let State::Ended(ended) = std::mem::replace(&mut container.state, waiting) {
                        container.last = Some(ended);
                    }
                    container.restarts += 1;
                });
                self.pod.publish().await;
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = stopped(&mut self.stop) => return ended.map_or(137, |exit| exit.code),
            }
        }
    }

    fn is_to_run_again(&self, code: i32) -> bool {
        let policy = self.pod.spec().restart_policy.as_deref().unwrap_or("Always");
        let by_policy = match (self.role, policy) {
            (Role::Sidecar, _) => true,
            (Role::Init, policy) => code != 0 && policy != "Never",
            (Role::Main, "Never") => false,
            (Role::Main, "OnFailure") => code != 0,
            (Role::Main, _) => true,
        };
        by_policy && !self.is_stopped()
    }

    fn is_stopped(&self) -> bool {
        self.stop.borrow().is_some()
    }

    fn wait_before(&self, failures: u32) -> Duration {
        let Some(steps) = failures.checked_sub(1) else { return Duration::ZERO };
        let factor = 2_u32.saturating_pow(steps).min(LONGEST_WAIT);
        self.pod.local().restart_after * factor
    }

    /// Runs the container once; `None`: it did not start.
    async fn run_once(&mut self) -> Option<Exit> {
        if self.is_stopped() {
            return None;
        }
        let clock = self.pod.machine.core.clock.clone();
        let (instance, env) = match self.start().await {
            Ok(started) => started,
            Err((reason, message)) => {
                self.pod.object.event("plimsoll", "Warning", "Failed", &message).await;
                self.pod.set(self.index, |c| c.state = State::Waiting { reason, message });
                self.pod.publish().await;
                return None;
            }
        };
        let from = clock.now();
        self.pod.set(self.index, |container| {
            container.state = State::Running { since: from };
            container.id = instance.id.clone();
            (container.is_started, container.is_ready) = Prober::at_once(&self.container);
        });
        let waits = self.role == Role::Sidecar && self.container.startup_probe.is_some();
        let first = self.first.take().filter(|_| waits);
        self.pod.publish().await;
        let (pod, container) = (Arc::clone(&self.pod), self.container.clone());
        let prober = Prober { pod, index: self.index, container, env, first };
        let exit = self.watch(instance, prober).await;
        let (code, signal, message) = (exit.code, exit.signal, exit.message.clone());
        self.pod.set(self.index, |container| {
            container.state = State::Ended(Ended { code, signal, message, from, to: clock.now() });
            // An init container that is done is what it is to be.
            container.is_ready = container.role == Role::Init && code == 0;
            container.is_started = false;
        });
        if self.role != Role::Main || !self.is_stopped() {
            self.pod.publish().await;
        }
        Some(exit)
    }

    /// Notes that a run of the container ended with a panic; what ran has ended with it.
    async fn fail(&self, cause: String) -> Exit {
        tracing::error!(
            namespace = &*self.pod.object.namespace,
            pod = &*self.pod.object.name,
            container = self.container.name,
            cause,
            "the task of a container ended; the container has failed"
        );
        let exit = Exit { code: 2, signal: None, message: cause };
        let to = self.pod.machine.core.clock.now();
        self.pod.set(self.index, |container| {
            let from = match &container.state {
                State::Running { since } => *since,
                State::Waiting { .. } | State::Ended(_) => to,
            };
            let message = exit.message.clone();
            container.state =
                State::Ended(Ended { code: exit.code, signal: None, message, from, to });
            (container.is_ready, container.is_started) = (false, false);
        });
        self.pod.publish().await;
        exit
    }

    /// Starts the container, and gives its environment.
    async fn start(&self) -> Result<(Instance, Variables), NotStarted> {
        let (pod, local) = (&self.pod, self.pod.local());
        let shown = pod.object.get().ok_or(("PodGone", "the pod is gone".to_owned()))?;
        let (host_ip, pod_ip) = pod.network.addresses(local);
        let source = Source {
            core: &pod.machine.core,
            pod: &shown,
            host_ip: host_ip.to_string(),
            pod_ip: pod_ip.to_string(),
        };
        let env = source.variables(&self.container, pod.network.env(&self.container));
        let env = env.map_err(|why| ("CreateContainerConfigError", why))?;
        let fill = |list: &Option<Vec<String>>| -> Vec<String> {
            list.iter().flatten().map(|text| expand(text, &env)).collect()
        };
        let (command, args) = (fill(&self.container.command), fill(&self.container.args));
        let what =
            resolve::program(local, &self.container, &command, &args, pod.machine.docker.is_some());
        let what = what.map_err(|why| ("ErrImagePull", why))?;
        let log = pod.machine.core.logs.start(
            &pod.object.uid,
            &self.container.name,
            pod.machine.core.clock.clone(),
        );
        match what {
            What::InProcess(program, args) => {
                let context = ProgramContext {
                    pod: Arc::clone(&pod.pod),
                    container: self.container.clone(),
                    env: env.clone(),
                    args,
                    stop: CancellationToken::new(),
                    network: Arc::clone(&pod.network),
                    log,
                };
                Ok((process::in_process(&program, context), env))
            }
            What::Docker => {
                let docker = pod.machine.docker.as_ref();
                let docker =
                    docker.ok_or(("ErrImagePull", "no Docker Engine answers".to_owned()))?;
                let start = docker::Start { container: &self.container, command, args, env: &env };
                match docker.start(start, log).await {
                    Ok(instance) => Ok((instance, env)),
                    Err(err) => {
                        Err(("ErrImagePull", format!("Docker could not start the image: {err}")))
                    }
                }
            }
            What::Local(program, args) => {
                let dir = self.container.working_dir.clone();
                let plan = Plan { program, args, env: env.clone(), dir };
                let mark = &pod.machine.mark;
                let spawned = plan.spawn(&local.launcher, mark, pod.network.spawner()).await;
                let watched = spawned.and_then(|child| process::watch(child, log));
                match watched {
                    Ok(instance) => Ok((instance, env)),
                    Err(err) => {
                        Err(("RunContainerError", format!("could not start the program: {err}")))
                    }
                }
            }
        }
    }

    /// Waits until the container ends, by itself, because it is not well, or because it is to stop.
    async fn watch(&mut self, instance: Instance, mut prober: Prober) -> Exit {
        let Instance { mut exit, handle, .. } = instance;
        let unhealthy = tokio::select! {
            exit = &mut exit => return exit,
            () = stopped(&mut self.stop) => None,
            unhealthy = prober.until_unhealthy() => Some(unhealthy),
        };
        let mut until = None;
        if let Some(Unhealthy { why, grace }) = unhealthy {
            self.pod.object.event("plimsoll", "Warning", "Unhealthy", &why).await;
            until = Some(deadline::after(grace.unwrap_or_else(|| self.pod.grace())));
        }
        tokio::select! {
            exit = &mut exit => return exit,
            () = prober.pre_stop() => {}
            () = self.time_is_up(until) => {}
        }
        handle.terminate();
        tokio::select! {
            exit = &mut exit => return exit,
            () = self.time_is_up(until) => {}
        }
        handle.kill();
        exit.await
    }

    /// Waits until the container must be gone: when the pod says so, or at a moment of its own if that is earlier.
    async fn time_is_up(&mut self, own: Option<Instant>) {
        loop {
            let by_pod = *self.stop.borrow_and_update();
            let deadline = own.into_iter().chain(by_pod).min().unwrap_or_else(Instant::now);
            tokio::select! {
                () = tokio::time::sleep_until(deadline) => return,
                // The time may become shorter.
                changed = self.stop.changed() => if changed.is_err() { return },
            }
        }
    }
}

/// Waits until it is time to stop.
pub(super) async fn stopped(stop: &mut Stop) {
    let _ = stop.wait_for(Option::is_some).await;
}
