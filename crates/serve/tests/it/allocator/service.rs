//! The gRPC and REST endpoints for matchmakers.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Request, header};
use http_body_util::BodyExt as _;
use plimsoll_serve::allocator::{
    self, Allocator, Bounds, Endpoints, ServeError, Settings, serve, service,
};
use plimsoll_serve::proto::allocation::allocation_service_client::AllocationServiceClient;
use plimsoll_serve::proto::allocation::{
    AllocationRequest, CounterAction, GameServerSelector, MetaPatch,
};
use plimsoll_serve::tls;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};
use tonic::Code;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tower::ServiceExt as _;

use super::World;
use super::certificates::{Authority, Pair, files};
use super::world::{followed, start};

/// An allocator that listens, until this is dropped.
pub(crate) struct Listening {
    pub(crate) port: u16,
    _stop: oneshot::Sender<()>,
    pub(crate) ended: tokio::task::JoinHandle<Result<(), ServeError>>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.ended.abort();
    }
}

pub(crate) async fn listen(world: &World, tls: Option<tls::CertificateFiles>) -> Listening {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (stop, stopped) = oneshot::channel::<()>();
    let endpoint = allocator::Endpoint { listener, tls, allow_anonymous: false };
    let endpoints = Endpoints { matchmakers: Some(endpoint), ..Endpoints::default() };
    let stopped = async move {
        let _ = stopped.await;
    };
    let (client, settings) = (world.engine.client(), Settings::default());
    let caches = followed(&client, true, &settings.supervisor);
    let serving = serve(client, caches, settings, endpoints, stopped);
    Listening { port, _stop: stop, ended: tokio::spawn(serving) }
}

async fn plain(listening: &Listening) -> AllocationServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{}", listening.port)).unwrap();
    connected(endpoint).await.expect("it listens")
}

/// Connects, with patience for a server that is just starting.
async fn connected(
    endpoint: Endpoint,
) -> Result<AllocationServiceClient<Channel>, tonic::transport::Error> {
    let endpoint = endpoint.connect_timeout(Duration::from_secs(30));
    endpoint.connect().await.map(AllocationServiceClient::new)
}

/// Returns an endpoint with the caller's certificate.
fn trusted(port: u16, authority: &Authority, caller: Option<&Pair>) -> Endpoint {
    let mut tls = ClientTlsConfig::new()
        .domain_name("localhost")
        .ca_certificate(Certificate::from_pem(&authority.pem));
    if let Some(caller) = caller {
        tls = tls.identity(Identity::from_pem(&caller.certificate, &caller.key));
    }
    Endpoint::from_shared(format!("https://127.0.0.1:{port}")).unwrap().tls_config(tls).unwrap()
}

fn request(selector: GameServerSelector) -> AllocationRequest {
    AllocationRequest { game_server_selectors: vec![selector], ..AllocationRequest::default() }
}

