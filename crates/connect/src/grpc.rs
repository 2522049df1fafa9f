//! Connections to gRPC servers, with TLS where it is set up.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use api::plimsoll::Span;
use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tonic::{ConnectError, Status};

use crate::registry::Context;
use crate::tls::TlsSettings;

/// A server, and how it is connected to.
#[derive(Clone)]
pub(crate) struct GrpcServer {
    endpoint: Endpoint,
    connector: Connector,
}

impl GrpcServer {
    /// Checks the address, which is HOST:PORT, and the TLS settings. Nothing is sent.
    pub(crate) fn new(
        context: &Context,
        address: &str,
        tls: Option<TlsSettings>,
    ) -> Result<Self, String> {
        if let Some(tls) = &tls {
            tls.check()?;
        }
        let wrong = || format!("address: `{address}` is not HOST:PORT");
        let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(wrong());
        }
        // The scheme is for the request only: the connector decides about TLS.
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|_| wrong())?;
        let host = host.trim_matches(['[', ']']).to_owned();
        let connector = Connector { client: context.client.clone(), host, tls };
        Ok(Self { endpoint, connector })
    }

    /// Returns a channel, which connects at its first call.
    pub(crate) fn channel(&self) -> Channel {
        let connector = self.connector.clone();
        self.endpoint.connect_with_connector_lazy(tower::service_fn(move |uri: Uri| {
            connector.clone().connect(uri)
        }))
    }
}

/// Opens connections, with TLS where it is set up.
#[derive(Clone)]
struct Connector {
    client: kube::Client,
    host: String,
    tls: Option<TlsSettings>,
}

trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Socket for T {}

impl Connector {
    async fn connect(self, uri: Uri) -> Result<TokioIo<Box<dyn Socket>>, std::io::Error> {
        let address = uri.authority().map(ToString::to_string).unwrap_or_default();
        let socket = TcpStream::connect(address).await?;
        // A request is several small packets: each would wait for the acknowledgement of the one before.
        socket.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return Ok(TokioIo::new(Box::new(socket))) };
        let config = tls.client_config(&self.client).await;
        let mut config = config.map_err(std::io::Error::other)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from(self.host.clone()).map_err(std::io::Error::other)?;
        let secured = TlsConnector::from(Arc::new(config)).connect(name, socket).await?;
        Ok(TokioIo::new(Box::new(secured)))
    }
}

/// Reads how long a call may take.
pub(crate) fn timeout(given: Option<Span>, default: Duration) -> Result<Duration, String> {
    let timeout = given.map_or(Ok(default), |given| Duration::try_from(given.0));
    let timeout = timeout.ok().filter(|timeout| !timeout.is_zero());
    timeout.ok_or_else(|| "timeout: must be positive".to_owned())
}

/// Returns whether no connection could be opened, so that the request was not sent.
pub(crate) fn was_not_sent(status: &Status) -> bool {
    causes(status).any(|cause| cause.is::<ConnectError>())
}

/// Returns the message of the innermost cause.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}
