//! HTTP calls to the URL of an autoscaler: the address, the trusted certificates and the time limit.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api::autoscaling::WebhookConfig;
use reqwest::{Client, ClientBuilder, RequestBuilder, Response, StatusCode, Url};

use crate::services::ServiceResolver;
use crate::trust::{TrustError, TrustStore};

/// How long a call may take, from the first packet to the last byte.
pub(crate) const WITHIN: Duration = Duration::from_secs(15);
/// How many sets of trusted certificates have connections of their own.
const CLIENTS: usize = 64;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The URL is invalid.
    #[error("`{url}` cannot be called: expected http:// or https:// and a host")]
    Address {
        /// The given URL.
        url: String,
    },
    /// The given CA bundle holds no usable certificate.
    #[error("caBundle holds no certificate that can be used")]
    Roots(#[source] TrustError),
    /// TLS rejected the settings.
    #[error("could not set up TLS")]
    Tls(#[source] reqwest::Error),
    /// The system has no certificates to trust.
    #[error("the certificates of this system cannot be read; set `caBundle`")]
    SystemRoots(#[source] reqwest::Error),
    /// The connection failed.
    #[error("could not reach {url}{hint}")]
    Unreachable {
        /// The called URL.
        url: Url,
        /// A hint for the user.
        hint: &'static str,
        /// The error.
        source: reqwest::Error,
    },
    /// The Service cannot be called.
    #[error("could not call {url}: {problem}")]
    Service {
        /// The called URL.
        url: Url,
        /// The problem.
        problem: String,
    },
    /// The answer did not come in time.
    #[error("{url} did not answer within 15 s")]
    Slow {
        /// The called URL.
        url: Url,
    },
    /// The status of the answer is not 200.
    #[error("{url} answered {status}; expected 200")]
    Status {
        /// The called URL.
        url: Url,
        /// The status of the answer.
        status: StatusCode,
    },
    /// The answer is too large.
    #[error("{url} answered more than {limit} bytes")]
    TooLarge {
        /// The called URL.
        url: Url,
        /// The limit.
        limit: usize,
    },
    /// The answer does not have the expected form.
    #[error("{url} did not answer with a FleetAutoscaleReview: {problem}")]
    NotAReview {
        /// The called URL.
        url: Url,
        /// What was found instead.
        problem: String,
    },
}

/// Clients by the certificates they trust, so that their connections are kept and never shared with another trust.
#[derive(Default)]
pub(crate) struct Callers {
    clients: Mutex<HashMap<Vec<u8>, Client>>,
    services: Option<ServiceResolver>,
}

/// Where the host of a URL is reached instead of asking DNS.
#[derive(Clone, Copy)]
struct Override<'a> {
    host: &'a str,
    address: SocketAddr,
}

impl Callers {
    /// Resolves the names of Services through the API.
    pub(crate) fn resolving_services(client: kube::Client) -> Self {
        Self { services: Some(ServiceResolver::new(client)), ..Self::default() }
    }

    /// Calls an address and reads the whole answer, of at most `limit` bytes.
    pub(crate) async fn call(
        &self,
        config: &WebhookConfig,
        limit: usize,
        with: impl FnOnce(&Client, Url) -> RequestBuilder,
    ) -> Result<Vec<u8>, CallError> {
        let url = url(config)?;
        let address = match &self.services {
            Some(services) => services.resolve(&url).await?,
            None => None,
        };
        let host = url.host_str().unwrap_or_default();
        let client =
            self.client(config, &url, address.map(|address| Override { host, address }))?;
        let mut called = url.clone();
        if let Some(address) = address {
            // It fails only for URLs that cannot have a port.
            let _ = called.set_port(Some(address.port()));
        }
        let answer = with(&client, called).timeout(WITHIN).send().await;
        let answer = answer.map_err(|err| failed(&url, err))?;
        if answer.status() != StatusCode::OK {
            return Err(CallError::Status { url, status: answer.status() });
        }
        read(answer, url, limit).await
    }

    fn client(
        &self,
        config: &WebhookConfig,
        url: &Url,
        service: Option<Override<'_>>,
    ) -> Result<Client, CallError> {
        let bundle = config.ca_bundle.as_ref().map(|bundle| bundle.0.as_slice());
        // Without TLS the certificates of the system are not loaded.
        let mut key = match (bundle, url.scheme()) {
            (Some(bundle), _) => bundle.to_vec(),
            (None, scheme) => scheme.as_bytes().to_vec(),
        };
        if let Some(Override { host, address }) = service {
            key.extend_from_slice(format!("\n{host}={address}").as_bytes());
        }
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let client = client(bundle, url, service)?;
        if clients.len() >= CLIENTS {
            clients.clear();
        }
        clients.insert(key, client.clone());
        Ok(client)
    }
}

fn client(
    bundle: Option<&[u8]>,
    url: &Url,
    service: Option<Override<'_>>,
) -> Result<Client, CallError> {
    let mut builder = client_builder(bundle, url)?;
    if let Some(Override { host, address }) = service {
        builder = builder.resolve(host, address).no_proxy();
    }
    let client = builder.build();
    client.map_err(if bundle.is_some() { CallError::Tls } else { CallError::SystemRoots })
}

/// Sets up a client that trusts the certificates of `bundle`, or those of the system.
pub(crate) fn client_builder(bundle: Option<&[u8]>, url: &Url) -> Result<ClientBuilder, CallError> {
    // It fails if a provider is installed already, and any provider will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder().user_agent(concat!("plimsoll/", env!("CARGO_PKG_VERSION")));
    match bundle {
        Some(pem) => {
            let trust = TrustStore::from_pem(pem).map_err(CallError::Roots)?;
            let tls = trust.client_config().map_err(CallError::Roots)?;
            Ok(builder.tls_backend_preconfigured(tls))
        }
        None if url.scheme() == "http" => Ok(builder.tls_certs_only([])),
        None => Ok(builder),
    }
}

/// Finds the URL: as given, or that of the service, by TLS when there are certificates to check it with.
pub(crate) fn url(config: &WebhookConfig) -> Result<Url, CallError> {
    let text = match (&config.url, &config.service) {
        (Some(url), _) => url.clone(),
        (None, Some(service)) => {
            let scheme = if config.ca_bundle.is_some() { "https" } else { "http" };
            let namespace = match service.namespace.as_str() {
                "" => "default",
                given => given,
            };
            let (name, port) = (&service.name, service.port.unwrap_or(8000));
            let path = service.path.as_deref().unwrap_or_default().trim_start_matches('/');
            format!("{scheme}://{name}.{namespace}.svc:{port}/{path}")
        }
        (None, None) => String::new(),
    };
    parse_url(&text)
}

/// Reads an address that can be called.
pub(crate) fn parse_url(text: &str) -> Result<Url, CallError> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        Ok(_) | Err(_) => Err(CallError::Address { url: text.to_owned() }),
    }
}

