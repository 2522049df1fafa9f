//! The TLS settings of a connection: the trusted certificates, and the certificate it presents.

use std::sync::Arc;

use kube::Client;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use serde::Deserialize;

use crate::secret::{SecretError, SecretRef};
use crate::trust::TrustStore;

/// The block `tls` of a source.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct TlsSettings {
    /// The authorities to trust; default: those of the system.
    ca_from: Option<SecretRef>,
    /// The certificate to present, with `keyFrom`.
    cert_from: Option<SecretRef>,
    key_from: Option<SecretRef>,
    /// Accept any certificate.
    skip_verify: bool,
    /// The name that the server's certificate must have, instead of the host's.
    server_name: String,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate or key cannot be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// TLS would not take the settings.
    #[error("could not set up TLS: {0}")]
    Tls(#[from] Error),
}

impl TlsSettings {
    /// Checks what can be checked without reading a Secret.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.cert_from.is_some() != self.key_from.is_some() {
            return Err("tls: certFrom and keyFrom must be given together".to_owned());
        }
        match self.name() {
            Some(Err(_)) => {
                Err(format!("tls.serverName: `{}` is not the name of a host", self.server_name))
            }
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// Reads the Secrets and returns the settings of a client.
    pub(crate) async fn client_config(&self, client: &Client) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut verifier = self.verifier(client, &provider).await?;
        if let Some(Ok(name)) = self.name() {
            verifier = Arc::new(NamedVerifier { inner: verifier, name });
        }
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let (Some(cert), Some(key)) = (&self.cert_from, &self.key_from) else {
            return Ok(builder.with_no_client_auth());
        };
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(&cert.read(client).await?).collect();
        let chain = chain.map_err(|_| cert.error("expected certificates in PEM"))?;
        let private = PrivateKeyDer::from_pem_slice(&key.read(client).await?);
        let private = private.map_err(|_| key.error("expected a private key in PEM"))?;
        Ok(builder.with_client_auth_cert(chain, private)?)
    }

    async fn verifier(
        &self,
        client: &Client,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
        if self.skip_verify {
            return Ok(Arc::new(NoVerifier(Arc::clone(provider))));
        }
        let Some(ca) = &self.ca_from else {
            let system = rustls_platform_verifier::Verifier::new(Arc::clone(provider))?;
            return Ok(Arc::new(system));
        };
        let trust = TrustStore::from_pem(&ca.read(client).await?);
        let verifier = trust.and_then(|trust| trust.server_verifier());
        Ok(verifier.map_err(|err| ca.error(err.to_string()))?)
    }

    fn name(&self) -> Option<Result<ServerName<'static>, String>> {
        let name = Some(self.server_name.clone()).filter(|name| !name.is_empty())?;
        Some(ServerName::try_from(name).map_err(|err| err.to_string()))
    }
}

/// Checks a server as if it had been called by another name.
#[derive(Debug)]
struct NamedVerifier {
    inner: Arc<dyn ServerCertVerifier>,
    name: ServerName<'static>,
}

impl ServerCertVerifier for NamedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.inner.verify_server_cert(end_entity, intermediates, &self.name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Accepts any certificate whose key the server has, for `skipVerify`.
#[derive(Debug)]
struct NoVerifier(Arc<CryptoProvider>);

impl ServerCertVerifier for NoVerifier {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_that_cannot_work_are_refused_before_a_secret_is_read() {
        let check = |settings| serde_json::from_value::<TlsSettings>(settings).unwrap().check();
        let secret = json!({"name": "prom", "key": "tls.crt"});
        assert_eq!(check(json!({})), Ok(()));
        assert_eq!(check(json!({"certFrom": secret, "keyFrom": secret})), Ok(()));
        let alone = check(json!({"certFrom": secret})).unwrap_err();
        assert_eq!(alone, "tls: certFrom and keyFrom must be given together");
        let name = check(json!({"serverName": "a b"})).unwrap_err();
        assert_eq!(name, "tls.serverName: `a b` is not the name of a host");
    }
}
