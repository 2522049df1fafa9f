//! Containers of a Docker Engine, for images that are not mapped to programs of this machine.
//!
//! They use the host's network. A label identifies the process and data directory that started each of them, so that those
//! of an earlier run are found and removed.

mod container;
mod exec;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, HostConfig, Mount, MountType};
use bollard::query_parameters::{
    CreateContainerOptions, CreateImageOptionsBuilder, ListContainersOptionsBuilder,
    StartContainerOptions,
};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Container;

use crate::launch;
use crate::leftovers::Mark;
pub(crate) use container::DockerContainer;

/// The label with the mark of the run that started a container.
const RUN_LABEL: &str = "plimsoll.dev/run";

/// How long a request to Docker may take.
const TIMEOUT_SECONDS: u64 = 120;

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
    pub(crate) mounts: &'a [launch::Mount],
}

impl Engine {
    /// Finds the engine at a socket; `None`: there is none.
    pub(crate) async fn find(socket: &Path, mark: &Mark) -> Option<Self> {
        let socket = socket.to_str()?;
        let docker =
            Docker::connect_with_socket(socket, TIMEOUT_SECONDS, bollard::API_DEFAULT_VERSION);
        let docker = docker.ok()?.negotiate_version().await.ok()?;
        Some(Self { docker, mark: mark.clone() })
    }

    /// Removes the containers of earlier runs on the same data directory.
    pub(crate) async fn remove_leftovers(&self) {
        let filters = HashMap::from([("label".to_owned(), vec![RUN_LABEL.to_owned()])]);
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        for container in self.docker.list_containers(Some(options)).await.unwrap_or_default() {
            let label = container.labels.as_ref().and_then(|labels| labels.get(RUN_LABEL));
            if let (Some(id), Some(left)) = (&container.id, label.and_then(|l| Mark::parse(l)))
                && left.is_from_earlier_run(&self.mark)
            {
                tracing::info!(
                    container = id,
                    "removing a container that an earlier run left behind"
                );
                self.container(id.clone()).remove().await;
            }
        }
    }

    fn container(&self, id: String) -> DockerContainer {
        DockerContainer { docker: self.docker.clone(), id }
    }

    /// Starts a container. An image that is missing is pulled.
    pub(crate) async fn start(&self, start: Start<'_>) -> Result<DockerContainer, Error> {
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
        let container = self.container(created.id);
        let started = self.docker.start_container(&container.id, None::<StartContainerOptions>);
        if let Err(err) = started.await {
            container.remove().await;
            return Err(err);
        }
        Ok(container)
    }

    async fn pull(&self, image: &str) -> Result<(), Error> {
        let options = CreateImageOptionsBuilder::default().from_image(image).build();
        let mut steps = std::pin::pin!(self.docker.create_image(Some(options), None, None));
        while let Some(step) = steps.next().await {
            step?;
        }
        Ok(())
    }
}

fn body(image: &str, start: &Start<'_>, mark: &Mark) -> ContainerCreateBody {
    let non_empty = |list: &[String]| (!list.is_empty()).then(|| list.to_vec());
    ContainerCreateBody {
        image: Some(image.to_owned()),
        entrypoint: non_empty(&start.command),
        cmd: non_empty(&start.args),
        env: Some(start.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        working_dir: start.container.working_dir.clone(),
        labels: Some(HashMap::from([(RUN_LABEL.to_owned(), mark.to_string())])),
        host_config: Some(HostConfig {
            network_mode: Some("host".to_owned()),
            mounts: (!start.mounts.is_empty()).then(|| start.mounts.iter().map(bind).collect()),
            ..HostConfig::default()
        }),
        open_stdin: start.container.stdin,
        stdin_once: start.container.stdin_once,
        tty: start.container.tty,
        ..ContainerCreateBody::default()
    }
}

fn bind(mount: &launch::Mount) -> Mount {
    Mount {
        target: Some(mount.target.to_string_lossy().into_owned()),
        source: Some(mount.source.to_string_lossy().into_owned()),
        typ: Some(MountType::BIND),
        read_only: Some(mount.read_only),
        ..Mount::default()
    }
}
