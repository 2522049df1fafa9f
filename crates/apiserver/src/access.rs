//! Credentials of the API server: its certificate authority, the bearer token of the administrator, and the key that signs the
//! tokens of service accounts.
//!
//! The listener always uses TLS, because kubectl sends a token only over TLS. The keys and the token are generated once and
//! stored in the data directory, readable by their owner only, so that a kubeconfig and the tokens of pods survive a restart.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::files;

/// The cluster IP of the Service `kubernetes`.
pub(crate) const KUBERNETES_SERVICE: &str = "10.0.0.1";
/// The number of characters of a generated secret.
const SECRET_LENGTH: usize = 64;

/// Why keys and certificates could not be generated or stored, or a listener not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// A key or certificate could not be generated.
    #[error("could not generate a certificate")]
    Certificate(#[from] rcgen::Error),
    /// The TLS configuration was rejected.
    #[error("could not set up TLS")]
    Tls(#[from] rustls::Error),
    /// A file could not be read or written.
    #[error("could not use {path}")]
    File { path: String, source: std::io::Error },
    /// The address could not be bound.
    #[error("could not listen on {address}")]
    Listen { address: String, source: std::io::Error },
}

/// The certificate authority, the administrator's token, and the key of other tokens.
#[derive(Debug)]
pub(crate) struct Access {
    ca_pem: String,
    ca_key: String,
    pub(crate) token: String,
    /// The secret that the tokens of service accounts are signed with.
    pub(crate) token_key: String,
}

impl Access {
    /// Generates new credentials, which are not stored.
    pub(crate) fn generate() -> Result<Self, AccessError> {
        let key = KeyPair::generate()?;
        let ca_pem = ca_params().self_signed(&key)?.pem();
        let (token, token_key) = (random_secret(), random_secret());
        Ok(Self { ca_pem, ca_key: key.serialize_pem(), token, token_key })
    }

    /// Reads the credentials in a directory, or generates them there.
    pub(crate) fn load_or_create(dir: &Path) -> Result<Self, AccessError> {
        let [cert, key, token] = ["ca.crt", "ca.key", "token"].map(|name| dir.join(name));
        let token_key = load_or_create_secret(&dir.join("service-account.key"))?;
        let stored = (read(&cert)?, read(&key)?, read(&token)?);
        if let (Some(ca_pem), Some(ca_key), Some(token)) = stored {
            return Ok(Self { ca_pem, ca_key, token: token.trim().to_owned(), token_key });
        }
        let generated = Self { token_key, ..Self::generate()? };
        write(&cert, &generated.ca_pem)?;
        write(&key, &generated.ca_key)?;
        write(&token, &generated.token)?;
        Ok(generated)
    }

    /// Returns the CA certificate as PEM.
    pub(crate) fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Returns the TLS configuration of a server at an address.
    pub(crate) fn tls(&self, address: IpAddr) -> Result<Arc<rustls::ServerConfig>, AccessError> {
        let issuer = Issuer::new(ca_params(), KeyPair::from_pem(&self.ca_key)?);
        let mut names = vec!["localhost".to_owned(), "kubernetes".to_owned()];
        for more in ["", ".svc", ".svc.cluster.local"] {
            names.push(format!("kubernetes.default{more}"));
        }
        names.extend(["127.0.0.1", "::1", KUBERNETES_SERVICE].map(str::to_owned));
        if !address.is_unspecified() && !address.is_loopback() {
            names.push(address.to_string());
        }
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "plimsoll");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(tls))
    }

    /// Writes the kubeconfig of a server with mode 0600.
    pub(crate) fn write_kubeconfig(&self, path: &Path, server: &str) -> Result<(), AccessError> {
        write(path, &self.kubeconfig(server))
    }

    /// Returns the kubeconfig of a server.
    pub(crate) fn kubeconfig(&self, server: &str) -> String {
        use base64::Engine as _;
        let ca = base64::engine::general_purpose::STANDARD.encode(&self.ca_pem);
        let token = &self.token;
        format!(
            "apiVersion: v1
kind: Config
current-context: plimsoll
clusters:
- name: plimsoll
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: plimsoll
  user:
    token: {token}
contexts:
- name: plimsoll
  context:
    cluster: plimsoll
    user: plimsoll
    namespace: default
"
        )
    }
}

/// Returns a new secret. Two version 4 UUIDs have 244 random bits.
fn random_secret() -> String {
    [uuid::Uuid::new_v4(), uuid::Uuid::new_v4()].map(|id| id.simple().to_string()).concat()
}

/// Reads a secret, or generates it; a file that was cut short is replaced.
fn load_or_create_secret(path: &Path) -> Result<String, AccessError> {
    let stored = read(path)?.map(|text| text.trim().to_owned());
    if let Some(secret) = stored.filter(|secret| secret.len() >= SECRET_LENGTH) {
        return Ok(secret);
    }
    let secret = random_secret();
    write(path, &secret)?;
    Ok(secret)
}

fn read(path: &Path) -> Result<Option<String>, AccessError> {
    files::read(path)
        .map_err(|source| AccessError::File { path: path.display().to_string(), source })
}

fn write(path: &Path, text: &str) -> Result<(), AccessError> {
    files::write_private(path, text)
        .map_err(|source| AccessError::File { path: path.display().to_string(), source })
}

/// Returns the parameters of the CA certificate. They are constant, so the key alone is enough to sign again.
fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "plimsoll-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_credentials_are_reused_and_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let first = Access::load_or_create(dir.path()).unwrap();
        let again = Access::load_or_create(dir.path()).unwrap();
        assert_eq!((&first.token, &first.ca_pem), (&again.token, &again.ca_pem));
        assert_eq!(first.token_key, again.token_key);
        assert_eq!((first.token.len(), first.token_key.len()), (64, 64));
        assert_ne!(first.token, first.token_key);
        for file in ["token", "ca.key", "service-account.key"] {
            let mode = std::fs::metadata(dir.path().join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
        first.tls([127, 0, 0, 1].into()).unwrap();
        std::fs::write(dir.path().join("service-account.key"), "").unwrap();
        let replaced = Access::load_or_create(dir.path()).unwrap();
        assert_eq!((replaced.token_key.len(), &replaced.token), (64, &first.token));
    }
}
