//! One run of a container: a process, a program in this one, or a Docker container.

use futures::future::BoxFuture;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::docker::{self, Docker};

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) code: i32,
    pub(crate) signal: Option<i32>,
    pub(crate) message: String,
}

/// A container that runs.
pub(crate) struct Instance {
    /// What names this run.
    pub(crate) id: String,
    /// Ready when it has ended.
    pub(crate) exit: BoxFuture<'static, Exit>,
    pub(crate) handle: Handle,
}

/// How to end it.
pub(crate) enum Handle {
    Process(Pid),
    Program { stop: CancellationToken, task: AbortHandle },
    Docker { docker: Docker, id: String },
}

impl Handle {
    /// Returns the Docker container, if it is one.
    pub(crate) fn docker(&self) -> Option<(Docker, String)> {
        match self {
            Self::Docker { docker, id } => Some((docker.clone(), id.clone())),
            Self::Process(_) | Self::Program { .. } => None,
        }
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        match self {
            Self::Process(group) => drop(kill_process_group(*group, Signal::TERM)),
            Self::Program { stop, .. } => stop.cancel(),
            Self::Docker { docker, id } => docker::signal(docker, id, "SIGTERM"),
        }
    }

    /// Ends it.
    pub(crate) fn kill(&self) {
        match self {
            Self::Process(group) => drop(kill_process_group(*group, Signal::KILL)),
            Self::Program { stop, task } => {
                stop.cancel();
                task.abort();
            }
            Self::Docker { docker, id } => docker::signal(docker, id, "SIGKILL"),
        }
    }
}

/// Whatever happens to the task that watches it, it does not run on.
impl Drop for Handle {
    fn drop(&mut self) {
        self.kill();
    }
}
