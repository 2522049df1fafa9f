//! The HTTP address of an outside system: requests with a limit on the answer, and no redirects.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use rustls::ClientConfig;

use crate::call::{self, CallError};
use crate::services::ServiceResolver;

/// The largest answer that is read.
const LARGEST_ANSWER: usize = 4 << 20;

/// An address, and the connections to it.
pub(crate) struct Endpoint {
    client: Client,
    url: Url,
    settings: EndpointSettings,
    /// The client for the local address of a Service, which changes when the Service is created again.
    by_service: Mutex<Option<(SocketAddr, Client)>>,
}

/// How an address is called.
#[derive(Default)]
pub(crate) struct EndpointSettings {
    /// Headers of each request.
    pub(crate) headers: HeaderMap,
    /// TLS settings other than those of the system.
    pub(crate) tls: Option<ClientConfig>,
    /// The socket to connect to, whatever host the address names.
    pub(crate) unix_socket: Option<PathBuf>,
    /// Resolves the names of Services; `None`: DNS alone does.
    pub(crate) services: Option<ServiceResolver>,
}

/// An answer, with any status.
pub(crate) struct HttpAnswer {
    /// The address without credentials, for messages.
    pub(crate) url: Url,
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
}

impl Endpoint {
    /// Reads an address. Nothing is sent.
    pub(crate) fn new(url: &str, settings: EndpointSettings) -> Result<Self, CallError> {
        let url = call::parse_url(url)?;
        let client = settings.client(&url, None)?;
        Ok(Self { client, url, settings, by_service: Mutex::default() })
    }

    /// Returns the address with a path below it.
    pub(crate) fn below(&self, path: &[&str]) -> Url {
        let mut url = self.url.clone();
        // An http address always has path segments.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    /// Requests the address itself.
    pub(crate) async fn get(&self) -> Result<HttpAnswer, CallError> {
        self.get_from(self.url.clone()).await
    }

    /// Requests an address below this one.
    pub(crate) async fn get_from(&self, url: Url) -> Result<HttpAnswer, CallError> {
        self.send(url, |client, url| client.get(url)).await
    }

    /// Sends a request, and reads the answer with any status.
    pub(crate) async fn send(
        &self,
        url: Url,
        with: impl FnOnce(&Client, Url) -> RequestBuilder,
    ) -> Result<HttpAnswer, CallError> {
        let shown = without_credentials(url.clone());
        let (client, url) = self.route(url, &shown).await?;
        let answer = with(&client, url).send().await.map_err(|err| call::failed(&shown, err))?;
        let status = answer.status();
        let body = call::read(answer, shown.clone(), LARGEST_ANSWER).await?;
        Ok(HttpAnswer { url: shown, status, body })
    }

    /// Returns the client and the address for a request. A Service is called at its local address.
    async fn route(&self, mut url: Url, shown: &Url) -> Result<(Client, Url), CallError> {
        let address = match &self.settings.services {
            Some(services) => services.resolve(shown).await?,
            None => None,
        };
        let Some(address) = address else { return Ok((self.client.clone(), url)) };
        let client = self.client_of_service(&url, address)?;
        // It fails only for URLs that cannot have a port.
        let _ = url.set_port(Some(address.port()));
        Ok((client, url))
    }

    fn client_of_service(&self, url: &Url, address: SocketAddr) -> Result<Client, CallError> {
        let mut known = self.by_service.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, client)) = &*known
            && *of == address
        {
            return Ok(client.clone());
        }
        let client = self.settings.client(url, Some(address))?;
        *known = Some((address, client.clone()));
        Ok(client)
    }
}

impl EndpointSettings {
    /// Returns a client, which connects to `address` in place of that of the host.
    fn client(&self, url: &Url, address: Option<SocketAddr>) -> Result<Client, CallError> {
        let mut builder = call::client_builder(None, url)?;
        if let Some(mut tls) = self.tls.clone() {
            tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            builder = builder.tls_backend_preconfigured(tls);
        }
        if let Some(path) = &self.unix_socket {
            builder = builder.unix_socket(path.as_path());
        }
        if let Some(address) = address {
            builder = builder.resolve(url.host_str().unwrap_or_default(), address).no_proxy();
        }
        let builder = builder.redirect(Policy::none()).default_headers(self.headers.clone());
        builder.build().map_err(CallError::SystemRoots)
    }
}

/// Removes credentials and parameters, which may be long or secret, from an address that is shown.
fn without_credentials(mut url: Url) -> Url {
    // Both fail only for addresses that cannot have credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url
}
