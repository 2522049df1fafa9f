//! Commands, connections and HTTP requests inside a running container, for its probes and hooks and for clients.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Container, ExecAction, HTTPGetAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio_util::task::AbortOnDropHandle;

use crate::child::{ProcessIo, ProcessSpec};
use crate::docker::DockerContainer;
use crate::pod::PodRun;
use crate::streams::{Output, Stdin, Streams, read_pipe, read_terminal, resize_terminal};
use crate::terminal::Terminal;

/// A running container, as its probes and hooks reach it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) pod: Arc<PodRun>,
    pub(crate) container: Container,
    pub(crate) env: BTreeMap<String, String>,
    /// The Docker container that commands run in; `None`: they run next to the process.
    pub(crate) docker: Option<DockerContainer>,
}

impl Target {
    /// Runs a command. It is killed when this is dropped.
    pub(crate) async fn exec(&self, exec: &ExecAction) -> Result<(), String> {
        let command: Vec<String> = exec.command.iter().flatten().cloned().collect();
        if let Some(container) = &self.docker {
            return container.exec(command).await;
        }
        let (child, _) = self.spawn(&command, false, false).await?;
        let output = child.wait_with_output().await.map_err(|err| err.to_string())?;
        if output.status.success() {
            Ok(())
        } else {
            Err(format!("the command ended with {}", output.status))
        }
    }

    /// Starts a command for a client. It is killed with all that it started when this is dropped.
    pub(crate) async fn start_command(
        &self,
        command: Vec<String>,
        has_stdin: bool,
        has_terminal: bool,
    ) -> Result<Streams, String> {
        if let Some(container) = &self.docker {
            return container.start_command(command, has_stdin, has_terminal).await;
        }
        let (mut child, terminal) = self.spawn(&command, has_stdin, has_terminal).await?;
        let output = match &terminal {
            Some(terminal) => read_terminal(terminal.clone()),
            None => {
                let stdout = child.stdout.take().map(|pipe| read_pipe(pipe, Output::Stdout));
                let stderr = child.stderr.take().map(|pipe| read_pipe(pipe, Output::Stderr));
                let pipes = [stdout.map(|s| s.boxed()), stderr.map(|s| s.boxed())];
                futures::stream::select_all(pipes.into_iter().flatten()).boxed()
            }
        };
        let stdin = match &terminal {
            Some(terminal) => has_stdin.then(|| Stdin::Terminal(terminal.clone())),
            None => child.stdin.take().map(Stdin::Pipe),
        };
        let resize = terminal.map(resize_terminal);
        let group = KillOnDrop::new(&child);
        let exit = async move {
            let status = child.wait().await.map_err(|err| err.to_string())?;
            drop(group);
            Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
        };
        Ok(Streams { stdin, output, resize, exit: exit.boxed() })
    }

    /// Starts a command next to the process of the container, and returns it with its terminal.
    async fn spawn(
        &self,
        command: &[String],
        has_stdin: bool,
        has_terminal: bool,
    ) -> Result<(Child, Option<Terminal>), String> {
        let [program, args @ ..] = command else {
            return Err("the command is empty".to_owned());
        };
        let io = ProcessIo::new(has_stdin, has_terminal);
        let (io, terminal) = io.map_err(|err| format!("no terminal: {err}"))?;
        let (env, dir) = (self.env.clone(), self.container.working_dir.clone());
        let process = ProcessSpec { program: program.into(), args: args.to_vec(), env, dir, io };
        let (machine, network) = (&self.pod.machine, &self.pod.network);
        let launcher = &self.pod.local().launcher;
        let child = process.spawn(launcher, &machine.mark, network.spawner()).await;
        Ok((child.map_err(|err| err.to_string())?, terminal))
    }

    /// Connects to a port of the container, by its number or its name.
    pub(crate) async fn connect(&self, port: &IntOrString) -> Result<TcpStream, String> {
        let number = match port {
            IntOrString::Int(number) => Some(*number),
            IntOrString::String(name) => {
                let named =
                    self.container.ports.iter().flatten().find(|p| p.name.as_ref() == Some(name));
                named.map(|port| port.container_port).or_else(|| name.parse().ok())
            }
        };
        let number = number.and_then(|number| u16::try_from(number).ok());
        let number = number.ok_or_else(|| "no such port".to_owned())?;
        self.pod.network.connect_tcp(number).await.map_err(|err| format!("port {number}: {err}"))
    }

    /// Sends a GET request, and returns the status code of the response.
    pub(crate) async fn http_get(
        &self,
        get: &HTTPGetAction,
        user_agent: &str,
    ) -> Result<u16, String> {
        if get.scheme.as_deref() == Some("HTTPS") {
            return Err("HTTPS is not supported".to_owned());
        }
        let stream = self.connect(&get.port).await?;
        let failed = |err: hyper::Error| err.to_string();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
        let mut request = http::Request::get(get.path.as_deref().unwrap_or("/"))
            .header(http::header::HOST, get.host.as_deref().unwrap_or("localhost"))
            .header(http::header::USER_AGENT, user_agent);
        for header in get.http_headers.iter().flatten() {
            request = request.header(&header.name, &header.value);
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(|err| err.to_string())?;
        Ok(sender.send_request(request).await.map_err(failed)?.status().as_u16())
    }
}

/// Kills a process group when it is dropped.
struct KillOnDrop(Option<Pid>);

impl KillOnDrop {
    fn new(leader: &Child) -> Self {
        Self(leader.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
