//! The kubelet's HTTP API, and the API server without a kubelet.

use base64::Engine as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use kube::{Client, Config};
use kubelet::{Local, ServerSettings};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

use super::{local, machine, shell};
use crate::ephemeral;

const TOKEN: &str = "a token that is long enough";

/// An authority and what it signed, as PEM.
struct Certificates {
    ca: String,
    server: (String, String),
    client: (String, String),
}

fn certificates() -> Certificates {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let ca = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let sign = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    };
    Certificates { ca, server: sign(&["127.0.0.1"]), client: sign(&["kube-apiserver"]) }
}

fn client(port: u16, certificates: &Certificates, edit: impl FnOnce(&mut Config)) -> Client {
    let mut config = Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
    let pem = certificates.ca.as_bytes();
    use rustls::pki_types::pem::PemObject as _;
    let ca = rustls::pki_types::CertificateDer::from_pem_slice(pem).unwrap();
    config.root_cert = Some(vec![ca.to_vec()]);
    config.default_retry = false;
    edit(&mut config);
    Client::try_from(config).unwrap()
}

async fn get(client: &Client, path: &str) -> kube::Result<String> {
    client.request_text(http::Request::get(path).body(Vec::new()).unwrap()).await
}

fn code(answer: kube::Result<String>) -> u16 {
    match answer {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn logs_pods_and_health_are_served_to_those_who_may_ask() {
    let all = certificates();
    let server = ServerSettings {
        address: "127.0.0.1:0".parse().unwrap(),
        certificate: all.server.0.clone(),
        key: all.server.1.clone(),
        client_ca: Some(all.ca.clone()),
        token: Some(TOKEN.to_owned()),
    };
    let machine = machine(Local { server: Some(server), ..local() }).await;
    let spec = json!({"restartPolicy": "Never", "containers": [shell("c", "echo one; echo two")]});
    machine.create("a", spec).await;
    machine.until_phase("a", "Succeeded").await;
    let port = machine.runtime.kubelet_port().unwrap();

    let stranger = client(port, &all, |_| {});
    assert_eq!(code(get(&stranger, "/healthz").await), 401);
    let wrong = client(port, &all, |config| {
        config.auth_info.token = Some("another".to_owned().into());
    });
    assert_eq!(code(get(&wrong, "/containerLogs/default/a/c").await), 401);
    let with_token = client(port, &all, |config| {
        config.auth_info.token = Some(TOKEN.to_owned().into());
    });
    let with_certificate = client(port, &all, |config| {
        let encode = |pem: &str| base64::engine::general_purpose::STANDARD.encode(pem);
        config.auth_info.client_certificate_data = Some(encode(&all.client.0));
        config.auth_info.client_key_data = Some(encode(&all.client.1).into());
    });
    for known in [with_token, with_certificate] {
        assert_eq!(get(&known, "/healthz").await.unwrap(), "ok");
        let logs = "/containerLogs/default/a/c";
        assert_eq!(get(&known, logs).await.unwrap(), "one\ntwo\n");
        let followed = format!("{logs}?follow=true&tailLines=1");
        assert_eq!(get(&known, &followed).await.unwrap(), "two\n");
        assert_eq!(code(get(&known, &format!("{logs}?previous=true")).await), 400);
        assert_eq!(code(get(&known, "/containerLogs/default/b/c").await), 404);
        let pods: Value = serde_json::from_str(&get(&known, "/pods").await.unwrap()).unwrap();
        assert_eq!(pods["items"][0]["metadata"]["name"], "a");
    }
}

#[tokio::test]
async fn without_a_kubelet_logs_are_those_of_a_node_that_does_not_answer() {
    let engine = ephemeral().await;
    let pods: Api<Pod> = Api::default_namespaced(engine.client());
    for (name, node) in [("bound", json!("n")), ("waiting", json!(null))] {
        let spec = json!({"nodeName": node, "containers": [{"name": "c", "image": "i"}]});
        let pod = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}));
        pods.create(&PostParams::default(), &pod.unwrap()).await.unwrap();
    }
    assert_eq!(pods.logs("waiting", &Default::default()).await.unwrap(), "");
    let Err(kube::Error::Api(status)) = pods.logs("bound", &Default::default()).await else {
        panic!("no kubelet answers");
    };
    assert_eq!((status.code, &*status.reason), (500, "InternalError"));
    assert!(status.message.contains("/containerLogs/default/bound/c"), "{}", status.message);
}
