//! TCP connections, with TLS where the settings ask for it, for protocols other than HTTP.

use std::io::ErrorKind;
use std::sync::Arc;

use kube::Client;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::connection::ConnectionError;
use crate::tls::TlsSettings;

/// A connection, with or without TLS.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Socket for T {}

/// Connects to `HOST:PORT`, with TLS if there are settings for it.
pub(crate) async fn connect(
    client: &Client,
    address: &str,
    tls: Option<&TlsSettings>,
) -> Result<Box<dyn Socket>, ConnectionError> {
    let unreachable = |err: std::io::Error| ConnectionError::Unreachable {
        address: address.to_owned(),
        message: err.to_string(),
    };
    let socket = TcpStream::connect(address).await.map_err(unreachable)?;
    let Some(tls) = tls else { return Ok(Box::new(socket)) };
    let config = tls.client_config(client).await?;
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
    let name =
        name.map_err(|err| unreachable(std::io::Error::new(ErrorKind::InvalidInput, err)))?;
    let connector = TlsConnector::from(Arc::new(config));
    Ok(Box::new(connector.connect(name, socket).await.map_err(unreachable)?))
}