#[tokio::test]
async fn a_matchmaker_gets_a_server_by_grpc() {
    let world = World::new().await;
    world.ready("a", json!({"counters": {"rooms": {"count": 1, "capacity": 10}}})).await;
    let listening = listen(&world, None).await;
    let mut client = plain(&listening).await;
    let one =
        CounterAction { action: Some("Increment".to_owned()), amount: Some(1), capacity: None };
    let labels = |key: &str| MetaPatch {
        labels: [(key.to_owned(), "x".to_owned())].into(),
        ..MetaPatch::default()
    };
    let asked = AllocationRequest {
        namespace: String::new(),
        metadata: Some(labels("new")),
        meta_patch: Some(labels("old")),
        counters: [("rooms".to_owned(), one)].into(),
        ..request(GameServerSelector {
            match_labels: [("agones.dev/fleet".to_owned(), "f".to_owned())].into(),
            ..GameServerSelector::default()
        })
    };
    let answer = client.allocate(asked).await.unwrap().into_inner();
    assert_eq!(
        (&*answer.game_server_name, &*answer.address, &*answer.node_name),
        ("a", "10.0.0.1", "n1")
    );
    assert_eq!((&*answer.ports[0].name, answer.ports[0].port), ("game", 7000));
    assert_eq!((&*answer.source, &*answer.addresses[0].r#type), ("local", "InternalIP"));
    assert_eq!(answer.counters["rooms"].count, Some(2));
    let metadata = answer.metadata.unwrap();
    assert!(metadata.labels.contains_key("new") && !metadata.labels.contains_key("old"));
    let none = client.allocate(request(GameServerSelector::default())).await.unwrap_err();
    assert_eq!(none.code(), Code::ResourceExhausted);
    let invalid = AllocationRequest {
        counters: [(
            "rooms".to_owned(),
            CounterAction { amount: Some(-1), ..CounterAction::default() },
        )]
        .into(),
        ..AllocationRequest::default()
    };
    let invalid = client.allocate(invalid).await.unwrap_err();
    assert_eq!(invalid.code(), Code::InvalidArgument);
    assert!(invalid.message().contains("spec.counters[rooms].amount"), "{}", invalid.message());
}

async fn rest(allocator: &Allocator, body: &str) -> (u16, Option<String>, Value) {
    let request = Request::post("/gameserverallocation")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_owned()))
        .unwrap();
    let answer = service::router(allocator.clone()).oneshot(request).await.unwrap();
    let code = answer.status().as_u16();
    let retry = answer.headers().get(header::RETRY_AFTER).map(|v| v.to_str().unwrap().to_owned());
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, retry, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn a_matchmaker_gets_a_server_by_rest() {
    let world = World::new().await;
    let more = json!({"counters": {"rooms": {"count": 1, "capacity": 10}}, "lists": {"players": {"capacity": 2, "values": ["x"]}}});
    world.ready("a", more).await;
    let allocator = world.allocator().await;
    let body = r#"{"namespace": "default", "scheduling": "Distributed", "metadata": {"labels": {"a": "b"}},
        "gameServerSelectors": [{"matchLabels": {"agones.dev/fleet": "f"}, "gameServerState": 0, "players": {"minAvailable": "1"},
        "matchExpressions": [{"key": "agones.dev/fleet", "operator": "Exists"}], "counters": {"rooms": {"minAvailable": "1"}}}],
        "priorities": [{"type": "Counter", "key": "rooms", "order": 1}],
        "counters": {"rooms": {"action": "Increment", "amount": "2"}}}"#;
    let (code, _, answer) = rest(&allocator, body).await;
    assert_eq!(code, 200, "{answer}");
    let stored = world.server("a").await;
    assert_eq!(
        answer,
        json!({
            "gameServerName": "a", "ports": [{"name": "game", "port": 7000}], "address": "10.0.0.1",
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "nodeName": "n1", "source": "local",
            "metadata": {"labels": stored["metadata"]["labels"], "annotations": stored["metadata"]["annotations"]},
            "counters": {"rooms": {"count": "3", "capacity": "10"}},
            "lists": {"players": {"values": ["x"], "capacity": "2"}},
        })
    );
    for (body, code, number) in [
        ("{}", 429, 8),
        (r#"{"gameServerSelectors": [{"counters": {"rooms": {"minCount": "-1"}}}]}"#, 400, 3),
        (r#"{"namespace": 7}"#, 400, 3),
        ("{", 400, 3),
        (r#"{"multiClusterSetting": {"enabled": true}}"#, 500, 2),
    ] {
        let (status, _, answer) = rest(&allocator, body).await;
        assert_eq!((status, &answer["code"]), (code, &json!(number)), "{body}: {answer}");
        assert!(answer["message"].is_string());
    }
}

#[tokio::test]
async fn overload_is_not_taken_for_having_no_server() {
    let world = World::with_ready(1).await;
    let bounds = Bounds { writes: 1, waiting_per_namespace: 0, waiting: 0 };
    let is_sent = Arc::new(Notify::new());
    let sent = Arc::clone(&is_sent);
    let never = world.client_through(Arc::new(move |passing| {
        let sent = Arc::clone(&sent);
        Box::pin(async move {
            if passing.is_write() {
                sent.notify_one();
                std::future::pending::<()>().await;
            }
            Ok(())
        })
    }));
    let allocator = start(never, true, Settings { bounds, ..Settings::default() }).await;
    let stuck = tokio::spawn({
        let allocator = allocator.clone();
        async move { rest(&allocator, "{}").await }
    });
    is_sent.notified().await;
    let (code, retry, answer) = rest(&allocator, "{}").await;
    assert_eq!((code, retry.as_deref(), &answer["code"]), (503, Some("1"), &json!(14)));
    stuck.abort();
}

#[tokio::test]
async fn callers_show_a_certificate_and_certificates_may_change() {
    let world = World::with_ready(10).await;
    let (servers, callers, others) =
        (Authority::new("servers"), Authority::new("callers"), Authority::new("others"));
    let dir = tempfile::tempdir().unwrap();
    let tls = files(dir.path(), &servers.server(&["localhost"]), &callers);
    let listening = listen(&world, Some(tls)).await;
    let known = callers.caller("matchmaker");
    let mut client = connected(trusted(listening.port, &servers, Some(&known))).await.unwrap();
    client.allocate(AllocationRequest::default()).await.unwrap();
    for stranger in [None, Some(&others.caller("matchmaker"))] {
        let refused = match connected(trusted(listening.port, &servers, stranger)).await {
            Ok(mut client) => client.allocate(AllocationRequest::default()).await.is_err(),
            Err(_) => true,
        };
        assert!(refused, "strangers are not let in");
    }
    // The server gets a certificate of another authority, and other callers may call.
    let (new_servers, new) = (Authority::new("new"), others.caller("matchmaker"));
    files(dir.path(), &new_servers.server(&["localhost"]), &others);
    let changed = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            if let Ok(mut client) =
                connected(trusted(listening.port, &new_servers, Some(&new))).await
                && client.allocate(AllocationRequest::default()).await.is_ok()
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    changed.await.expect("what is new is used");
    client.allocate(AllocationRequest::default()).await.expect("a connection that is there stays");
}

#[tokio::test]
async fn non_loopback_addresses_require_tls_and_a_client_ca() {
    let world = World::new().await;
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("servers");
    let open = tls::CertificateFiles {
        client_ca: None,
        ..files(dir.path(), &authority.server(&["localhost"]), &authority)
    };
    for (tls, expected) in
        [(None, "a TLS certificate and key are required"), (Some(open), "a client CA is required")]
    {
        // Listened on for a moment and never accepted from.
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let endpoint = allocator::Endpoint { listener, tls, allow_anonymous: false };
        let endpoints = Endpoints { matchmakers: Some(endpoint), ..Endpoints::default() };
        let (client, settings) = (world.engine.client(), Settings::default());
        let caches = followed(&client, true, &settings.supervisor);
        let refused = serve(client, caches, settings, endpoints, std::future::pending()).await;
        assert!(refused.unwrap_err().to_string().contains(expected));
    }
}
