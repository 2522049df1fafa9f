//! Who may talk to the engine, and how?
//!
//! TLS always, with a certificate authority of our own, since kubectl sends a token only over TLS; and one random token.
//! Both are made once and kept beside the data, readable by their owner alone, so that a kubeconfig stays good.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::files;

/// What went wrong while making keys and certificates, or keeping them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// A key or certificate could not be made.
    #[error("could not make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// TLS would not take it.
    #[error("could not set up TLS")]
    Tls(#[from] rustls::Error),
    /// A file could not be read or written.
    #[error("could not use {path}")]
    File { path: String, source: std::io::Error },
    /// The address could not be listened on.
    #[error("could not listen on {address}")]
    Listen { address: String, source: std::io::Error },
}

/// The certificate authority and the token.
#[derive(Debug)]
pub(crate) struct Access {
    ca_pem: String,
    ca_key: String,
    pub(crate) token: String,
}

impl Access {
    /// Makes new ones, for an engine that forgets them.
    pub(crate) fn fresh() -> Result<Self, AccessError> {
        let key = KeyPair::generate()?;
        let ca_pem = authority().self_signed(&key)?.pem();
        // Two random ids have more than enough bits that nobody can guess.
        let token = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4()].map(|id| id.simple().to_string());
        Ok(Self { ca_pem, ca_key: key.serialize_pem(), token: token.concat() })
    }

    /// Reads what is kept in a directory, or makes it and keeps it there.
    pub(crate) fn kept_in(dir: &Path) -> Result<Self, AccessError> {
        let [cert, key, token] = ["ca.crt", "ca.key", "token"].map(|name| dir.join(name));
        let kept = (read(&cert)?, read(&key)?, read(&token)?);
        if let (Some(ca_pem), Some(ca_key), Some(token)) = kept {
            return Ok(Self { ca_pem, ca_key, token: token.trim().to_owned() });
        }
        let fresh = Self::fresh()?;
        write(&cert, &fresh.ca_pem)?;
        write(&key, &fresh.ca_key)?;
        write(&token, &fresh.token)?;
        Ok(fresh)
    }

    /// Gives the certificate that clients trust.
    pub(crate) fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Makes the TLS settings of a server at an address.
    pub(crate) fn tls(&self, address: IpAddr) -> Result<Arc<rustls::ServerConfig>, AccessError> {
        let issuer = Issuer::new(authority(), KeyPair::from_pem(&self.ca_key)?);
        let mut names = vec!["localhost".to_owned(), "kubernetes".to_owned()];
        names.extend(["kubernetes.default", "kubernetes.default.svc"].map(str::to_owned));
        names.extend(["127.0.0.1", "::1"].map(str::to_owned));
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

    /// Writes the kubeconfig of a server, for its owner's eyes only.
    pub(crate) fn write_kubeconfig(&self, path: &Path, server: &str) -> Result<(), AccessError> {
        write(path, &self.kubeconfig(server))
    }

    /// Gives the kubeconfig of a server.
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

fn read(path: &Path) -> Result<Option<String>, AccessError> {
    files::read(path)
        .map_err(|source| AccessError::File { path: path.display().to_string(), source })
}

fn write(path: &Path, text: &str) -> Result<(), AccessError> {
    files::write_private(path, text)
        .map_err(|source| AccessError::File { path: path.display().to_string(), source })
}

/// Gives what the certificate authority says of itself, always the same, so that its key alone brings it back.
fn authority() -> CertificateParams {
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
    fn what_is_kept_is_found_again_and_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let first = Access::kept_in(dir.path()).unwrap();
        let again = Access::kept_in(dir.path()).unwrap();
        assert_eq!((&first.token, &first.ca_pem), (&again.token, &again.ca_pem));
        assert_eq!(first.token.len(), 64);
        for file in ["token", "ca.key"] {
            let mode = std::fs::metadata(dir.path().join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
        first.tls([127, 0, 0, 1].into()).unwrap();
    }
}
