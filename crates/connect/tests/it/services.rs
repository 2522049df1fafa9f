//! Webhooks, metric sources and targets by the names of Services on the embedded engine, where no DNS server knows them.

use std::time::Duration;

use axum::routing::{get, post};
use axum::{Json, Router};
use cluster::LOCAL_ADDRESSES_ANNOTATION;
use decide::checks::Window;
use decide::fleet::Reply;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use plimsoll_connect::sources::{self, Answer, Query};
use plimsoll_connect::targets::{self, TargetRef};
use plimsoll_connect::{Ask, Context};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::server::Server;
use crate::{asked, engine, failure, policy, webhook};

fn sizing() -> Router {
    let answer = json!({"response": {"uid": "u1", "scale": true, "replicas": 5}});
    Router::new().route("/scale", post(move || async move { Json::<Value>(answer) }))
}

fn by_service(name: &str, port: u16) -> api::autoscaling::Policy {
    let service = json!({"name": name, "namespace": "default", "port": port, "path": "/scale"});
    policy(json!({"type": "Webhook", "webhook": {"service": service}}))
}

/// Creates a Service whose port 80 is served by a server of the test.
async fn create_service(client: &kube::Client, name: &str, server: &Server) {
    let address = server.url.strip_prefix("http://").unwrap();
    let service = json!({
        "metadata": {
            "name": name,
            "annotations": {LOCAL_ADDRESSES_ANNOTATION: format!("80/TCP={address}")},
        },
        "spec": {"ports": [{"name": "http", "port": 80}, {"name": "other", "port": 81}]},
    });
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    let service = serde_json::from_value(service).unwrap();
    services.create(&PostParams::default(), &service).await.unwrap();
}

#[tokio::test]
async fn a_service_is_called_at_its_local_address_by_each_of_its_names() {
    let server = Server::plain(sizing()).await;
    let (engine, _context) = engine().await;
    create_service(&engine.client(), "sizer", &server).await;
    let ask = Ask::resolving_services(engine.client());
    assert_eq!(asked(&ask, &by_service("sizer", 80)).await, Reply::Scale(5));
    for host in
        ["sizer", "sizer.default", "sizer.default.svc:80", "sizer.default.svc.cluster.local"]
    {
        let reply = asked(&ask, &webhook(&format!("http://{host}/scale"))).await;
        assert_eq!(reply, Reply::Scale(5), "{host}");
    }
    let direct = webhook(&format!("{}/scale", server.url));
    assert_eq!(asked(&ask, &direct).await, Reply::Scale(5), "other addresses are called as ever");
    for (policy, expected) in [
        (by_service("missing", 80), "there is no Service default/missing"),
        (by_service("sizer", 8000), "the Service has no port 8000; its ports are 80, 81"),
        (by_service("sizer", 81), "no proxy on this machine serves the Service"),
    ] {
        let message = failure(&ask, &policy).await;
        assert!(message.contains(expected), "{message}");
    }
}

/// Queries the current value of a source.
async fn number(context: &Context, source: Value) -> Result<Answer, String> {
    let source = sources::open(context, source.as_object().unwrap());
    let source = source.map_err(|error| error.to_string())?;
    let query = Query {
        text: "players".to_owned(),
        target: None,
        window: Window { length: None, offset: SignedDuration::ZERO },
        now: Timestamp::UNIX_EPOCH,
        deadline: Instant::now() + Duration::from_secs(10),
    };
    source.query(&query).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn metric_sources_are_found_by_the_name_of_their_service() {
    let sample = json!({"metric": {}, "value": [0, "7"]});
    let found = json!({"status": "success", "data": {"resultType": "vector", "result": [sample]}});
    let app = Router::new()
        .route("/api/v1/query", get(move || async move { Json::<Value>(found) }))
        .route("/players", get(|| async { "7" }));
    let server = Server::plain(app).await;
    let (engine, context) = engine().await;
    create_service(&engine.client(), "numbers", &server).await;
    let context = Context { resolves_services: true, ..context };
    for host in ["numbers", "numbers.default.svc:80", "numbers.default.svc.cluster.local"] {
        for source in [
            json!({"http": {"url": format!("http://{host}/players")}}),
            json!({"prometheus": {"url": format!("http://{host}")}}),
        ] {
            let Answer::Points(points) = number(&context, source.clone()).await.unwrap() else {
                panic!("{source} has points");
            };
            let newest = points.newest_at(Timestamp::UNIX_EPOCH);
            assert_eq!(newest, Some(Timestamp::UNIX_EPOCH), "{source}");
        }
    }
    let missing = number(&context, json!({"prometheus": {"url": "http://none.default.svc:9090"}}));
    let problem = missing.await.unwrap_err();
    assert!(problem.contains("there is no Service default/none"), "{problem}");
}

#[tokio::test]
async fn a_webhook_that_is_a_target_is_found_by_the_name_of_its_service() {
    let (sent, mut sizes) = tokio::sync::mpsc::unbounded_channel();
    let scale =
        move |Json(body): Json<Value>| async move { drop(sent.send(body["count"].clone())) };
    let app = Router::new().route("/count", get(|| async { "3" })).route("/scale", post(scale));
    let server = Server::plain(app).await;
    let (engine, context) = engine().await;
    create_service(&engine.client(), "games", &server).await;
    let source = json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "MetricSource", "metadata": {"name": "count"},
        "spec": {"http": {"url": "http://games.default.svc/count"}},
    });
    let kind =
        ApiResource::from_gvk(&GroupVersionKind::gvk("plimsoll.dev", "v1alpha1", "MetricSource"));
    let metric_sources: Api<DynamicObject> = Api::all_with(engine.client(), &kind);
    let source = serde_json::from_value(source).unwrap();
    metric_sources.create(&PostParams::default(), &source).await.unwrap();
    let context = Context { resolves_services: true, ..context };
    let spec = json!({"webhook": {"url": "http://games.default.svc/scale", "countFrom": {"source": "count"}}});
    let spec = serde_json::from_value(spec).unwrap();
    let target =
        targets::open(&context, &TargetRef { namespace: "default".to_owned(), spec }).unwrap();
    let status = target.status().await.unwrap();
    assert_eq!(status.count, 3);
    target.scale(5, &status.version).await.unwrap();
    assert_eq!(sizes.recv().await, Some(json!(5)));
}
