//! A client that costs little: one connection, one request at a time, bodies as bytes.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject as _;
use tokio::net::TcpStream;

/// How a server is reached.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) address: String,
    pub(super) token: String,
    tls: Arc<rustls::ClientConfig>,
}

impl Target {
    pub(super) fn new(address: String, token: String, ca_pem: &[u8]) -> anyhow::Result<Self> {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in rustls::pki_types::CertificateDer::pem_slice_iter(ca_pem) {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { address, token, tls: Arc::new(tls) })
    }

    pub(super) async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("127.0.0.1")?;
        let tls = tokio_rustls::TlsConnector::from(Arc::clone(&self.tls));
        let stream = tls.connect(name, stream).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Connection {
            sender,
            token: format!("Bearer {}", self.token),
            host: self.address.clone(),
        })
    }
}

/// One connection.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    token: String,
    host: String,
}

impl Connection {
    /// Sends a request and waits for the head of the answer.
    pub(super) async fn start(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<Incoming> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.host)
            .header(header::AUTHORIZATION, &self.token)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, "bench")
            .body(Full::new(body))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let (parts, body) = response.into_parts();
        if !parts.status.is_success() {
            let answer = body.collect().await?.to_bytes();
            bail!("{path}: {} {}", parts.status, String::from_utf8_lossy(&answer));
        }
        Ok(body)
    }

    /// Sends a request and reads the whole answer.
    pub(super) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<usize> {
        let mut body = self.start(method, path, body).await?;
        let mut read = 0;
        while let Some(frame) = body.frame().await {
            read += frame.context("the answer broke off")?.data_ref().map_or(0, Bytes::len);
        }
        Ok(read)
    }
}
