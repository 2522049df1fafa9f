//! Server certificates and client authentication, reloaded while the server runs.
//!
//! A server presents a certificate and may require client certificates. Both come from files, or from the API, and are read
//! again every few seconds; new connections use the latest ones that are valid. Invalid ones are logged and ignored, so that
//! a half-written Secret does not stop the service.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use connect::trust::{TrustError, TrustStore, common_name};
use futures::future::BoxFuture;
use process::{Supervised, Supervisor};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::watch;

/// The interval between two reads of the source.
const RELOAD_INTERVAL: Duration = Duration::from_secs(2);

/// Why certificates or keys cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file could not be read.
    #[error("could not read {path}")]
    File { path: String, source: std::io::Error },
    /// The content is not PEM, or not of the expected kind.
    #[error("{what}: expected PEM with {expected}")]
    Pem { what: &'static str, expected: &'static str },
    /// The directory has no certificate authority for clients.
    #[error("no client CA certificate (.crt or .pem) in {0}")]
    NoAuthority(String),
    /// rustls rejected the configuration.
    #[error("could not set up TLS")]
    Rustls(#[from] rustls::Error),
    /// The certificate authority for clients is invalid.
    #[error("could not use the client CA certificates")]
    ClientCa(#[from] TrustError),
    /// The API did not return the client authority.
    #[error("could not read the client CA from the API: {0}")]
    Api(String),
}

/// The paths of a server's certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The server certificate with its chain, as PEM.
    pub certificate: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
    /// The certificate authorities of clients: a file, or a directory whose `.crt` and `.pem` files are read. Without it, any
    /// client is accepted.
    pub client_ca: Option<PathBuf>,
}

impl CertificateFiles {
    /// Returns `tls.crt` and `tls.key` in a directory, as a Secret is mounted; any client is accepted.
    pub fn in_directory(directory: &Path) -> Self {
        Self {
            certificate: directory.join("tls.crt"),
            key: directory.join("tls.key"),
            client_ca: None,
        }
    }
}

/// The certificates, keys and rules that a TLS configuration is built from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsMaterial {
    /// The server certificate with its chain, as PEM.
    pub certificate: Vec<u8>,
    /// Its private key, as PEM.
    pub key: Vec<u8>,
    /// The certificate authorities of clients, as PEM. Without them, any client is accepted.
    pub client_ca: Option<Vec<u8>>,
    /// The common names that client certificates may have; any, if empty.
    pub allowed_names: Vec<String>,
}

/// Reads the current material.
pub type CertificateSource =
    Arc<dyn Fn() -> BoxFuture<'static, Result<TlsMaterial, TlsError>> + Send + Sync>;

/// A TLS configuration, and the client names that it allows.
#[derive(Clone)]
pub struct ServerTls {
    pub(crate) config: Arc<ServerConfig>,
    allowed_names: Arc<[String]>,
}

/// A TLS configuration that is reloaded from its source until the last clone is dropped.
#[derive(Clone)]
pub struct CertificateWatcher {
    current: watch::Receiver<ServerTls>,
    _reloading: Arc<Supervised>,
}

/// The task that reloads a source.
struct Reloader {
    source: CertificateSource,
    /// The material that was read last, whether it was valid or not.
    last_read: Mutex<TlsMaterial>,
    updates: watch::Sender<ServerTls>,
}

impl CertificateWatcher {
    /// Reads certificates from files, and reloads them when they change.
    pub async fn from_files(
        files: CertificateFiles,
        supervisor: &Supervisor,
    ) -> Result<Self, TlsError> {
        let task = format!("watch of certificate {}", files.certificate.display());
        let source: CertificateSource = Arc::new(move || {
            let read = read_files(&files);
            Box::pin(std::future::ready(read))
        });
        Self::start(source, task, supervisor).await
    }

    /// Reads certificates from a source, and reloads them in a supervised task of this name.
    pub async fn start(
        source: CertificateSource,
        task: impl Into<String>,
        supervisor: &Supervisor,
    ) -> Result<Self, TlsError> {
        let material = source().await?;
        let (updates, current) = watch::channel(ServerTls::new(&material)?);
        let reloader = Arc::new(Reloader { source, last_read: Mutex::new(material), updates });
        let reloading = supervisor.spawn(task, move || Arc::clone(&reloader).run());
        Ok(Self { current, _reloading: Arc::new(reloading) })
    }

