//! The HTTP API of Docker Engine, as the source and the target `docker` use it.
//!
//! Objects are kept as JSON, so that a container or service is copied with all its fields, known here or not.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::call::CallError;
use crate::connection::{Connection, ConnectionError, ConnectionSettings};
use crate::endpoint::HttpAnswer;
use crate::registry::{Context, read_settings};
use crate::tls::TlsSettings;

const DEFAULT_HOST: &str = "unix:///var/run/docker.sock";
/// The labels of containers that `docker compose` and swarm mode create.
pub(crate) const PROJECT: &str = "com.docker.compose.project";
pub(crate) const SERVICE: &str = "com.docker.compose.service";
const ONE_OFF: &str = "com.docker.compose.oneoff";
const SWARM_SERVICE: &str = "com.docker.swarm.service.name";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    #[serde(default = "default_host")]
    host: String,
    tls: Option<TlsSettings>,
}

fn default_host() -> String {
    DEFAULT_HOST.to_owned()
}

/// An engine.
pub(crate) struct DockerEngine {
    host: String,
    connection: Connection,
}

impl DockerEngine {
    /// Reads the block `docker` of a MetricSource. Nothing is sent.
    pub(crate) fn open(context: &Context, settings: &Value) -> Result<Self, String> {
        let Settings { host, tls } = read_settings(settings)?;
        let (url, unix_socket) = match host.split_once("://") {
            Some(("unix", path)) if path.starts_with('/') => {
                ("http://docker/".to_owned(), Some(path.into()))
            }
            Some(("tcp", address)) if tls.is_some() => (format!("https://{address}/"), None),
            Some(("tcp", address)) => (format!("http://{address}/"), None),
            Some(("http" | "https", _)) => (host.clone(), None),
            Some(_) | None => {
                return Err(format!("host: `{host}` is not unix:///PATH or tcp://HOST:PORT"));
            }
        };
        let settings = ConnectionSettings { url, tls, unix_socket, ..Default::default() };
        Ok(Self { host, connection: Connection::new(context, settings)? })
    }

    /// Sends a request with a timeout, and reads the answer with any status.
    pub(crate) async fn request(
        &self,
        path: &[&str],
        parameters: &[(&str, &str)],
        within: Duration,
        with: impl FnOnce(&Client, Url) -> RequestBuilder,
    ) -> Result<HttpAnswer, ConnectionError> {
        let mut url = self.connection.endpoint().await?.below(path);
        if !parameters.is_empty() {
            url.query_pairs_mut().extend_pairs(parameters);
        }
        let sent = self.connection.send(url, |client, url| with(client, url).timeout(within)).await;
        sent.map_err(|err| self.unreachable(err))
    }

    /// Names the engine's own address in an error, in place of the one that requests have.
    fn unreachable(&self, error: ConnectionError) -> ConnectionError {
        if let ConnectionError::Call(CallError::Unreachable { source, .. }) = &error
            && source.is_connect()
        {
            let (address, message) = (self.host.clone(), crate::ask::why(source));
            return ConnectionError::Unreachable { address, message };
        }
        error
    }

    /// Requests an object or a list; `None` where the engine does not know it.
    pub(crate) async fn get<T: serde::de::DeserializeOwned>(
        &self,
        path: &[&str],
        parameters: &[(&str, &str)],
    ) -> Result<Option<T>, ConnectionError> {
        let within = Duration::from_secs(15);
        let answer = self.request(path, parameters, within, |client, url| client.get(url)).await?;
        // 409: the container is being removed, or does not run.
        if matches!(answer.status, StatusCode::NOT_FOUND | StatusCode::CONFLICT) {
            return Ok(None);
        }
        answer.success()?.json().map(Some)
    }

    /// Lists the containers of a service; the running ones, or all.
    pub(crate) async fn containers(
        &self,
        of: &api::plimsoll::scaling_policy::Docker,
        all: bool,
    ) -> Result<Vec<ContainerSummary>, ConnectionError> {
        let mut labels = Vec::new();
        if of.swarm {
            labels.push(format!("{SWARM_SERVICE}={}", of.service));
        } else {
            labels.extend(of.project.as_ref().map(|project| format!("{PROJECT}={project}")));
            labels.push(format!("{SERVICE}={}", of.service));
            labels.push(format!("{ONE_OFF}=False"));
        }
        let filters = json!({"label": labels}).to_string();
        let all = if all { "true" } else { "false" };
        let parameters = [("all", all), ("filters", filters.as_str())];
        let found = self.get(&["containers", "json"], &parameters).await?;
        let found: Vec<ContainerSummary> = found.unwrap_or_default();
        let mut projects: Vec<&str> = found.iter().map(|found| found.label(PROJECT)).collect();
        projects.sort_unstable();
        projects.dedup();
        match &projects[..] {
            [first, second, ..] if !of.swarm => Err(ConnectionError::WrongAnswer {
                address: self.host.clone(),
                problem: format!(
                    "a service `{}` in the projects {first} and {second}; set `project`",
                    of.service
                ),
            }),
            _ => Ok(found),
        }
    }
}

/// A container in a list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct ContainerSummary {
    pub(crate) id: String,
    pub(crate) created: i64,
    pub(crate) state: String,
    /// A sentence, with the health in parentheses.
    pub(crate) status: String,
    pub(crate) labels: std::collections::BTreeMap<String, String>,
}

impl ContainerSummary {
    pub(crate) fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}
