//! The API of Rancher 1, as the source and the target `rancher` use it.

use std::time::Duration;

use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

use crate::connection::{Connection, ConnectionError, ConnectionSettings, Credentials};
use crate::endpoint::HttpAnswer;
use crate::registry::{Context, read_settings};
use crate::secret::SecretRef;

const WITHIN: Duration = Duration::from_secs(15);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    url: String,
    project: String,
    access_key_from: Option<SecretRef>,
    secret_key_from: Option<SecretRef>,
}

/// A project of a Rancher server.
pub(crate) struct RancherApi {
    connection: Connection,
    project: String,
}

impl RancherApi {
    /// Reads the block `rancher` of a MetricSource. Nothing is sent.
    pub(crate) fn open(context: &Context, settings: &Value) -> Result<Self, String> {
        let Settings { url, project, access_key_from, secret_key_from } = read_settings(settings)?;
        let credentials = match (access_key_from, secret_key_from) {
            (Some(access), Some(secret)) => Credentials::Keys { access, secret },
            (None, None) => Credentials::None,
            (_, _) => {
                return Err("accessKeyFrom and secretKeyFrom must be given together".to_owned());
            }
        };
        let settings = ConnectionSettings { url, credentials, ..Default::default() };
        Ok(Self { connection: Connection::new(context, settings)?, project })
    }

    /// Requests an instance of the project.
    pub(crate) async fn instance(&self, id: &str) -> Result<HttpAnswer, ConnectionError> {
        self.connection.get(&["projects", &self.project, "instances", id], &[]).await
    }

    /// Requests an address that Rancher has returned. Credentials are sent only to the configured server.
    pub(crate) async fn follow(&self, link: &str) -> Result<HttpAnswer, ConnectionError> {
        let base = self.connection.endpoint().await?.below(&[]);
        let wrong =
            |problem: String| ConnectionError::WrongAnswer { address: base.to_string(), problem };
        let url = Url::parse(link).map_err(|err| wrong(format!("the link `{link}`: {err}")))?;
        if url.origin() != base.origin() {
            let problem = format!(
                "the link `{link}`, which is on another server; set its public URL in Rancher"
            );
            return Err(wrong(problem));
        }
        self.connection.send(url, |client, url| client.get(url).timeout(WITHIN)).await
    }

    /// Requests a service, or changes it; the answer has any status.
    pub(crate) async fn service(
        &self,
        id: &str,
        change: Option<&Value>,
    ) -> Result<HttpAnswer, ConnectionError> {
        let endpoint = self.connection.endpoint().await?;
        let url = endpoint.below(&["projects", &self.project, "services", id]);
        self.connection
            .send(url, |client, url| match change {
                None => client.get(url).timeout(WITHIN),
                Some(change) => client.put(url).timeout(WITHIN).json(change),
            })
            .await
    }
}
