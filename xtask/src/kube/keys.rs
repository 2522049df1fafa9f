//! The certificates and keys of one cluster, made anew each time it is started.

use std::path::Path;

use anyhow::Context;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// Writes `ca.crt`, `server.crt`, `server.key`, `service-account.key` and `service-account.pub` into a folder.
pub(super) fn write(folder: &Path) -> anyhow::Result<()> {
    let save = |name: &str, text: String| {
        std::fs::write(folder.join(name), text).with_context(|| format!("could not write {name}"))
    };
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::new(Vec::<String>::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "plimsoll test cluster");
    save("ca.crt", authority.self_signed(&authority_key)?.pem())?;

    let names =
        ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc"].map(str::to_owned);
    let server_key = KeyPair::generate()?;
    let server = CertificateParams::new(names.to_vec())?;
    save(
        "server.crt",
        server.signed_by(&server_key, &Issuer::from_params(&authority, &authority_key))?.pem(),
    )?;
    save("server.key", server_key.serialize_pem())?;
    let account_key = KeyPair::generate()?;
    save("service-account.key", account_key.serialize_pem())?;
    save("service-account.pub", account_key.public_key_pem())
}
