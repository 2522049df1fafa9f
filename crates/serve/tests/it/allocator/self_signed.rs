//! Certificates as described in Agones' documentation: self-signed, and marked as a CA.

use std::path::Path;
use std::process::Command;

use api::allocation::AllocationState;
use connect::trust::TrustStore;
use plimsoll_serve::proto::allocation::AllocationRequest;
use plimsoll_serve::proto::allocation::allocation_service_client::AllocationServiceClient;
use plimsoll_serve::tls::CertificateFiles;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, date_time_ymd};
use serde_json::json;
use tonic::transport::{ClientTlsConfig, Endpoint, Identity};

use super::World;
use super::certificates::Pair;
use super::clusters::{policy, secret};
use super::service::{Listening, listen};
use super::world::allocation;

/// Makes a certificate with `openssl req -x509`.
fn openssl(dir: &Path, name: &str) -> Pair {
    let (certificate, key) = (dir.join(format!("{name}.crt")), dir.join(format!("{name}.key")));
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-keyout"]);
    command
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .args(["-subj", &format!("/CN={name}/O={name}")]);
    let made = command.args(["-addext", "subjectAltName=DNS:localhost"]).output();
    let made = made.expect("openssl is there");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let read = |path| std::fs::read_to_string(path).unwrap();
    Pair { certificate: read(certificate), key: read(key) }
}

/// Makes one of the same kind that was valid until yesteryear.
fn expired() -> Pair {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "expired");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    Pair { certificate, key: key.serialize_pem() }
}

/// Writes the files of a server that accepts only clients with one of these self-signed certificates.
fn files(dir: &Path, server: &Pair, clients: &[&Pair]) -> CertificateFiles {
    let (certificate, key) = server.write(dir, "tls");
    let folder = dir.join("callers");
    std::fs::create_dir_all(&folder).unwrap();
    for (index, client) in clients.iter().enumerate() {
        std::fs::write(folder.join(format!("{index}.crt")), &client.certificate).unwrap();
    }
    CertificateFiles { certificate, key, client_ca: Some(folder) }
}

/// Allocates a game server over mutual TLS: trusts `trusted` and presents the certificate of `caller`.
async fn allocate(
    listening: &Listening,
    trusted: &Pair,
    name: &str,
    caller: &Pair,
) -> Result<String, String> {
    let verifier = TrustStore::from_pem(trusted.certificate.as_bytes()).unwrap();
    let identity = Identity::from_pem(&caller.certificate, &caller.key);
    let tls = ClientTlsConfig::new().domain_name(name).identity(identity);
    let endpoint = Endpoint::from_shared(format!("https://127.0.0.1:{}", listening.port)).unwrap();
    let endpoint = endpoint.tls_config_with_verifier(tls, verifier.server_verifier().unwrap());
    let channel = endpoint.unwrap().connect().await.map_err(|err| format!("{err:?}"))?;
    let answer = AllocationServiceClient::new(channel).allocate(AllocationRequest::default()).await;
    answer.map(|given| given.into_inner().game_server_name).map_err(|err| format!("{err:?}"))
}

#[tokio::test]
async fn self_signed_certificates_of_openssl_are_accepted_when_they_are_trusted_themselves() {
    let world = World::with_ready(1).await;
    let dir = tempfile::tempdir().unwrap();
    let [server, caller, stranger] =
        ["server", "caller", "stranger"].map(|name| openssl(dir.path(), name));
    let past = expired();
    let tls = files(dir.path(), &server, &[&caller, &past]);
    let listening = listen(&world, Some(tls)).await;
    let refused = allocate(&listening, &server, "localhost", &stranger).await;
    assert!(refused.is_err(), "this certificate is not in the folder: {refused:?}");
    let refused = allocate(&listening, &server, "localhost", &past).await;
    assert!(refused.is_err(), "this one is, and has expired: {refused:?}");
    let refused = allocate(&listening, &server, "other.example", &caller).await;
    assert!(refused.is_err(), "the server is called by another name: {refused:?}");
    let refused = allocate(&listening, &stranger, "localhost", &caller).await;
    assert!(refused.is_err(), "the server is another one: {refused:?}");
    assert_eq!(allocate(&listening, &server, "localhost", &caller).await, Ok("s0000".to_owned()));
}

#[tokio::test]
async fn another_cluster_is_asked_by_self_signed_certificates() {
    let (here, there) = (World::new().await, World::with_ready(1).await);
    let dir = tempfile::tempdir().unwrap();
    let [server, caller] = ["server", "caller"].map(|name| openssl(dir.path(), name));
    let tls = files(dir.path(), &server, &[&caller]);
    let listening = listen(&there, Some(tls)).await;
    secret(&here, &caller, &server.certificate).await;
    let endpoint = format!("localhost:{}", listening.port);
    let info = json!({"clusterName": "there", "namespace": "default", "secretName": "client",
                      "allocationEndpoints": [endpoint]});
    policy(&here, "remote", 1, info).await;
    let allocator = here.allocator().await;
    let asked = allocation(json!({"multiClusterSetting": {"enabled": true}}));
    let answer = allocator.allocate(&asked).await.unwrap();
    assert_eq!((answer.state, &*answer.source), (AllocationState::Allocated, &*endpoint));
}
