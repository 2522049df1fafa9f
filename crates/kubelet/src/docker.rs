//! Containers of a Docker Engine, for images that are no programs of this machine.
//!
//! They use the host's network. Each carries a label that says which process on which data directory started it, so that
//! what an earlier run left is found and removed.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

pub(crate) use bollard::Docker;
use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::{CreateExecOptions, StartExecResults};
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    CreateContainerOptions, CreateImageOptionsBuilder, KillContainerOptions,
    ListContainersOptionsBuilder, LogsOptions, RemoveContainerOptionsBuilder,
    StartContainerOptions, WaitContainerOptions,
};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Container;

use crate::instance::{Exit, Handle, Instance};
use crate::leftovers::Mark;
use crate::logs::Log;

/// The label with the mark of the run that started a container.
const RUN_LABEL: &str = "plimsoll.dev/run";

/// How long an answer of Docker may take.
const SECONDS: u64 = 120;

/// A Docker Engine that answers.
#[derive(Clone)]
pub(crate) struct Engine {
    docker: Docker,
    mark: Mark,
}

/// What a container is started with.
pub(crate) struct Start<'a> {
    pub(crate) container: &'a Container,
    pub(crate) command: Vec<String>,
    pub(crate) args: Vec<String>,
    pub(crate) env: &'a BTreeMap<String, String>,
}

impl Engine {
    /// Finds the engine at a socket; `None`: there is none.
    pub(crate) async fn find(socket: &Path, mark: &Mark) -> Option<Self> {
        let socket = socket.to_str()?;
        let docker = Docker::connect_with_socket(socket, SECONDS, bollard::API_DEFAULT_VERSION);
        let docker = docker.ok()?.negotiate_version().await.ok()?;
        Some(Self { docker, mark: mark.clone() })
    }

    /// Removes what earlier runs on the same data directory have left.
    pub(crate) async fn remove_leftovers(&self) {
        let filters = HashMap::from([("label".to_owned(), vec![RUN_LABEL.to_owned()])]);
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        for container in self.docker.list_containers(Some(options)).await.unwrap_or_default() {
            let label = container.labels.as_ref().and_then(|labels| labels.get(RUN_LABEL));
            if let (Some(id), Some(left)) = (&container.id, label.and_then(|l| Mark::parse(l)))
                && left.is_of_an_earlier_run(&self.mark)
            {
                tracing::info!(
                    container = id,
                    "removing a container that an earlier run left behind"
                );
                remove(&self.docker, id).await;
            }
        }
    }

    /// Starts a container; an image that is not there is pulled.
    pub(crate) async fn start(&self, start: Start<'_>, log: Arc<Log>) -> Result<Instance, Error> {
        let image = start.container.image.clone().unwrap_or_default();
        let body = body(&image, &start, &self.mark);
        let options = None::<CreateContainerOptions>;
        let created = match self.docker.create_container(options.clone(), body.clone()).await {
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => {
                self.pull(&image).await?;
                self.docker.create_container(options, body).await?
            }
            created => created?,
        };
        if let Err(err) =
            self.docker.start_container(&created.id, None::<StartContainerOptions>).await
        {
            remove(&self.docker, &created.id).await;
            return Err(err);
        }
        Ok(self.watch(created.id, log))
    }

    async fn pull(&self, image: &str) -> Result<(), Error> {
        let options = CreateImageOptionsBuilder::default().from_image(image).build();
        let mut steps = std::pin::pin!(self.docker.create_image(Some(options), None, None));
        while let Some(step) = steps.next().await {
            step?;
        }
        Ok(())
    }

    /// Looks after a container that was started.
    fn watch(&self, id: String, log: Arc<Log>) -> Instance {
        let (docker, of_exit) = (self.docker.clone(), id.clone());
        let exit = async move {
            let following = follow(&docker, &of_exit, &log);
            let waiting = wait(&docker, &of_exit);
            let ((), exit) = tokio::join!(following, waiting);
            log.end();
            remove(&docker, &of_exit).await;
            exit
        };
        let handle = Handle::Docker { docker: self.docker.clone(), id: id.clone() };
        Instance { id: format!("docker://{id}"), exit: Box::pin(exit), handle }
    }
}

fn body(image: &str, start: &Start<'_>, mark: &Mark) -> ContainerCreateBody {
    let given = |list: &[String]| (!list.is_empty()).then(|| list.to_vec());
    ContainerCreateBody {
        image: Some(image.to_owned()),
        entrypoint: given(&start.command),
        cmd: given(&start.args),
        env: Some(start.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        working_dir: start.container.working_dir.clone(),
        labels: Some(HashMap::from([(RUN_LABEL.to_owned(), mark.to_string())])),
        host_config: Some(HostConfig {
            network_mode: Some("host".to_owned()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

/// Copies what the container writes until it has ended.
async fn follow(docker: &Docker, id: &str, log: &Log) {
    let options =
        LogsOptions { follow: true, stdout: true, stderr: true, ..LogsOptions::default() };
    let mut output = std::pin::pin!(docker.logs(id, Some(options)));
    while let Some(Ok(chunk)) = output.next().await {
        if let LogOutput::StdOut { message }
        | LogOutput::StdErr { message }
        | LogOutput::Console { message } = chunk
        {
            log.write(message);
        }
    }
}

async fn wait(docker: &Docker, id: &str) -> Exit {
    let mut waiting = std::pin::pin!(docker.wait_container(id, None::<WaitContainerOptions>));
    let code = match waiting.next().await {
        Some(Ok(ended)) => Ok(ended.status_code),
        // An exit code other than 0 is an error to the client.
        Some(Err(Error::DockerContainerWaitError { code, .. })) => Ok(code),
        Some(Err(err)) => Err(err.to_string()),
        None => Err("Docker said nothing".to_owned()),
    };
    match code {
        Ok(code) => {
            let code = i32::try_from(code).unwrap_or(255);
            Exit { code, signal: (code > 128).then_some(code - 128), message: String::new() }
        }
        Err(why) => {
            Exit { code: 255, signal: None, message: format!("could not be waited for: {why}") }
        }
    }
}

async fn remove(docker: &Docker, id: &str) {
    let options = RemoveContainerOptionsBuilder::default().force(true).build();
    let _ = docker.remove_container(id, Some(options)).await;
}

/// Sends a signal to a container, behind the caller's back.
pub(crate) fn signal(docker: &Docker, id: &str, signal: &'static str) {
    let (docker, id) = (docker.clone(), id.to_owned());
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move {
            let options = KillContainerOptions { signal: signal.to_owned() };
            let _ = docker.kill_container(&id, Some(options)).await;
        });
    }
}

/// Runs a command in a container, and waits for its end.
pub(crate) async fn exec(docker: &Docker, id: &str, command: Vec<String>) -> Result<(), String> {
    let failed = |err: Error| err.to_string();
    let options = CreateExecOptions {
        cmd: Some(command),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        ..CreateExecOptions::default()
    };
    let exec = docker.create_exec(id, options).await.map_err(failed)?;
    if let StartExecResults::Attached { mut output, .. } =
        docker.start_exec(&exec.id, None).await.map_err(failed)?
    {
        // Its end is the end of the command.
        while let Some(Ok(_)) = output.next().await {}
    }
    match docker.inspect_exec(&exec.id).await.map_err(failed)?.exit_code {
        Some(0) => Ok(()),
        Some(code) => Err(format!("the command ended with exit code {code}")),
        None => Err("the command has no exit code".to_owned()),
    }
}
