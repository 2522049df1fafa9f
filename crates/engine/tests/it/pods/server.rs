//! The kubelet's HTTP API, and the API server without a kubelet.

use std::sync::Arc;

use base64::Engine as _;
use futures::{SinkExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use kube::{Client, Config};
use kubelet::{Local, ServerSettings};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

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

fn server(certificates: &Certificates) -> ServerSettings {
    ServerSettings {
        address: "127.0.0.1:0".parse().unwrap(),
        certificate: certificates.server.0.clone(),
        key: certificates.server.1.clone(),
        client_ca: Some(certificates.ca.clone()),
        token: Some(TOKEN.to_owned()),
    }
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
    let machine = machine(Local { server: Some(server(&all)), ..local() }).await;
    let spec = json!({"restartPolicy": "Never", "containers": [shell("c", "echo one; echo two")]});
    machine.create("a", spec).await;
    machine.until_phase("a", "Succeeded").await;
    machine.create("on", json!({"containers": [shell("c", "exec sleep 1000")]})).await;
    machine.until_phase("on", "Running").await;
    let port = machine.runtime.kubelet_port().unwrap();

    let stranger = client(port, &all, |_| {});
    assert_eq!(code(get(&stranger, "/healthz").await), 401);
    assert_eq!(code(get(&stranger, "/metrics/resource").await), 401);
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
        let measured = get(&known, "/metrics/resource").await.unwrap();
        let of_container = r#"{container="c",namespace="default",pod="on"} "#;
        let of_pod = r#"{namespace="default",pod="on"} "#;
        for series in [
            format!("container_cpu_usage_seconds_total{of_container}"),
            format!("container_memory_working_set_bytes{of_container}"),
            format!("pod_memory_working_set_bytes{of_pod}"),
            "node_cpu_usage_seconds_total ".to_owned(),
        ] {
            assert!(measured.lines().any(|line| line.starts_with(&series)), "{series}: {measured}");
        }
    }
}

#[tokio::test]
async fn thousands_of_silent_clients_do_not_lock_out_the_api_server() {
    let all = certificates();
    let machine = machine(Local { server: Some(server(&all)), ..local() }).await;
    let port = machine.runtime.kubelet_port().unwrap();
    let mut silent = Vec::new();
    // More than there may be connections at all.
    for _ in 0..4200 {
        silent.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
    }
    let known = client(port, &all, |config| {
        config.auth_info.token = Some(TOKEN.to_owned().into());
    });
    assert_eq!(get(&known, "/healthz").await.unwrap(), "ok");
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

/// Opens a websocket to the kubelet.
async fn websocket(
    port: u16,
    certificates: &Certificates,
    path: &str,
    token: &str,
) -> Result<WebSocketStream<TlsStream<TcpStream>>, Error> {
    use rustls::pki_types::pem::PemObject as _;
    let ca = rustls::pki_types::CertificateDer::from_pem_slice(certificates.ca.as_bytes()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(ca).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let stream = connector.connect("127.0.0.1".try_into().unwrap(), stream).await.unwrap();
    let mut request = format!("wss://127.0.0.1:{port}{path}").into_client_request().unwrap();
    let headers = request.headers_mut();
    headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    headers.insert("sec-websocket-protocol", "v4.channel.k8s.io".parse().unwrap());
    tokio_tungstenite::client_async(request, stream).await.map(|(socket, _)| socket)
}

#[tokio::test]
async fn commands_run_over_a_websocket_of_the_kubelet_itself() {
    let all = certificates();
    let machine = machine(Local { server: Some(server(&all)), ..local() }).await;
    machine.create("a", json!({"containers": [shell("c", "sleep 1000")]})).await;
    machine.until_phase("a", "Running").await;
    let port = machine.runtime.kubelet_port().unwrap();
    let path = "/exec/default/a/c?command=sh&command=-c&command=read+word%3B+echo+%24word%3B+exit+3&input=1&output=1";
    for (path, token, code) in [
        (path, "another", 401),
        ("/exec/default/b/c?command=true&output=1", TOKEN, 404),
        ("/exec/default/a/d?command=true&output=1", TOKEN, 404),
        ("/exec/default/a/c?output=1", TOKEN, 400),
        ("/portForward/default/a", TOKEN, 400),
    ] {
        match websocket(port, &all, path, token).await {
            Err(Error::Http(refused)) => assert_eq!(refused.status(), code, "{path}"),
            other => panic!("{path}: {other:?}"),
        }
    }
    let mut socket = websocket(port, &all, path, TOKEN).await.unwrap();
    socket.send(Message::binary(b"\x00hello\n".to_vec())).await.unwrap();
    let (mut output, mut status) = (Vec::new(), Value::Null);
    while let Some(Ok(message)) = socket.next().await {
        match message.into_data().split_first() {
            Some((1, data)) => output.extend_from_slice(data),
            Some((3, data)) => status = serde_json::from_slice(data).unwrap(),
            _ => {}
        }
    }
    assert_eq!(output, b"hello\n");
    assert_eq!(status["details"]["causes"], json!([{"reason": "ExitCode", "message": "3"}]));
}
