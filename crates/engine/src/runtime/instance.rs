//! One run of a container, whatever it is made of.

use bollard::Docker;
use futures::future::BoxFuture;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::docker;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) code: i32,
    pub(super) signal: Option<i32>,
    pub(super) message: String,
}

/// A container that runs.
pub(super) struct Instance {
    /// What names this run.
    pub(super) id: String,
    /// Ready when it has ended.
    pub(super) exit: BoxFuture<'static, Exit>,
    pub(super) handle: Handle,
}

/// How to end it.
pub(super) enum Handle {
    Process(Pid),
    Program { stop: CancellationToken, task: AbortHandle },
    Docker { docker: Docker, id: String },
}

impl Handle {
    /// Asks it to end.
    pub(super) fn terminate(&self) {
        match self {
            Self::Process(group) => drop(kill_process_group(*group, Signal::TERM)),
            Self::Program { stop, .. } => stop.cancel(),
            Self::Docker { docker, id } => docker::signal(docker, id, "SIGTERM"),
        }
    }

    /// Ends it.
    pub(super) fn kill(&self) {
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
