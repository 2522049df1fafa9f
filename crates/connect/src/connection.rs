//! A connection to an HTTP system whose credentials are in Secrets.
//!
//! The Secrets are read before the first request, again after a minute, and at once after the system refused them, so that a
//! credential can be replaced while the process runs.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use process::Clock;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde::Deserialize;

use crate::call::{self, CallError};
use crate::endpoint::{Endpoint, EndpointSettings, HttpAnswer};
use crate::registry::Context;
use crate::secret::{SecretError, SecretRef};
use crate::services::ServiceResolver;
use crate::tls::{TlsError, TlsSettings};

/// How long credentials are used before they are read again.
const KEEP_FOR: SignedDuration = SignedDuration::from_secs(60);

/// The block `basicAuth` of a source.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BasicAuth {
    username: String,
    password_from: Option<SecretRef>,
}

/// Why a system did not answer, whatever the protocol. Credentials are never part of a message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The request failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The system could not be reached, or the connection failed.
    #[error("could not reach {address}: {message}")]
    Unreachable {
        /// The address of the system.
        address: String,
        /// The cause.
        message: String,
    },
    /// The system refused the credentials.
    #[error("{address} refused the credentials: {message}")]
    Unauthorized {
        /// The address of the system.
        address: String,
        /// The message of the system.
        message: String,
    },
    /// The answer cannot be read.
    #[error("{address} answered with {problem}")]
    WrongAnswer {
        /// The address of the system.
        address: String,
        /// What was found, and what was expected.
        problem: String,
    },
    /// A credential could not be read.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The TLS settings cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl ConnectionError {
    /// Returns whether the request was certainly not sent.
    pub(crate) fn is_before_sending(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Secret(_) | Self::Tls(_) => true,
            Self::Call(CallError::Unreachable { source, .. }) => source.is_connect(),
            Self::Call(
                CallError::Address { .. }
                | CallError::Roots(_)
                | CallError::Tls(_)
                | CallError::SystemRoots(_)
                | CallError::Service { .. },
            ) => true,
            Self::Call(_) | Self::Unauthorized { .. } | Self::WrongAnswer { .. } => false,
        }
    }
}

/// How requests are authenticated.
#[derive(Clone, Debug, Default)]
pub(crate) enum Credentials {
    #[default]
    None,
    Basic(BasicAuth),
    Bearer(SecretRef),
    /// The token is the value of a header.
    Header(HeaderName, SecretRef),
    /// User name and password are both secret.
    Keys {
        access: SecretRef,
        secret: SecretRef,
    },
}

/// The settings of a connection.
#[derive(Default)]
pub(crate) struct ConnectionSettings {
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
    pub(crate) credentials: Credentials,
    pub(crate) tls: Option<TlsSettings>,
    /// The socket to connect to, whatever host the address names.
    pub(crate) unix_socket: Option<PathBuf>,
}

/// An HTTP system, and the open connections to it.
pub(crate) struct Connection {
    client: kube::Client,
    clock: Clock,
    settings: ConnectionSettings,
    services: Option<ServiceResolver>,
    opened: Mutex<Option<(Timestamp, Arc<Endpoint>)>>,
}

impl Connection {
    /// Checks the settings. Nothing is sent.
    pub(crate) fn new(context: &Context, settings: ConnectionSettings) -> Result<Self, String> {
        call::parse_url(&settings.url).map_err(|err| format!("url: {err}"))?;
        if let Some(tls) = &settings.tls {
            tls.check()?;
        }
        let (client, clock) = (context.client.clone(), context.clock.clone());
        let services = context.services().filter(|_| settings.unix_socket.is_none());
        Ok(Self { client, clock, settings, services, opened: Mutex::default() })
    }

    /// Requests a path below the address, with parameters.
    pub(crate) async fn get(
        &self,
        path: &[&str],
        parameters: &[(&str, &str)],
    ) -> Result<HttpAnswer, ConnectionError> {
        let endpoint = self.endpoint().await?;
        let mut url = endpoint.below(path);
        if !parameters.is_empty() {
            url.query_pairs_mut().extend_pairs(parameters);
        }
        self.send(url, |client, url| client.get(url)).await
    }

