//! How does the API server know our webhooks? By a certificate of their own, signed by an authority that signs nothing else.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use serde_json::{Value, json};

use super::{SECRET, named};

/// A certificate, its key, and who signed it, as PEM.
pub(super) struct Keys {
    authority: String,
    certificate: String,
    key: String,
}

impl Keys {
    /// Makes a certificate for a name. The authority's own key is thrown away, so that it signs nothing else.
    pub(super) fn make(name: &str) -> anyhow::Result<Self> {
        // Long ago to long from now: clocks of clusters differ, and a new one is an `install` away.
        let (from, to) = (date_time_ymd(2020, 1, 1), date_time_ymd(2046, 1, 1));
        let authority_key = KeyPair::generate()?;
        let mut authority = CertificateParams::new(Vec::<String>::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        authority.distinguished_name.push(DnType::CommonName, "plimsoll webhooks");
        (authority.not_before, authority.not_after) = (from, to);
        let key = KeyPair::generate()?;
        let mut server = CertificateParams::new(vec![name.to_owned()])?;
        server.distinguished_name.push(DnType::CommonName, "plimsoll webhook");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        (server.not_before, server.not_after) = (from, to);
        let issuer = Issuer::from_params(&authority, &authority_key);
        Ok(Self {
            certificate: server.signed_by(&key, &issuer)?.pem(),
            authority: authority.self_signed(&authority_key)?.pem(),
            key: key.serialize_pem(),
        })
    }

    /// Gives what webhook configurations trust.
    pub(super) fn ca_bundle(&self) -> String {
        STANDARD.encode(&self.authority)
    }

    /// Makes the Secret that the Deployment mounts.
    pub(super) fn secret(&self, namespace: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": named(SECRET, namespace),
            "type": "kubernetes.io/tls",
            "data": {
                "ca.crt": STANDARD.encode(&self.authority),
                "tls.crt": STANDARD.encode(&self.certificate),
                "tls.key": STANDARD.encode(&self.key),
            },
        })
    }
}
