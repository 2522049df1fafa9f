//! TLS with client certificates between the provider `externalGrpc` and its server.

use axum::Router;
use plimsoll_connect::providers::ProviderError;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};

use super::cloud::{Cloud, Form};
use super::open;
use crate::engine;
use crate::real::secret;
use crate::server::{Identity, Server};

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Issues a certificate, with its key.
fn issue(authority: &CertifiedIssuer<'static, KeyPair>, name: &str) -> (Identity, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new([name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let pem = format!("{}\n{}", certificate.pem(), key.serialize_pem());
    (Identity { certificate: certificate.der().clone(), key: key.serialize_der() }, pem)
}

#[tokio::test]
async fn both_sides_show_certificates() {
    let (_engine, context) = engine().await;
    let (ours, others) = (authority(), authority());
    let (server_identity, _) = issue(&ours, "127.0.0.1");
    let cloud = Cloud::new(Form::Both);
    let router: Router = cloud.router();
    let server = Server::mutual(router, server_identity, ours.der().clone()).await;
    let address = server.url.strip_prefix("https://").unwrap();

    secret(&context, "ca", "pem", &ours.pem()).await;
    for (name, authority) in [("known", &ours), ("stranger", &others)] {
        secret(&context, name, "pem", &issue(authority, "client").1).await;
    }
    secret(&context, "other-ca", "pem", &others.pem()).await;
    let from = |name: &str| json!({"name": name, "key": "pem"});
    let connection = |tls: Value| json!({"address": address, "timeout": "5s", "tls": tls});
    let shown =
        |name: &str| json!({"caFrom": from("ca"), "certFrom": from(name), "keyFrom": from(name)});
    let provider = open(&context, connection(shown("known")));
    assert_eq!(provider.snapshot().await.unwrap().len(), 0);
    let mut wrong_ca = shown("known");
    wrong_ca["caFrom"] = from("other-ca");
    for tls in [json!({"caFrom": from("ca")}), shown("stranger"), wrong_ca] {
        let error = open(&context, connection(tls)).snapshot().await.unwrap_err();
        assert!(matches!(error, ProviderError::Unavailable { .. }), "{error}");
    }
    let plain = open(&context, json!({"address": address, "timeout": "5s"}));
    assert!(plain.snapshot().await.is_err());
    assert_eq!(cloud.count("Refresh"), 1);
}
