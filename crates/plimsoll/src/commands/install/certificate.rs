//! How do callers know us, and how do we know them? By certificates of one authority, which signs nothing after this.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use serde_json::{Value, json};

use super::named;

/// Who signs. Its key is never printed, and thrown away with it.
pub(super) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, with who signed it, as a Secret has them.
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

    /// Makes what a server shows that is reached by the name of a Service.
    pub(super) fn server(&self, service: &str, namespace: &str) -> anyhow::Result<Pair> {
        let name = format!("{service}.{namespace}.svc");
        let names = vec![format!("{name}.cluster.local"), name];
        self.sign(lasting(service, names)?, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Makes what a caller shows.
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

    /// Gives what the API server trusts, as its objects have it.
    pub(super) fn bundle(&self) -> String {
        STANDARD.encode(&self.pem)
    }

    /// Makes the Secret that names the authority of callers. More can be added to it.
    pub(super) fn secret(&self, name: &str, namespace: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": named(name, namespace),
            "type": "Opaque", "data": {"ca.crt": self.bundle()},
        })
    }
}

impl Pair {
    /// Makes the Secret that someone mounts.
    pub(super) fn secret(&self, name: &str, namespace: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": named(name, namespace),
            "type": "kubernetes.io/tls", "data": self.0,
        })
    }
}

/// Long ago to long from now: clocks of clusters differ, and a new certificate is an `install` away.
fn lasting(name: &str, names: Vec<String>) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, name);
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2046, 1, 1));
    Ok(params)
}
