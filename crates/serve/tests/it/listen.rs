//! Idle connections do not block other clients, on any listener.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cluster::{Caches, DecisionCounts};
use control::nodes::NodeMetrics;
use engine::{Engine, Settings};
use plimsoll_serve::allocator::Endpoints;
use plimsoll_serve::metrics::Metrics;
use plimsoll_serve::sdk::{self, Listeners};
use plimsoll_serve::tls::{CertificateFiles, CertificateWatcher};
use plimsoll_serve::{admission, allocator, listen};
use process::{Clock, Supervisor};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use crate::allocator::world::followed;

/// More than there may be connections at all.
const SILENT: usize = 4200;

/// How long an honest client waits for its answer.
const PATIENCE: Duration = Duration::from_secs(60);

async fn silent(address: SocketAddr) -> Vec<TcpStream> {
    let mut all = Vec::new();
    for _ in 0..SILENT {
        all.push(TcpStream::connect(address).await.unwrap());
    }
    all
}

async fn bound() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Asks as an honest client does, and expects an answer.
async fn answers(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str) {
    let asked = async {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("an answer");
}

#[tokio::test]
async fn thousands_of_silent_clients_do_not_lock_out_prometheus() {
    let (listener, address) = bound().await;
    let mut tasks = JoinSet::new();
    let router =
        Metrics::new(&Caches::new(None, false), DecisionCounts::default(), NodeMetrics::default())
            .router();
    tasks.spawn(listen::serve(listener, None, router, std::future::pending()));
    let _silent = silent(address).await;
    answers(TcpStream::connect(address).await.unwrap(), "/metrics").await;
}

#[tokio::test]
async fn thousands_of_silent_clients_do_not_lock_out_the_api_server_that_calls_webhooks() {
    let files = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(files.path().join("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(files.path().join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    let (shown, supervisor) = (CertificateFiles::in_directory(files.path()), Supervisor::new());
    let certificates = CertificateWatcher::from_files(shown, &supervisor).await.unwrap();
    let (listener, address) = bound().await;
    let mut tasks = JoinSet::new();
    let router = admission::router(Clock::system());
    tasks.spawn(listen::serve(listener, Some(certificates), router, std::future::pending()));
    let _silent = silent(address).await;
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let connected = TlsConnector::from(Arc::new(config)).connect(name, stream);
    let stream = tokio::time::timeout(PATIENCE, connected).await.expect("a handshake").unwrap();
    answers(stream, "/healthz").await;
}

#[tokio::test]
async fn thousands_of_idle_connections_do_not_block_the_client_of_the_sdk_server() {
    let engine = Engine::open(Settings::ephemeral()).await.unwrap();
    let ((grpc, grpc_at), (http, http_at)) = (bound().await, bound().await);
    let (health, health_at) = bound().await;
    let listeners = Listeners { grpc, http, health: Some(health) };
    let settings = sdk::Settings::new("default", "gs");
    let mut tasks = JoinSet::new();
    tasks.spawn(sdk::run(engine.client(), settings, listeners, std::future::pending()));
    for address in [grpc_at, http_at, health_at] {
        let _silent = silent(address).await;
        let stream = TcpStream::connect(address).await.unwrap();
        if address == health_at {
            answers(stream, "/healthz").await;
        } else {
            speaks(stream).await;
        }
    }
}

#[tokio::test]
async fn thousands_of_silent_clients_do_not_lock_out_matchmakers() {
    let engine = Engine::open(Settings::ephemeral()).await.unwrap();
    let (listener, address) = bound().await;
    let settings = allocator::Settings::default();
    let endpoint = allocator::Endpoint { listener, tls: None, allow_anonymous: false };
    let endpoints = Endpoints { matchmakers: Some(endpoint), ..Endpoints::default() };
    let (client, stop) = (engine.client(), std::future::pending());
    let caches = followed(&client, true, &settings.supervisor);
    let mut tasks = JoinSet::new();
    tasks.spawn(allocator::serve(client, caches, settings, endpoints, stop));
    let _silent = silent(address).await;
    speaks(TcpStream::connect(address).await.unwrap()).await;
}

/// Expects any answer at all.
async fn speaks(mut stream: TcpStream) {
    let asked = async {
        stream.write_all(b"GET /nothing HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut answer = [0; 8];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1");
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("an answer");
}
