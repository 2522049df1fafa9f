//! One container of a Docker Engine.

use std::sync::Arc;

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::{
    KillContainerOptions, LogsOptions, RemoveContainerOptionsBuilder, StatsOptionsBuilder,
    WaitContainerOptions,
};
use futures::StreamExt as _;

use super::exec::output_of;
use crate::logs::Log;
use crate::status::Exit;

/// A container that was created.
#[derive(Clone)]
pub(crate) struct DockerContainer {
    pub(super) docker: Docker,
    pub(super) id: String,
}

impl DockerContainer {
    /// Returns its ID as container statuses have it.
    pub(crate) fn id(&self) -> String {
        format!("docker://{}", self.id)
    }

    /// Copies its output to a log, waits for its exit, and removes it.
    pub(crate) async fn exit(self, log: Arc<Log>) -> Exit {
        let ((), exit) = tokio::join!(self.copy_output(&log), self.wait());
        log.end();
        self.remove().await;
        exit
    }

    /// Copies what the container writes until it has ended.
    async fn copy_output(&self, log: &Log) {
        let options =
            LogsOptions { follow: true, stdout: true, stderr: true, ..LogsOptions::default() };
        let mut output = std::pin::pin!(self.docker.logs(&self.id, Some(options)));
        while let Some(Ok(chunk)) = output.next().await {
            if let Some(output) = output_of(chunk) {
                log.write(output);
            }
        }
    }

    async fn wait(&self) -> Exit {
        let options = None::<WaitContainerOptions>;
        let mut waiting = std::pin::pin!(self.docker.wait_container(&self.id, options));
        let code = match waiting.next().await {
            Some(Ok(ended)) => Ok(ended.status_code),
            // The client reports an exit code other than 0 as an error.
            Some(Err(Error::DockerContainerWaitError { code, .. })) => Ok(code),
            Some(Err(err)) => Err(err.to_string()),
            None => Err("Docker sent no answer".to_owned()),
        };
        match code {
            Ok(code) => {
                let code = i32::try_from(code).unwrap_or(255);
                let signal = (code > 128).then_some(code - 128);
                Exit { code, signal, message: String::new() }
            }
            Err(cause) => Exit::failure(255, format!("could not be waited for: {cause}")),
        }
    }

    /// Returns its CPU time in nanoseconds and its memory in bytes, if Docker knows them.
    pub(crate) async fn usage(&self) -> Option<(u64, u64)> {
        let options = StatsOptionsBuilder::default().stream(false).one_shot(true).build();
        let mut stats = std::pin::pin!(self.docker.stats(&self.id, Some(options)));
        let stats = stats.next().await?.ok()?;
        let memory = stats.memory_stats?;
        // Files that were not read for a while are dropped when memory is needed.
        let inactive = memory
            .stats
            .as_ref()
            .and_then(|all| all.get("inactive_file").or_else(|| all.get("total_inactive_file")));
        let used = memory.usage?.saturating_sub(inactive.copied().unwrap_or(0));
        Some((stats.cpu_stats?.cpu_usage?.total_usage?, used))
    }

    /// Removes the container, whether it runs or not.
    pub(super) async fn remove(&self) {
        let options = RemoveContainerOptionsBuilder::default().force(true).build();
        let _ = self.docker.remove_container(&self.id, Some(options)).await;
    }

    /// Sends a signal, in the background.
    pub(crate) fn signal(&self, signal: &'static str) {
        let Self { docker, id } = self.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let options = KillContainerOptions { signal: signal.to_owned() };
                let _ = docker.kill_container(&id, Some(options)).await;
            });
        }
    }
}
