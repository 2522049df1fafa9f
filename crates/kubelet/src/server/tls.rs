//! The TLS configuration of the kubelet's HTTP API.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use crate::settings::ServerSettings;

/// Reads the certificates of the settings, or returns what is wrong with them.
pub(super) fn config(settings: &ServerSettings) -> Result<rustls::ServerConfig, String> {
    let certificates = |pem: &str, what: &str| -> Result<Vec<CertificateDer<'static>>, String> {
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        all.ok().filter(|all| !all.is_empty()).ok_or_else(|| format!("no certificate in {what}"))
    };
    let chain = certificates(&settings.certificate, "the server's certificate")?;
    let key = PrivateKeyDer::from_pem_slice(settings.key.as_bytes())
        .map_err(|_| "no private key in the server's key".to_owned())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|err| err.to_string())?;
    let verifier: Arc<dyn ClientCertVerifier> = match &settings.client_ca {
        None => WebPkiClientVerifier::no_client_auth(),
        Some(pem) => {
            let mut roots = rustls::RootCertStore::empty();
            for certificate in certificates(pem, "the clients' authority")? {
                roots.add(certificate).map_err(|err| err.to_string())?;
            }
            // A client without a certificate may present the token.
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|err| err.to_string())?
        }
    };
    let mut config = builder
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|err| err.to_string())?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
