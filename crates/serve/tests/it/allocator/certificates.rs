//! A CA and certificates that it issues.

use std::path::{Path, PathBuf};

use plimsoll_serve::tls::CertificateFiles;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, as PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// Makes a certificate that servers show.
    pub(crate) fn server(&self, names: &[&str]) -> Pair {
        self.pair("server", names, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Makes a certificate that callers show.
    pub(crate) fn caller(&self, name: &str) -> Pair {
        self.pair(name, &[], ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn pair(&self, name: &str, names: &[&str], usage: ExtendedKeyUsagePurpose) -> Pair {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Pair { certificate, key: key.serialize_pem() }
    }
}

impl Pair {
    /// Writes `NAME.crt` and `NAME.key`.
    pub(crate) fn write(&self, dir: &Path, name: &str) -> (PathBuf, PathBuf) {
        let (certificate, key) = (dir.join(format!("{name}.crt")), dir.join(format!("{name}.key")));
        std::fs::write(&certificate, &self.certificate).unwrap();
        std::fs::write(&key, &self.key).unwrap();
        (certificate, key)
    }
}

/// Writes the files of a server with mutual TLS.
pub(crate) fn files(dir: &Path, server: &Pair, client_ca: &Authority) -> CertificateFiles {
    let (certificate, key) = server.write(dir, "tls");
    let folder = dir.join("client-ca");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("ca.crt"), &client_ca.pem).unwrap();
    CertificateFiles { certificate, key, client_ca: Some(folder) }
}