    /// Returns the configuration for a new connection.
    pub fn current(&self) -> ServerTls {
        self.current.borrow().clone()
    }
}

impl Reloader {
    async fn run(self: Arc<Self>) {
        loop {
            tokio::time::sleep(RELOAD_INTERVAL).await;
            match (self.source)().await {
                Ok(fresh) => self.update(fresh),
                Err(err) => {
                    tracing::debug!(
                        error = %cluster::explain(&err),
                        "could not read the certificates; keeping the current ones"
                    );
                }
            }
        }
    }

    /// Replaces the configuration, if the material has changed and is valid.
    fn update(&self, fresh: TlsMaterial) {
        let mut last_read = self.last_read.lock().unwrap_or_else(PoisonError::into_inner);
        if *last_read == fresh {
            return;
        }
        match ServerTls::new(&fresh) {
            Ok(tls) => {
                tracing::info!("certificates reloaded");
                self.updates.send_replace(tls);
            }
            Err(err) => {
                tracing::warn!(
                    error = %cluster::explain(&err),
                    "the changed certificates are invalid; keeping the current ones"
                );
            }
        }
        *last_read = fresh;
    }
}

impl ServerTls {
    fn new(material: &TlsMaterial) -> Result<Self, TlsError> {
        let chain = certificates(&material.certificate, "the server's certificate")?;
        let expected = TlsError::Pem { what: "the server's key", expected: "a private key" };
        let key = PrivateKeyDer::from_pem_slice(&material.key).map_err(|_| expected)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let builder = match &material.client_ca {
            None => builder.with_no_client_auth(),
            Some(client_ca) => builder
                .with_client_cert_verifier(TrustStore::from_pem(client_ca)?.client_verifier()?),
        };
        let mut config = builder.with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), allowed_names: material.allowed_names.clone().into() })
    }

    /// Whether a client with this certificate chain is allowed by name. The handshake has verified its signature.
    pub(crate) fn allows(&self, chain: Option<&[CertificateDer<'_>]>) -> bool {
        if self.allowed_names.is_empty() {
            return true;
        }
        let name = chain.and_then(|chain| chain.first()).and_then(common_name);
        name.is_some_and(|name| self.allowed_names.contains(&name))
    }
}

impl From<ServerTls> for process::listen::Tls {
    fn from(tls: ServerTls) -> Self {
        let config = Arc::clone(&tls.config);
        Self { config, admits: Arc::new(move |chain| tls.allows(chain)) }
    }
}

fn certificates(pem: &[u8], what: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.ok().filter(|all| !all.is_empty());
    all.ok_or(TlsError::Pem { what, expected: "a certificate" })
}

/// Reads the certificates of a server from files.
pub fn read_files(files: &CertificateFiles) -> Result<TlsMaterial, TlsError> {
    Ok(TlsMaterial {
        certificate: read_file(&files.certificate)?,
        key: read_file(&files.key)?,
        client_ca: files.client_ca.as_deref().map(read_authorities).transpose()?,
        allowed_names: Vec::new(),
    })
}

fn read_authorities(path: &Path) -> Result<Vec<u8>, TlsError> {
    if !path.is_dir() {
        return read_file(path);
    }
    let failed = |source| TlsError::File { path: path.display().to_string(), source };
    let mut files: Vec<PathBuf> = std::fs::read_dir(path)
        .and_then(|entries| entries.map(|entry| entry.map(|e| e.path())).collect())
        .map_err(failed)?;
    files.retain(|file| file.extension().is_some_and(|e| e == "crt" || e == "pem"));
    files.sort();
    if files.is_empty() {
        return Err(TlsError::NoAuthority(path.display().to_string()));
    }
    let mut all = Vec::new();
    for file in files {
        all.extend(read_file(&file)?);
        all.push(b'\n');
    }
    Ok(all)
}

fn read_file(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path)
        .map_err(|source| TlsError::File { path: path.display().to_string(), source })
}

#[cfg(test)]
mod tests;