    /// Sends a request, and reads the answer with any status.
    pub(crate) async fn send(
        &self,
        url: Url,
        with: impl FnOnce(&Client, Url) -> RequestBuilder,
    ) -> Result<HttpAnswer, ConnectionError> {
        let answer = self.endpoint().await?.send(url, with).await?;
        if matches!(answer.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        Ok(answer)
    }

    /// Returns the endpoint, with credentials that were read within the last minute.
    pub(crate) async fn endpoint(&self) -> Result<Arc<Endpoint>, ConnectionError> {
        let now = self.clock.now();
        if let Some((at, endpoint)) = &*self.opened.lock().unwrap_or_else(PoisonError::into_inner)
            && (!self.has_secrets() || now.duration_since(*at) < KEEP_FOR)
        {
            return Ok(Arc::clone(endpoint));
        }
        let endpoint = Arc::new(self.open().await?);
        let opened = Some((now, Arc::clone(&endpoint)));
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = opened;
        Ok(endpoint)
    }

    async fn open(&self) -> Result<Endpoint, ConnectionError> {
        let mut headers = HeaderMap::new();
        if let Some((name, value)) = self.credentials().await? {
            headers.insert(name, value);
        }
        headers.extend(self.settings.headers.clone());
        let tls = match &self.settings.tls {
            Some(tls) => Some(tls.client_config(&self.client).await?),
            None => None,
        };
        let (unix_socket, services) = (self.settings.unix_socket.clone(), self.services.clone());
        let settings = EndpointSettings { headers, tls, unix_socket, services };
        Ok(Endpoint::new(&self.settings.url, settings)?)
    }

    async fn credentials(&self) -> Result<Option<(HeaderName, HeaderValue)>, SecretError> {
        let client = &self.client;
        let basic = |user: &str, password: &str| {
            format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
        };
        let (name, value, from) = match &self.settings.credentials {
            Credentials::None => return Ok(None),
            Credentials::Basic(BasicAuth { username, password_from }) => {
                let password = match password_from {
                    Some(from) => from.read_text(client).await?,
                    None => String::new(),
                };
                (AUTHORIZATION, basic(username, &password), password_from.as_ref())
            }
            Credentials::Bearer(from) => {
                (AUTHORIZATION, format!("Bearer {}", from.read_text(client).await?), Some(from))
            }
            Credentials::Header(name, from) => {
                (name.clone(), from.read_text(client).await?, Some(from))
            }
            Credentials::Keys { access, secret } => {
                let (user, password) =
                    (access.read_text(client).await?, secret.read_text(client).await?);
                (AUTHORIZATION, basic(&user, &password), Some(secret))
            }
        };
        let value = match (HeaderValue::from_str(&value), from) {
            (Ok(mut value), _) => {
                value.set_sensitive(true);
                value
            }
            (Err(_), Some(from)) => return Err(from.error("expected printable ASCII")),
            // A user name without a password: base64 is always printable.
            (Err(_), None) => return Ok(None),
        };
        Ok(Some((name, value)))
    }

    fn has_secrets(&self) -> bool {
        self.settings.tls.is_some() || !matches!(self.settings.credentials, Credentials::None)
    }
}

impl HttpAnswer {
    /// Returns an answer with status 200, and an error for any other.
    pub(crate) fn success(self) -> Result<Self, ConnectionError> {
        if self.status == StatusCode::OK { Ok(self) } else { Err(self.error()) }
    }

    /// Returns the error that the status stands for.
    pub(crate) fn error(&self) -> ConnectionError {
        let (url, status) = (self.url.clone(), self.status);
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let (address, message) = (url.to_string(), status.to_string());
            return ConnectionError::Unauthorized { address, message };
        }
        CallError::Status { url, status }.into()
    }

    /// Reads the body as JSON.
    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, ConnectionError> {
        serde_json::from_slice(&self.body).map_err(|err| ConnectionError::WrongAnswer {
            address: self.url.to_string(),
            problem: format!("something unexpected: {err}"),
        })
    }
}
