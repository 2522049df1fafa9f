//! Raw connections, to send bytes that need not be valid HTTP.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::api::Request;

/// Who takes this long for one answer hangs: nothing that is sent here is that much work.
const ANSWER_WITHIN: Duration = Duration::from_secs(300);

/// A server may stop to read from who does not behave.
const WRITE_WITHIN: Duration = Duration::from_secs(10);

pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A listener of the target.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) address: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
    pub(super) token: Option<String>,
}

/// A connection, and what was read ahead.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    ahead: Vec<u8>,
}

/// What came of a request.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The code of the answer and the beginning of its body.
    Answered(u16, String),
    /// The connection was closed, or what came is no HTTP.
    Closed,
    /// Nothing came.
    Hung,
}

impl Endpoint {
    pub(super) fn plain(address: SocketAddr) -> Self {
        Self { address, tls: None, token: None }
    }

    /// The API: TLS, with the certificate and the token of a kubeconfig.
    pub(super) fn secured(address: SocketAddr, authority: &str, token: String) -> Self {
        let pem = base64::engine::general_purpose::STANDARD.decode(authority).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        Self { address, tls: Some(Arc::new(config)), token: Some(token) }
    }

    /// Connects, for HTTP/1.1 or for HTTP/2.
    pub(super) async fn connect(&self, is_http2: bool) -> io::Result<Connection> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(stream),
            Some(config) => {
                let mut config = (**config).clone();
                let protocol: &[u8] = if is_http2 { b"h2" } else { b"http/1.1" };
                config.alpn_protocols = vec![protocol.to_vec()];
                let name = ServerName::from(self.address.ip());
                let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
                let connected = tokio::time::timeout(ANSWER_WITHIN, connecting).await;
                Box::new(connected.map_err(|_| io::ErrorKind::TimedOut)??)
            }
        };
        Ok(Connection { stream, ahead: Vec::new() })
    }

    /// Connects and nothing more.
    pub(super) async fn socket(&self) -> io::Result<TcpStream> {
        TcpStream::connect(self.address).await
    }

    /// Writes the head of a request. Without a length the body is in chunks.
    pub(super) fn head(&self, request: &Request, length: Option<usize>) -> Vec<u8> {
        let mut head =
            format!("{} {} HTTP/1.1\r\nhost: localhost\r\n", request.method, request.path);
        if let Some(token) = &self.token {
            head += &format!("authorization: Bearer {token}\r\n");
        }
        for (name, value) in &request.headers {
            head += &format!("{name}: {value}\r\n");
        }
        match length {
            Some(length) => head += &format!("content-length: {length}\r\n\r\n"),
            None => head += "transfer-encoding: chunked\r\n\r\n",
        }
        head.into_bytes()
    }
}

impl Connection {
    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let writing = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        tokio::time::timeout(WRITE_WITHIN, writing).await.map_err(|_| io::ErrorKind::TimedOut)?
    }

    /// Reads one answer; of one that may have no end, only the head.
    pub(super) async fn answer(&mut self, is_whole: bool) -> Outcome {
        match tokio::time::timeout(ANSWER_WITHIN, self.read(is_whole)).await {
            Ok(Ok((code, body))) => Outcome::Answered(code, body),
            Ok(Err(_)) => Outcome::Closed,
            Err(_) => Outcome::Hung,
        }
    }

    /// Reads and forgets what is there, for a moment.
    pub(super) async fn skim(&mut self) {
        let mut buffer = [0; 16 << 10];
        let brief = Duration::from_millis(20);
        while let Ok(Ok(1..)) = tokio::time::timeout(brief, self.stream.read(&mut buffer)).await {}
    }

    async fn read(&mut self, is_whole: bool) -> io::Result<(u16, String)> {
        loop {
            let head = self.until(b"\r\n\r\n").await?;
            let head = String::from_utf8_lossy(&head).to_lowercase();
            let code = head.split_whitespace().nth(1).and_then(|code| code.parse().ok());
            let code: u16 = code.ok_or(io::ErrorKind::InvalidData)?;
            if code == 100 {
                continue;
            }
            let header = |name: &str| {
                let line = head.lines().find_map(|line| line.strip_prefix(name));
                line.map(|value| value.trim().to_owned())
            };
            if !is_whole || code == 101 || code == 204 || code == 304 {
                return Ok((code, String::new()));
            }
            let body = match header("content-length:").and_then(|length| length.parse().ok()) {
                Some(length) => self.exactly(length).await?,
                None if header("transfer-encoding:").is_some() => self.chunks().await?,
                None => return Err(io::ErrorKind::InvalidData.into()),
            };
            let start = &body[..body.len().min(300)];
            return Ok((code, String::from_utf8_lossy(start).into_owned()));
        }
    }

    async fn more(&mut self) -> io::Result<()> {
        let read = self.stream.read_buf(&mut self.ahead).await?;
        if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    async fn until(&mut self, end: &[u8]) -> io::Result<Vec<u8>> {
        loop {
            if let Some(at) = self.ahead.windows(end.len()).position(|bytes| bytes == end) {
                let rest = self.ahead.split_off(at + end.len());
                return Ok(std::mem::replace(&mut self.ahead, rest));
            }
            self.more().await?;
        }
    }

    async fn exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.ahead.len() < length {
            self.more().await?;
        }
        let rest = self.ahead.split_off(length);
        Ok(std::mem::replace(&mut self.ahead, rest))
    }

    async fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.until(b"\r\n").await?;
            let size = String::from_utf8_lossy(&line).trim().to_owned();
            let size = usize::from_str_radix(&size, 16).map_err(|_| io::ErrorKind::InvalidData)?;
            let chunk = self.exactly(size + 2).await?;
            if size == 0 {
                return Ok(body);
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }
}
