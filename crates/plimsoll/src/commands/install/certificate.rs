//! Server and client certificates, issued by a CA that is generated for one installation and then discarded.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use serde_json::{Value, json};

use super::named;

/// A CA whose key is never printed and is discarded with it.
pub(super) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key and CA, in the form of a Secret's data.
pub(super) struct Pair(Value);

impl Authority {
    pub(super) fn make() -> anyhow::Result<Self> {
        let mut params = lasting("plimsoll", Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { pem, issuer: Issuer::new(params, key) })
    }

    /// Issues a server certificate for the DNS names of a Service.
    pub(super) fn server(&self, service: &str, namespace: &str) -> anyhow::Result<Pair> {
        let name = format!("{service}.{namespace}.svc");
        let names = vec![format!("{name}.cluster.local"), name];
        self.sign(lasting(service, names)?, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Issues a client certificate.
    pub(super) fn caller(&self, name: &str) -> anyhow::Result<Pair> {
        self.sign(lasting(name, Vec::new())?, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
    ) -> anyhow::Result<Pair> {
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Pair(json!({
            "ca.crt": self.bundle(),
            "tls.crt": STANDARD.encode(certificate),
            "tls.key": STANDARD.encode(key.serialize_pem()),
        })))
    }

    /// Returns the CA certificate in the form of a `caBundle`.
    pub(super) fn bundle(&self) -> String {
        STANDARD.encode(&self.pem)
    }

    /// Returns the Secret with the CAs of clients. Users can add more.
    pub(super) fn secret(&self, name: &str, namespace: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": named(name, namespace),
            "type": "Opaque", "data": {"ca.crt": self.bundle()},
        })
    }
}

impl Pair {
    /// Returns the TLS Secret.
    pub(super) fn secret(&self, name: &str, namespace: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": named(name, namespace),
            "type": "kubernetes.io/tls", "data": self.0,
        })
    }
}

/// Returns parameters with a long validity: the clocks of clusters differ, and running `install` again replaces the certificate.
fn lasting(name: &str, names: Vec<String>) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, name);
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2046, 1, 1));
    Ok(params)
}