/// Names the cause of a call without an answer.
pub(crate) fn failed(url: &Url, source: reqwest::Error) -> CallError {
    if source.is_timeout() {
        return CallError::Slow { url: url.clone() };
    }
    let is_service = url.host_str().is_some_and(|host| host.ends_with(".svc"));
    let hint = if is_service && source.is_connect() {
        " (the name of a service is known only inside its cluster; elsewhere set `url`)"
    } else {
        ""
    };
    CallError::Unreachable { url: url.clone(), hint, source: source.without_url() }
}

/// Reads an answer of at most `limit` bytes.
pub(crate) async fn read(
    mut answer: Response,
    url: Url,
    limit: usize,
) -> Result<Vec<u8>, CallError> {
    let mut body = Vec::new();
    loop {
        match answer.chunk().await {
            Ok(Some(part)) if body.len() + part.len() <= limit => body.extend_from_slice(&part),
            Ok(Some(_)) => return Err(CallError::TooLarge { url, limit }),
            Ok(None) => return Ok(body),
            Err(err) => return Err(failed(&url, err)),
        }
    }
}

#[cfg(test)]
mod tests {
    use api::autoscaling::ServiceReference;
    use k8s_openapi::ByteString;

    use super::*;

    fn service(namespace: &str, path: Option<&str>, port: Option<i32>) -> WebhookConfig {
        let path = path.map(str::to_owned);
        let (namespace, name) = (namespace.to_owned(), "sizer".to_owned());
        WebhookConfig {
            service: Some(ServiceReference { namespace, name, path, port }),
            ..Default::default()
        }
    }

    #[test]
    fn a_service_is_called_by_its_name_and_by_tls_when_it_can_be_checked() {
        let mut secured = service("games", Some("/scale"), Some(443));
        secured.ca_bundle = Some(ByteString(b"pem".to_vec()));
        for (config, wanted) in [
            (service("", None, None), "http://sizer.default.svc:8000/"),
            (service("games", Some("scale/it"), Some(80)), "http://sizer.games.svc/scale/it"),
            (secured, "https://sizer.games.svc/scale"),
        ] {
            assert_eq!(url(&config).unwrap().as_str(), wanted);
        }
    }

    #[test]
    fn invalid_addresses_are_rejected() {
        for text in ["", "sizer", "ftp://sizer/", "http://", "/scale"] {
            let config = WebhookConfig { url: Some(text.to_owned()), ..Default::default() };
            let problem = url(&config).unwrap_err().to_string();
            assert!(problem.contains("expected http:// or https:// and a host"), "{text}");
        }
    }
}
