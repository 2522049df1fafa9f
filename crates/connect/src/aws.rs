//! Requests to AWS: credentials as any AWS client finds them, and signatures of version 4.

mod credentials;
mod sign;

use std::sync::Mutex;
use std::time::Duration;

use process::Clock;
use reqwest::header::{HeaderMap, HeaderValue};

pub(crate) use credentials::{CredentialsError, element};

use self::credentials::{Credentials, Finder};
use crate::connection::ConnectionError;
use crate::endpoint::{Endpoint, EndpointSettings, HttpAnswer};

const WITHIN: Duration = Duration::from_secs(15);

/// A service of AWS in a region.
pub(crate) struct AwsService {
    name: &'static str,
    region: String,
    endpoint: Endpoint,
    clock: Clock,
    finder: Finder,
    known: Mutex<Option<Credentials>>,
}

/// Why a request to AWS failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AwsError {
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
}

impl AwsService {
    /// Names a service. Without a region, that of the environment is used; without an endpoint, AWS's own.
    pub(crate) fn open(
        clock: &Clock,
        name: &'static str,
        region: Option<&str>,
        endpoint: Option<&str>,
    ) -> Result<Self, String> {
        let given = |text: &&str| !text.is_empty();
        let from_environment =
            ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().find_map(|name| std::env::var(name).ok());
        let region = region.filter(given).map(str::to_owned).or(from_environment);
        let region = region.ok_or("region: required, or AWS_REGION in the environment")?;
        let own = format!("https://{name}.{region}.amazonaws.com/");
        let endpoint = endpoint.filter(given).unwrap_or(&own);
        let endpoint = Endpoint::new(endpoint, EndpointSettings::default());
        Ok(Self {
            name,
            region,
            endpoint: endpoint.map_err(|err| format!("endpoint: {err}"))?,
            clock: clock.clone(),
            finder: Finder::from_environment(),
            known: Mutex::default(),
        })
    }

    /// Posts a signed request, and reads the answer with any status.
    pub(crate) async fn post(
        &self,
        headers: &[(&'static str, &'static str)],
        body: String,
    ) -> Result<HttpAnswer, AwsError> {
        let credentials = self.credentials().await?;
        let url = self.endpoint.below(&[]);
        let request = sign::Request { url: &url, headers, body: body.as_bytes() };
        let scope = sign::Scope { region: &self.region, service: self.name, now: self.clock.now() };
        let mut signed = HeaderMap::new();
        for (name, value) in sign::headers(&request, &scope, &credentials) {
            if let Ok(mut value) = HeaderValue::from_str(&value) {
                value.set_sensitive(true);
                signed.insert(name, value);
            }
        }
        let answer = self
            .endpoint
            .send(url.clone(), |client, url| {
                let mut request = client.post(url).timeout(WITHIN).headers(signed);
                for (name, value) in headers {
                    request = request.header(*name, *value);
                }
                request.body(body)
            })
            .await
            .map_err(ConnectionError::from)?;
        if matches!(answer.status.as_u16(), 401 | 403) {
            *self.lock() = None;
        }
        Ok(answer)
    }

    /// Returns the credentials, and finds them again before they expire.
    async fn credentials(&self) -> Result<Credentials, CredentialsError> {
        let now = self.clock.now();
        let known = self.lock().clone();
        if let Some(known) = known.filter(|known| known.are_valid_at(now)) {
            return Ok(known);
        }
        let found = self.finder.find(&self.region, now).await?;
        *self.lock() = Some(found.clone());
        Ok(found)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Credentials>> {
        self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
