//! Requests to AWS: credentials as any AWS client finds them, and signatures of version 4.

pub(crate) mod autoscaling;
mod credentials;
pub(crate) mod ec2;
pub(crate) mod eks;
mod query;
mod sign;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use process::Clock;
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Method, Url};

pub(crate) use self::credentials::CredentialsError;
use self::credentials::{Credentials, Finder};
pub(crate) use self::query::Failure;
use crate::connection::ConnectionError;
use crate::endpoint::{Endpoint, EndpointSettings, HttpAnswer};

const WITHIN: Duration = Duration::from_secs(15);

/// Credentials, which the services of one connection share.
pub(crate) struct AwsAccount {
    clock: Clock,
    finder: Finder,
    known: Mutex<Option<Credentials>>,
}

/// A service of AWS in a region.
pub(crate) struct AwsService {
    name: &'static str,
    region: String,
    endpoint: Endpoint,
    account: Arc<AwsAccount>,
}

/// Why a request to AWS failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AwsError {
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
}

/// Returns the given region, or that of the environment.
pub(crate) fn region(given: Option<&str>) -> Result<String, String> {
    let given = given.filter(|text| !text.is_empty()).map(str::to_owned);
    let from_environment =
        || ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().find_map(|name| std::env::var(name).ok());
    let region = given.or_else(from_environment);
    region.ok_or_else(|| "region: required, or AWS_REGION in the environment".to_owned())
}

impl AwsAccount {
    /// Takes the variables of the process. Nothing is sent.
    pub(crate) fn from_environment(clock: &Clock) -> Arc<Self> {
        let (clock, finder) = (clock.clone(), Finder::from_environment());
        Arc::new(Self { clock, finder, known: Mutex::default() })
    }

    /// Returns the credentials, and finds them again before they expire.
    async fn credentials(&self, region: &str) -> Result<Credentials, CredentialsError> {
        let now = self.clock.now();
        let known = self.lock().clone();
        if let Some(known) = known.filter(|known| known.are_valid_at(now)) {
            return Ok(known);
        }
        let found = self.finder.find(region, now).await?;
        *self.lock() = Some(found.clone());
        Ok(found)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Credentials>> {
        self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl AwsService {
    /// Names a service. Without a region, that of the environment is used; without an endpoint, AWS's own.
    pub(crate) fn open(
        clock: &Clock,
        name: &'static str,
        region: Option<&str>,
        endpoint: Option<&str>,
    ) -> Result<Self, String> {
        let account = AwsAccount::from_environment(clock);
        Self::in_account(&account, name, self::region(region)?, endpoint)
    }

    /// Names a service of an account. Without an endpoint, AWS's own is used.
    pub(crate) fn in_account(
        account: &Arc<AwsAccount>,
        name: &'static str,
        region: String,
        endpoint: Option<&str>,
    ) -> Result<Self, String> {
        let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        let own = format!("https://{name}.{region}.{domain}/");
        let endpoint = endpoint.filter(|text| !text.is_empty()).unwrap_or(&own);
        let endpoint = Endpoint::new(endpoint, EndpointSettings::default());
        let endpoint = endpoint.map_err(|err| format!("endpoint: {err}"))?;
        Ok(Self { name, region, endpoint, account: Arc::clone(account) })
    }

    /// Posts a signed request, and reads the answer with any status.
    pub(crate) async fn post(
        &self,
        headers: &[(&'static str, &'static str)],
        body: String,
    ) -> Result<HttpAnswer, AwsError> {
        self.send(Method::POST, self.endpoint.below(&[]), headers, body).await
    }

    /// Requests a path, signed, and reads the answer with any status.
    pub(crate) async fn get(&self, path: &[&str]) -> Result<HttpAnswer, AwsError> {
        self.send(Method::GET, self.endpoint.below(path), &[], String::new()).await
    }

    async fn send(
        &self,
        method: Method,
        url: Url,
        headers: &[(&'static str, &'static str)],
        body: String,
    ) -> Result<HttpAnswer, AwsError> {
        let credentials = self.account.credentials(&self.region).await?;
        let request = sign::Request { method: &method, url: &url, headers, body: body.as_bytes() };
        let now = self.account.clock.now();
        let scope = sign::Scope { region: &self.region, service: self.name, now };
        let mut signed = HeaderMap::new();
        for (name, value) in sign::headers(&request, &scope, &credentials) {
            if let Ok(mut value) = HeaderValue::from_str(&value) {
                value.set_sensitive(true);
                signed.insert(name, value);
            }
        }
        let answer = self
            .endpoint
            .send(url, |client, url| {
                let mut request = client.request(method, url).timeout(WITHIN).headers(signed);
                for (name, value) in headers {
                    request = request.header(*name, *value);
                }
                request.body(body)
            })
            .await
            .map_err(ConnectionError::from)?;
        if matches!(answer.status.as_u16(), 401 | 403) {
            *self.account.lock() = None;
        }
        Ok(answer)
    }
}
