//! The HTTP API of Nomad, as the source and the target `nomad` use it.

use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::connection::{Connection, ConnectionError, ConnectionSettings, Credentials};
use crate::endpoint::HttpAnswer;
use crate::registry::{Context, read_settings};
use crate::secret::SecretRef;
use crate::tls::TlsSettings;

const TOKEN: HeaderName = HeaderName::from_static("x-nomad-token");
const WITHIN: Duration = Duration::from_secs(15);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    address: String,
    #[serde(default)]
    region: String,
    #[serde(default)]
    namespace: String,
    token_from: Option<SecretRef>,
    tls: Option<TlsSettings>,
}

/// A Nomad server.
pub(crate) struct NomadApi {
    connection: Connection,
    region: String,
    /// The namespace of jobs that name none.
    namespace: String,
}

impl NomadApi {
    /// Reads the block `nomad` of a MetricSource. Nothing is sent.
    pub(crate) fn open(context: &Context, settings: &Value) -> Result<Self, String> {
        let Settings { address, region, namespace, token_from, tls } = read_settings(settings)?;
        let credentials =
            token_from.map_or(Credentials::None, |from| Credentials::Header(TOKEN, from));
        let settings = ConnectionSettings { url: address, credentials, tls, ..Default::default() };
        let connection = Connection::new(context, settings);
        let connection = connection.map_err(|problem| problem.replacen("url: ", "address: ", 1))?;
        Ok(Self { connection, region, namespace })
    }

    /// Requests an object; `None` where Nomad has none.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        namespace: Option<&str>,
    ) -> Result<Option<T>, ConnectionError> {
        let answer = self.send(path, namespace, None).await?;
        if answer.status == reqwest::StatusCode::NOT_FOUND {
            return Ok(None);
        }
        answer.success()?.json().map(Some)
    }

    /// Requests a path, or sends a body to it, and reads the answer with any status.
    pub(crate) async fn send(
        &self,
        path: &[&str],
        namespace: Option<&str>,
        body: Option<&Value>,
    ) -> Result<HttpAnswer, ConnectionError> {
        let mut url = self.connection.endpoint().await?.below(path);
        let namespace = namespace.unwrap_or(&self.namespace);
        let parameters = [("region", self.region.as_str()), ("namespace", namespace)];
        let given = parameters.into_iter().filter(|(_, value)| !value.is_empty());
        url.query_pairs_mut().extend_pairs(given);
        let json = HeaderValue::from_static("application/json");
        self.connection
            .send(url, |client, url| match body {
                None => client.get(url).timeout(WITHIN),
                Some(body) => {
                    let request = client.put(url).timeout(WITHIN);
                    request.header(reqwest::header::CONTENT_TYPE, json).body(body.to_string())
                }
            })
            .await
    }
}
