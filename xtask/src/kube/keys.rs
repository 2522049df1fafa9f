//! The certificates and keys of one cluster, generated at each start.

use std::path::Path;

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};

/// Writes `ca.crt`, `server.crt`, `server.key`, `proxy-ca.crt`, `proxy.crt`, `proxy.key`, `service-account.key` and
/// `service-account.pub` into a folder.
pub(super) fn write(folder: &Path) -> anyhow::Result<()> {
    let save = |name: &str, text: String| {
        std::fs::write(folder.join(name), text).with_context(|| format!("could not write {name}"))
    };
    let (authority, authority_key) = authority("plimsoll test cluster")?;
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

    // What the API server shows to aggregated APIs.
    let (proxies, proxies_key) = self::authority("plimsoll test front proxies")?;
    save("proxy-ca.crt", proxies.self_signed(&proxies_key)?.pem())?;
    let proxy_key = KeyPair::generate()?;
    let mut proxy = CertificateParams::new(Vec::<String>::new())?;
    proxy.distinguished_name.push(DnType::CommonName, "front-proxy");
    proxy.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let proxies = Issuer::from_params(&proxies, &proxies_key);
    save("proxy.crt", proxy.signed_by(&proxy_key, &proxies)?.pem())?;
    save("proxy.key", proxy_key.serialize_pem())?;

    let account_key = KeyPair::generate()?;
    save("service-account.key", account_key.serialize_pem())?;
    save("service-account.pub", account_key.public_key_pem())
}

fn authority(name: &str) -> anyhow::Result<(CertificateParams, KeyPair)> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    Ok((params, KeyPair::generate()?))
}
