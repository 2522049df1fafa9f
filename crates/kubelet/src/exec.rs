//! Commands, connections and HTTP requests inside a running container, for its probes and hooks.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Container, ExecAction, HTTPGetAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

use crate::child::ProcessSpec;
use crate::docker::DockerContainer;
use crate::pod::PodRun;

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
        let [program, args @ ..] = &command[..] else {
            return Err("the command is empty".to_owned());
        };
        let process = ProcessSpec {
            program: program.into(),
            args: args.to_vec(),
            env: self.env.clone(),
            dir: self.container.working_dir.clone(),
        };
        let (machine, network) = (&self.pod.machine, &self.pod.network);
        let launcher = &self.pod.local().launcher;
        let child = process.spawn(launcher, &machine.mark, network.spawner()).await;
        let child = child.map_err(|err| err.to_string())?;
        let output = child.wait_with_output().await.map_err(|err| err.to_string())?;
        if output.status.success() {
            Ok(())
        } else {
            Err(format!("the command ended with {}", output.status))
        }
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
