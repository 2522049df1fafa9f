//! The certificates that TLS trusts.
//!
//! A peer is trusted when an authority in the store vouches for it, or when its very certificate is in the store. The second is what
//! `openssl req -x509` leads to: the certificate it makes says that it is an authority, and standard path building refuses an authority at the end of
//! a path. Agones, like Go, takes it. Whichever way, the peer proves that it has the key, the certificate must be valid now and for
//! its purpose, and a server's must have the name that was called.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::{ASN1Time, FromDer as _};

/// Why certificates cannot be trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// There is no certificate, or none that can be read.
    #[error("expected PEM with certificates that can be used")]
    Pem,
    /// TLS would not take them.
    #[error("could not use the certificates to check others with")]
    Verifier(#[from] VerifierBuilderError),
    /// TLS cannot be set up.
    #[error("could not set up TLS")]
    Tls(#[from] Error),
}

/// Certificates of authorities, and of peers that are known by themselves.
#[derive(Clone, Debug)]
pub struct TrustStore {
    certificates: Arc<[CertificateDer<'static>]>,
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl TrustStore {
    /// Reads the certificates of a PEM file. Those that cannot be used are passed over while others can.
    pub fn from_pem(pem: &[u8]) -> Result<Self, TrustError> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let certificates = read.map_err(|_| TrustError::Pem)?;
        let mut roots = RootCertStore::empty();
        let (usable, _) = roots.add_parsable_certificates(certificates.iter().cloned());
        if usable == 0 {
            return Err(TrustError::Pem);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Ok(Self { certificates: certificates.into(), roots: Arc::new(roots), provider })
    }

    /// Returns the verifier of client certificates, for a server.
    pub fn client_verifier(&self) -> Result<Arc<dyn ClientCertVerifier>, TrustError> {
        let (roots, provider) = (Arc::clone(&self.roots), Arc::clone(&self.provider));
        let by_authority = WebPkiClientVerifier::builder_with_provider(roots, provider).build()?;
        Ok(Arc::new(ClientVerifier { by_authority, known: Arc::clone(&self.certificates) }))
    }

    /// Returns the verifier of server certificates, for a client.
    pub fn server_verifier(&self) -> Result<Arc<dyn ServerCertVerifier>, TrustError> {
        let (roots, provider) = (Arc::clone(&self.roots), Arc::clone(&self.provider));
        let by_authority = WebPkiServerVerifier::builder_with_provider(roots, provider).build()?;
        Ok(Arc::new(ServerVerifier { by_authority, known: Arc::clone(&self.certificates) }))
    }

    /// Returns the TLS settings of a client that shows no certificate, for HTTP of either version.
    pub(crate) fn client_config(&self) -> Result<ClientConfig, TrustError> {
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()?;
        let verifier = self.server_verifier()?;
        let mut config =
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Reads the common name of a certificate's subject; of several the last, as Go does.
pub fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let name = certificate.subject().iter_common_name().last()?;
    name.as_str().ok().map(str::to_owned)
}

#[derive(Debug)]
struct ClientVerifier {
    by_authority: Arc<dyn ClientCertVerifier>,
    known: Arc<[CertificateDer<'static>]>,
}

impl ClientCertVerifier for ClientVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.by_authority.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.known.contains(end_entity) {
            check(end_entity, now, |usage| usage.client_auth)?;
            return Ok(ClientCertVerified::assertion());
        }
        self.by_authority.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }
}

#[derive(Debug)]
struct ServerVerifier {
    by_authority: Arc<dyn ServerCertVerifier>,
    known: Arc<[CertificateDer<'static>]>,
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.known.contains(end_entity) {
            let parsed = check(end_entity, now, |usage| usage.server_auth)?;
            rustls::client::verify_server_name(&parsed, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        self.by_authority.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }
}

/// Checks what remains to be checked of a certificate that is known: that it is valid now, and for this use if it names any.
fn check<'a>(
    certificate: &'a CertificateDer<'_>,
    now: UnixTime,
    allows: fn(&x509_parser::extensions::ExtendedKeyUsage<'_>) -> bool,
) -> Result<ParsedCertificate<'a>, Error> {
    let parsed = ParsedCertificate::try_from(certificate)?;
    let (_, read) =
        X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let now = i64::try_from(now.as_secs()).ok().and_then(|now| ASN1Time::from_timestamp(now).ok());
    let now = now.ok_or(Error::FailedToGetCurrentTime)?;
    if now < read.validity().not_before {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > read.validity().not_after {
        return Err(CertificateError::Expired.into());
    }
    let usage = read.extended_key_usage().map_err(|_| CertificateError::BadEncoding)?;
    if usage.is_some_and(|usage| !usage.value.any && !allows(usage.value)) {
        return Err(CertificateError::InvalidPurpose.into());
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
        date_time_ymd,
    };

    use super::*;

    /// A moment at which certificates of these tests are valid: 2026-01-01.
    const NOW: u64 = 1_767_225_600;

    /// Returns a certificate as `openssl req -x509` makes it.
    fn self_signed(
        change: impl FnOnce(&mut CertificateParams),
    ) -> (CertificateDer<'static>, String) {
        let mut params = CertificateParams::new(vec!["allocator.example".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "someone");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (params.not_before, params.not_after) =
            (date_time_ymd(2025, 1, 1), date_time_ymd(2027, 1, 1));
        change(&mut params);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        (certificate.der().clone(), certificate.pem())
    }

    fn as_client(store: &str, shown: &CertificateDer<'_>, at: u64) -> Result<(), Error> {
        let verifier = TrustStore::from_pem(store.as_bytes()).unwrap().client_verifier().unwrap();
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(at));
        verifier.verify_client_cert(shown, &[], now).map(|_| ())
    }

    fn as_server(store: &str, shown: &CertificateDer<'_>, name: &str) -> Result<(), Error> {
        let verifier = TrustStore::from_pem(store.as_bytes()).unwrap().server_verifier().unwrap();
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(NOW));
        let name = ServerName::try_from(name).unwrap();
        verifier.verify_server_cert(shown, &[], &name, &[], now).map(|_| ())
    }

    #[test]
    fn a_self_signed_authority_is_trusted_when_it_is_in_the_store_itself() {
        let (shown, pem) = self_signed(|_| {});
        let (stranger, _) = self_signed(|_| {});
        assert_eq!(as_client(&pem, &shown, NOW), Ok(()));
        assert!(as_client(&pem, &stranger, NOW).is_err(), "the same names, and another key");
        assert_eq!(as_server(&pem, &shown, "allocator.example"), Ok(()));
        assert!(as_server(&pem, &stranger, "allocator.example").is_err());
    }

    #[test]
    fn a_known_certificate_must_be_valid_now_and_for_its_use_and_name() {
        let (shown, pem) = self_signed(|_| {});
        let year = 366 * 24 * 3600;
        let refused = |why: CertificateError| Err(Error::InvalidCertificate(why));
        assert_eq!(as_client(&pem, &shown, NOW + year), refused(CertificateError::Expired));
        assert_eq!(as_client(&pem, &shown, NOW - year), refused(CertificateError::NotValidYet));
        assert!(as_server(&pem, &shown, "other.example").is_err());
        let (shown, pem) = self_signed(|params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        });
        assert_eq!(as_client(&pem, &shown, NOW), refused(CertificateError::InvalidPurpose));
        assert_eq!(as_server(&pem, &shown, "allocator.example"), Ok(()));
    }

    #[test]
    fn the_common_name_is_that_of_the_subject_and_not_a_similar_byte_sequence() {
        let (plain, _) = self_signed(|_| {});
        assert_eq!(common_name(&plain).as_deref(), Some("someone"));
        // The DER encoding of a common name, inside an earlier attribute of the name.
        let (forged, _) = self_signed(|params| {
            params.distinguished_name = rcgen::DistinguishedName::new();
            let text = "\u{6}\u{3}U\u{4}\u{3}\u{c}\u{b}front-proxy";
            params.distinguished_name.push(DnType::OrganizationName, text);
            params.distinguished_name.push(DnType::CommonName, "someone");
        });
        assert_eq!(common_name(&forged).as_deref(), Some("someone"));
        let long = "x".repeat(300);
        let (long_named, _) = self_signed(|params| {
            params.distinguished_name.push(DnType::CommonName, long.clone());
        });
        assert_eq!(common_name(&long_named), Some(long));
        assert_eq!(common_name(&CertificateDer::from(vec![0x30, 0x03])), None);
    }

    #[test]
    fn a_store_without_certificates_is_refused() {
        for pem in ["", "nothing", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
        {
            assert!(matches!(TrustStore::from_pem(pem.as_bytes()), Err(TrustError::Pem)), "{pem}");
        }
    }
}
