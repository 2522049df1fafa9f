//! One run of a container: a process, a program in this one, or a Docker container.

use futures::future::BoxFuture;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::docker::DockerContainer;
use crate::status::Exit;
use crate::streams::Stdin;

/// A container that runs.
pub(crate) struct Instance {
    /// Identifies this run.
    pub(crate) id: String,
    /// Ready when the run has ended.
    pub(crate) exit: BoxFuture<'static, Exit>,
    pub(crate) handle: Handle,
    /// The input of a process that has one.
    pub(crate) stdin: Option<Stdin>,
}

/// Stops a run of a container, at the latest when it is dropped: nothing runs on without the task that watches it.
pub(crate) enum Handle {
    Process(Pid),
    Program { stop: CancellationToken, task: AbortHandle },
    Docker(DockerContainer),
}

impl Handle {
    /// Returns the Docker container, if it is one.
    pub(crate) fn docker(&self) -> Option<&DockerContainer> {
        match self {
            Self::Docker(container) => Some(container),
            Self::Process(_) | Self::Program { .. } => None,
        }
    }

    /// Asks the container to terminate.
    pub(crate) fn terminate(&self) {
        match self {
            Self::Process(group) => signal(*group, Signal::TERM),
            Self::Program { stop, .. } => stop.cancel(),
            Self::Docker(container) => container.signal("SIGTERM"),
        }
    }

    /// Kills the container.
    pub(crate) fn kill(&self) {
        match self {
            Self::Process(group) => signal(*group, Signal::KILL),
            Self::Program { stop, task } => {
                stop.cancel();
                task.abort();
            }
            Self::Docker(container) => container.signal("SIGKILL"),
        }
    }
}

/// Signals the process group of a process; a process that has none yet gets the signal alone.
fn signal(process: Pid, signal: Signal) {
    if kill_process_group(process, signal) == Err(Errno::SRCH) {
        let _ = kill_process(process, signal);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.kill();
    }
}
