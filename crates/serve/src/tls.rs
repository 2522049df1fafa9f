//! Who are we, and who may call?
//!
//! A server shows a certificate and may ask callers for theirs. Both come from files, or from the API, and may change while
//! we run: they are read again every few seconds, and connections made from then on use what is new. What cannot be used is
//! logged and passed over, so that a half-written secret does not end the service.

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

/// How often to look whether something has changed.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What is wrong with certificates or keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file could not be read.
    #[error("could not read {path}")]
    File { path: String, source: std::io::Error },
    /// It is not PEM, or not what was expected there.
    #[error("{what}: expected PEM with {expected}")]
    Pem { what: &'static str, expected: &'static str },
    /// There is no authority to check callers with.
    #[error("no certificate (.crt or .pem) of an authority for callers in {0}")]
    NoAuthority(String),
    /// TLS would not take it.
    #[error("could not set up TLS")]
    Rustls(#[from] rustls::Error),
    /// Callers' certificates could not be checked.
    #[error("could not use the certificates of those who may call")]
    Callers(#[from] TrustError),
    /// The API did not give what it should.
    #[error("could not learn who may call: {0}")]
    Api(String),
}

/// Where certificates are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificate to show, with its chain, as PEM.
    pub certificate: PathBuf,
    /// Its key, as PEM.
    pub key: PathBuf,
    /// The authorities of callers: a file, or a directory whose `.crt` and `.pem` files count. Without it, anyone may call.
    pub callers: Option<PathBuf>,
}

impl Files {
    /// Names `tls.crt` and `tls.key` of a folder, as a Secret is mounted; anyone may call.
    pub fn in_folder(folder: &Path) -> Self {
        Self { certificate: folder.join("tls.crt"), key: folder.join("tls.key"), callers: None }
    }
}

/// What TLS is set up from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Material {
    /// The certificate to show, with its chain, as PEM.
    pub certificate: Vec<u8>,
    /// Its key, as PEM.
    pub key: Vec<u8>,
    /// The authorities of callers, as PEM. Without them, anyone may call.
    pub callers: Option<Vec<u8>>,
    /// The common names that callers may have; any, if there are none here.
    pub names: Vec<String>,
}

/// Gives the material as it is now.
pub type Source = Arc<dyn Fn() -> BoxFuture<'static, Result<Material, TlsError>> + Send + Sync>;

/// TLS as it is set up now.
#[derive(Clone)]
pub struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    names: Arc<[String]>,
}

/// TLS that follows its source for as long as this is there.
#[derive(Clone)]
pub struct Certificates {
    now: watch::Receiver<Tls>,
    _following: Arc<Supervised>,
}

/// What follows a source.
struct Follower {
    source: Source,
    /// What the source gave last, whether it could be used or not.
    seen: Mutex<Material>,
    changed: watch::Sender<Tls>,
}

impl Certificates {
    /// Reads files, and follows them.
    pub async fn of_files(files: Files, supervisor: &Supervisor) -> Result<Self, TlsError> {
        let task = format!("watch of certificate {}", files.certificate.display());
        let source: Source = Arc::new(move || {
            let read = read(&files);
            Box::pin(std::future::ready(read))
        });
        Self::follow(source, task, supervisor).await
    }

    /// Sets TLS up from what a source gives, and follows it by a task of this name.
    pub async fn follow(
        source: Source,
        task: impl Into<String>,
        supervisor: &Supervisor,
    ) -> Result<Self, TlsError> {
        let material = source().await?;
        let (changed, now) = watch::channel(Tls::new(&material)?);
        let follower = Arc::new(Follower { source, seen: Mutex::new(material), changed });
        let following = supervisor.spawn(task, move || Arc::clone(&follower).follow());
        Ok(Self { now, _following: Arc::new(following) })
    }

    /// Gives TLS for a connection that is made now.
    pub fn now(&self) -> Tls {
        self.now.borrow().clone()
    }
}

impl Follower {
    async fn follow(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            match (self.source)().await {
                Ok(fresh) => self.take(fresh),
                Err(err) => {
                    tracing::debug!(
                        error = %cluster::explain(&err),
                        "certificates cannot be read now"
                    );
                }
            }
        }
    }

    /// Uses what a source gave, if it is new.
    fn take(&self, fresh: Material) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == fresh {
            return;
        }
        match Tls::new(&fresh) {
            Ok(tls) => {
                tracing::info!("certificates have changed");
                self.changed.send_replace(tls);
            }
            Err(err) => {
                tracing::warn!(
                    error = %cluster::explain(&err),
                    "certificates have changed and cannot be used; the old ones stay"
                );
            }
        }
        *seen = fresh;
    }
}

impl Tls {
    fn new(material: &Material) -> Result<Self, TlsError> {
        let chain = certificates(&material.certificate, "the server's certificate")?;
        let expected = TlsError::Pem { what: "the server's key", expected: "a private key" };
        let key = PrivateKeyDer::from_pem_slice(&material.key).map_err(|_| expected)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let builder = match &material.callers {
            None => builder.with_no_client_auth(),
            Some(callers) => {
                builder.with_client_cert_verifier(TrustStore::from_pem(callers)?.client_verifier()?)
            }
        };
        let mut config = builder.with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), names: material.names.clone().into() })
    }

    /// Whether who shows these certificates may call; that an authority vouches for them was checked before.
    pub(crate) fn admits(&self, shown: Option<&[CertificateDer<'_>]>) -> bool {
        if self.names.is_empty() {
            return true;
        }
        let name = shown.and_then(|shown| shown.first()).and_then(common_name);
        name.is_some_and(|name| self.names.contains(&name))
    }
}

impl From<Tls> for process::listen::Tls {
    fn from(tls: Tls) -> Self {
        let config = Arc::clone(&tls.config);
        Self { config, admits: Arc::new(move |shown| tls.admits(shown)) }
    }
}

fn certificates(pem: &[u8], what: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.ok().filter(|all| !all.is_empty());
    all.ok_or(TlsError::Pem { what, expected: "a certificate" })
}

/// Reads all files of a server.
pub fn read(files: &Files) -> Result<Material, TlsError> {
    Ok(Material {
        certificate: read_file(&files.certificate)?,
        key: read_file(&files.key)?,
        callers: files.callers.as_deref().map(read_authorities).transpose()?,
        names: Vec::new(),
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
