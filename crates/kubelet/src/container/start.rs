//! Starts a container, or reports why it could not be started.

use std::sync::Arc;
use std::time::Duration;

use cluster::EventType;
use tokio_util::sync::CancellationToken;

use super::ContainerRunner;
use crate::child::{self, ProcessIo, ProcessSpec};
use crate::docker;
use crate::env::{Source, Variables, expand};
use crate::instance::{Handle, Instance};
use crate::launch;
use crate::logs::Log;
use crate::pod::PodRun;
use crate::program::ProgramContext;
use crate::resolve::{self, Runner};

/// The delay before an image is pulled for the second time.
const IMAGE_DELAY: Duration = Duration::from_secs(10);

/// Why a container did not start: the reason and message of its waiting state.
pub(super) struct NotStarted {
    reason: &'static str,
    message: String,
}

impl NotStarted {
    pub(super) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// Returns the reason of a container whose pod stopped before it started.
    pub(super) fn stopped() -> Self {
        Self::new("ContainerCreating", "")
    }

    fn is_about_image(&self) -> bool {
        self.reason == "ErrImagePull"
    }

    /// Returns the delay before the second attempt.
    pub(super) fn first_delay(&self, pod: &PodRun) -> Duration {
        if self.is_about_image() { IMAGE_DELAY } else { pod.local().restart_after }
    }
}

impl ContainerRunner {
    /// Reports why the container did not start.
    pub(super) fn report_not_started(&self, not_started: NotStarted, failures: u32) {
        let is_about_image = not_started.is_about_image();
        let NotStarted { reason, message } = not_started;
        let image = self.container.image.as_deref().unwrap_or_default();
        let warn = |note: String| self.event(EventType::Warning, "Failed", note);
        let (reason, message) = if !is_about_image {
            warn(format!("Error: {message}"));
            (reason, message)
        } else if failures < 2 {
            warn(format!("Failed to pull image \"{image}\": {message}"));
            warn("Error: ErrImagePull".to_owned());
            (reason, message)
        } else {
            let note = format!("Back-off pulling image \"{image}\"");
            self.event(EventType::Normal, "BackOff", note.clone());
            warn("Error: ImagePullBackOff".to_owned());
            ("ImagePullBackOff", format!("{note}: ErrImagePull: {message}"))
        };
        self.set(|container| container.wait(reason, message));
        self.pod.publish();
    }

    /// Starts the container, and returns its environment.
    pub(super) async fn start(&self) -> Result<(Instance, Variables), NotStarted> {
        let (pod, local) = (&self.pod, self.pod.local());
        let machine = &pod.machine;
        let source = Source {
            client: &machine.context.client,
            pod: pod.object.latest(),
            host_ip: local.address.to_string(),
            pod_ip: pod.network.pod_ip(local.address).to_string(),
        };
        let env = source.variables(&self.container, pod.network.env(&self.container)).await;
        let mut env = env.map_err(|why| NotStarted::new("CreateContainerConfigError", why))?;
        for (name, value) in source.api_server(pod.network.reaches_cluster_ips()).await {
            env.entry(name).or_insert(value);
        }
        let mounts = self.mounts(&mut env).await?;
        let expand_all = |list: &Option<Vec<String>>| -> Vec<String> {
            list.iter().flatten().map(|text| expand(text, &env)).collect()
        };
        let (command, args) =
            (expand_all(&self.container.command), expand_all(&self.container.args));
        let runner =
            resolve::program(local, &self.container, &command, &args, machine.docker.is_some());
        let runner = runner.map_err(|why| NotStarted::new("ErrImagePull", why))?;
        let clock = machine.context.clock.clone();
        let log = machine.logs.start(&pod.object.entry.uid, &self.container.name, clock);
        let started = match runner {
            Runner::InProcess(program, args) => {
                let context = ProgramContext {
                    pod: Arc::clone(&pod.pod),
                    container: self.container.clone(),
                    env: env.clone(),
                    args,
                    stop: CancellationToken::new(),
                    network: Arc::clone(&pod.network),
                    log,
                };
                Ok(child::in_process(&program, context, &machine.context.random))
            }
            Runner::Docker => {
                let (container, mounts) = (&self.container, &*mounts);
                let start = docker::Start { container, command, args, env: &env, mounts };
                self.start_docker(start, log).await
            }
            Runner::Local(program, args) => {
                let dir = self.container.working_dir.clone();
                let mounts = self.launcher_mounts(mounts).await?;
                env.extend(mounts.map(|mounts| (launch::MOUNTS.to_owned(), mounts)));
                let has_stdin = self.container.stdin == Some(true);
                let has_terminal = has_stdin && self.container.tty == Some(true);
                let failed = |err: std::io::Error| {
                    let why = format!("could not start the program: {err}");
                    NotStarted::new("RunContainerError", why)
                };
                let (io, terminal) = ProcessIo::new(has_stdin, has_terminal).map_err(failed)?;
                let process = ProcessSpec { program, args, env: env.clone(), dir, io };
                let spawned =
                    process.spawn(&local.launcher, &machine.mark, pod.network.spawner()).await;
                spawned.and_then(|child| child::watch(child, terminal, log)).map_err(failed)
            }
        };
        Ok((started?, env))
    }

    /// Starts the container on the Docker Engine.
    async fn start_docker(
        &self,
        start: docker::Start<'_>,
        log: Arc<Log>,
    ) -> Result<Instance, NotStarted> {
        let docker = self.pod.machine.docker.as_ref();
        let docker =
            docker.ok_or_else(|| NotStarted::new("ErrImagePull", "no Docker Engine answers"))?;
        let container = docker.start(start).await.map_err(|err| {
            let why = format!("Docker could not start the image: {err}");
            NotStarted::new("ErrImagePull", why)
        })?;
        Ok(Instance {
            id: container.id(),
            exit: Box::pin(container.clone().exit(log)),
            handle: Handle::Docker(container),
            stdin: None,
        })
    }
}
