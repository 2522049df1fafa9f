//! A web server on loopback that counts its connections and ends with the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use base64::Engine as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

pub(crate) struct Server {
    pub(crate) url: String,
    /// Its certificate, as `caBundle` wants it; empty without TLS.
    pub(crate) ca_bundle: String,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

/// A certificate with its private key.
pub(crate) struct Identity {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: Vec<u8>,
}

impl Server {
    pub(crate) async fn plain(app: Router) -> Self {
        Self::start(app, None, String::new()).await
    }

    pub(crate) async fn secured(app: Router) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let ca = base64::engine::general_purpose::STANDARD.encode(cert.pem());
        Self::start(app, Some(TlsAcceptor::from(Arc::new(config))), ca).await
    }

    /// Requires clients to show a certificate of an authority.
    pub(crate) async fn mutual(
        app: Router,
        identity: Identity,
        authority: CertificateDer<'static>,
    ) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut roots = RootCertStore::empty();
        roots.add(authority).unwrap();
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
        let key = PrivateKeyDer::try_from(identity.key).unwrap();
        let config = ServerConfig::builder()
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![identity.certificate], key)
            .unwrap();
        Self::start(app, Some(TlsAcceptor::from(Arc::new(config))), String::new()).await
    }

    async fn start(app: Router, tls: Option<TlsAcceptor>, ca_bundle: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(greet(socket, tls.clone(), app.clone()));
            }
        });
        Self { url, ca_bundle, connections, task }
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn greet(socket: TcpStream, tls: Option<TlsAcceptor>, app: Router) {
    match tls {
        None => serve(socket, app).await,
        Some(tls) => {
            if let Ok(socket) = tls.accept(socket).await {
                serve(socket, app).await;
            }
        }
    }
}

async fn serve(socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, app: Router) {
    let service = TowerToHyperService::new(app);
    let builder = Builder::new(TokioExecutor::new());
    let _ = builder.serve_connection_with_upgrades(TokioIo::new(socket), service).await;
}
