//! How do servers of ours prove who they are? By a certificate that is read again when its file changes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// How often the files are looked at. Kubernetes takes longer than that to bring a changed Secret to its pods.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The longest that a handshake may take.
const SHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("could not read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{} does not hold {expected} as PEM", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What was expected.
        expected: &'static str,
    },
    /// The key is not that of the certificate, or of no kind we know.
    #[error("the key does not fit the certificate")]
    Key(#[source] rustls::Error),
    /// The settings make no sense together.
    #[error("TLS cannot be set up")]
    Setup(#[source] rustls::Error),
}

/// A certificate and its key, in two files.
#[derive(Debug)]
pub struct Certificate {
    cert: PathBuf,
    key: PathBuf,
    current: RwLock<(Vec<u8>, Arc<CertifiedKey>)>,
}

impl Certificate {
    /// Reads `tls.crt` and `tls.key` of a folder, as a Secret is mounted.
    pub fn in_folder(folder: &Path) -> Result<Arc<Self>, TlsError> {
        Self::open(folder.join("tls.crt"), folder.join("tls.key"))
    }

    /// Reads a certificate and its key.
    pub fn open(cert: PathBuf, key: PathBuf) -> Result<Arc<Self>, TlsError> {
        let current = RwLock::new(load(&cert, &key)?);
        Ok(Arc::new(Self { cert, key, current }))
    }

    /// Reads the files again when they changed. A certificate that cannot be used leaves the present one in place.
    pub fn refresh(&self) -> Result<bool, TlsError> {
        let loaded = load(&self.cert, &self.key)?;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = current.0 != loaded.0;
        *current = loaded;
        Ok(is_new)
    }

    /// Looks at the files again and again, for as long as it is polled.
    pub async fn keep_fresh(&self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            match self.refresh() {
                Ok(true) => {
                    tracing::info!(file = %self.cert.display(), "took up a new certificate")
                }
                Ok(false) => {}
                Err(err) => {
                    tracing::warn!(
                        error = &err as &dyn std::error::Error,
                        "kept the certificate as it was"
                    );
                }
            }
        }
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&current.1))
    }
}

/// Reads both files, and gives their bytes to compare by.
fn load(cert: &Path, key: &Path) -> Result<(Vec<u8>, Arc<CertifiedKey>), TlsError> {
    let read = |path: &Path| {
        std::fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
    };
    let pem = |path: &Path, expected| TlsError::Pem { path: path.to_owned(), expected };
    let (mut bytes, key_bytes) = (read(cert)?, read(key)?);
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|_| pem(cert, "certificates"))?;
    if chain.is_empty() {
        return Err(pem(cert, "a certificate"));
    }
    let private = PrivateKeyDer::from_pem_slice(&key_bytes).map_err(|_| pem(key, "a key"))?;
    let provider = rustls::crypto::ring::default_provider();
    let certified = CertifiedKey::from_der(chain, private, &provider).map_err(TlsError::Key)?;
    bytes.extend(key_bytes);
    Ok((bytes, Arc::new(certified)))
}

/// Lets anyone in who speaks TLS.
pub fn settings(certificate: &Arc<Certificate>) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Setup)?;
    let resolver: Arc<dyn ResolvesServerCert> = Arc::clone(certificate) as _;
    let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Serves HTTP/1.1 and HTTP/2 on a port for as long as it is polled; connections end with it.
pub async fn serve(listener: TcpListener, settings: ServerConfig, app: Router) {
    let acceptor = TlsAcceptor::from(Arc::new(settings));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((socket, _)) = accepted else {
            // Out of file descriptors, most likely: others have to end first.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (acceptor, app) = (acceptor.clone(), app.clone());
        connections.spawn(async move {
            let shaken = tokio::time::timeout(SHAKE_WITHIN, acceptor.accept(socket)).await;
            let Ok(Ok(socket)) = shaken else { return };
            let service = TowerToHyperService::new(app);
            let served = Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(socket), service)
                .await;
            if let Err(err) = served {
                tracing::debug!(error = &*err as &dyn std::error::Error, "a connection ended");
            }
        });
    }
}
