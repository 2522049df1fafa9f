//! Commands in a container of a Docker Engine, and connections to its own input and output.

use bollard::Docker;
use bollard::container::{AttachContainerResults, LogOutput};
use bollard::errors::Error;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bollard::query_parameters::{
    AttachContainerOptions, ResizeContainerTTYOptions, ResizeExecOptions,
};
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::oneshot;

use super::DockerContainer;
use crate::streams::{Output, Resizer, Stdin, Streams};

/// Returns the output of a container or a command, as Docker sends it.
pub(super) fn output_of(chunk: LogOutput) -> Option<Output> {
    match chunk {
        LogOutput::StdOut { message } | LogOutput::Console { message } => {
            Some(Output::Stdout(message))
        }
        LogOutput::StdErr { message } => Some(Output::Stderr(message)),
        LogOutput::StdIn { .. } => None,
    }
}

impl DockerContainer {
    /// Starts a command in the container. Docker cannot end it before it ends by itself: it only sees the end of its input.
    pub(crate) async fn start_command(
        &self,
        command: Vec<String>,
        has_stdin: bool,
        has_terminal: bool,
    ) -> Result<Streams, String> {
        let failed = |err: Error| err.to_string();
        let options = CreateExecOptions {
            cmd: Some(command),
            attach_stdin: Some(has_stdin),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            tty: Some(has_terminal),
            ..CreateExecOptions::default()
        };
        let exec = self.docker.create_exec(&self.id, options).await.map_err(failed)?;
        let options = StartExecOptions { tty: has_terminal, ..StartExecOptions::default() };
        let started = self.docker.start_exec(&exec.id, Some(options)).await.map_err(failed)?;
        let StartExecResults::Attached { output, input } = started else {
            return Err("Docker did not attach to the command".to_owned());
        };
        let (output, output_ended) = until_end(output);
        let (docker, id) = (self.docker.clone(), exec.id);
        let resize = has_terminal.then(|| resize_command(docker.clone(), id.clone()));
        let exit = async move {
            let _ = output_ended.await;
            let ended = docker.inspect_exec(&id).await.map_err(failed)?;
            let code = ended.exit_code.and_then(|code| i32::try_from(code).ok());
            code.ok_or_else(|| "the command has no exit code".to_owned())
        };
        let stdin = has_stdin.then_some(Stdin::Docker { input, is_once: true });
        Ok(Streams { stdin, output, resize, exit: exit.boxed() })
    }

    /// Connects to the input and output of the container itself; `is_once`: its input ends with the client.
    pub(crate) async fn attach(
        &self,
        has_stdin: bool,
        has_terminal: bool,
        is_once: bool,
    ) -> Result<Streams, String> {
        let options = AttachContainerOptions {
            stream: true,
            stdin: has_stdin,
            stdout: true,
            stderr: true,
            ..AttachContainerOptions::default()
        };
        let attached = self.docker.attach_container(&self.id, Some(options)).await;
        let AttachContainerResults { output, input } = attached.map_err(|err| err.to_string())?;
        let (output, output_ended) = until_end(output);
        let (docker, id) = (self.docker.clone(), self.id.clone());
        let resize = has_terminal.then(|| resize_container(docker, id));
        let exit = output_ended.map(|_| Ok(0));
        let stdin = has_stdin.then_some(Stdin::Docker { input, is_once });
        Ok(Streams { stdin, output, resize, exit: exit.boxed() })
    }

    /// Runs a command in the container, and waits until it has ended.
    pub(crate) async fn exec(&self, command: Vec<String>) -> Result<(), String> {
        let mut started = self.start_command(command, false, false).await?;
        // The output ends when the command does.
        while started.output.next().await.is_some() {}
        drop(started.output);
        match started.exit.await? {
            0 => Ok(()),
            code => Err(format!("the command ended with exit code {code}")),
        }
    }
}

/// Returns the output, and a future that is ready when it has ended and was dropped.
fn until_end(
    output: impl futures::Stream<Item = Result<LogOutput, Error>> + Send + 'static,
) -> (BoxStream<'static, Output>, oneshot::Receiver<()>) {
    let (guard, ended) = oneshot::channel();
    let output = output.filter_map(move |chunk| {
        let _ = &guard;
        std::future::ready(chunk.ok().and_then(output_of))
    });
    (output.boxed(), ended)
}

fn resize_command(docker: Docker, id: String) -> Resizer {
    Box::new(move |size| {
        let (docker, id) = (docker.clone(), id.clone());
        async move {
            let options = ResizeExecOptions { h: size.height.into(), w: size.width.into() };
            docker.resize_exec(&id, options).await.map_err(|err| err.to_string())
        }
        .boxed()
    })
}

fn resize_container(docker: Docker, id: String) -> Resizer {
    Box::new(move |size| {
        let (docker, id) = (docker.clone(), id.clone());
        async move {
            let options = ResizeContainerTTYOptions { h: size.height.into(), w: size.width.into() };
            docker.resize_container_tty(&id, options).await.map_err(|err| err.to_string())
        }
        .boxed()
    })
}
