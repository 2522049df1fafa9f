//! Sources and targets on stand-ins for their HTTP APIs: Nomad and Rancher, which cannot be had here, the receiver of a webhook, and
//! RabbitMQ with answers that a real one does not give.

use std::sync::{Arc, Mutex};

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use plimsoll_connect::Context;
use plimsoll_connect::sources::Answer;
use plimsoll_connect::targets::{self, Target, TargetError};
use serde_json::{Value, json};

use crate::engine;
use crate::real::{ask, ask_about, free_port, open, secret, stand_in, target, value};
use crate::server::Server;

fn open_target(context: &Context, spec: Value) -> Arc<dyn Target> {
    targets::open(context, &target(spec)).map_err(|err| err.to_string()).unwrap()
}

/// Serves MetricSources by name, as the API server does.
async fn sources(specs: Value) -> (Server, Context) {
    let serve = move |Path(name): Path<String>| async move {
        let Some(spec) = specs.get(&name) else {
            let status = json!({
                "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "not found",
            });
            return (StatusCode::NOT_FOUND, Json(status)).into_response();
        };
        let object = json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "MetricSource", "metadata": {"name": name}, "spec": spec,
        });
        Json(object).into_response()
    };
    stand_in(Router::new().route("/apis/plimsoll.dev/v1alpha1/metricsources/{name}", get(serve)))
        .await
}

/// Answers about queues as RabbitMQ's management API does.
async fn queue(Path((vhost, name)): Path<(String, String)>, headers: HeaderMap) -> Response {
    // guest:s3cret
    if headers.get("authorization").is_none_or(|given| given != "Basic Z3Vlc3Q6czNjcmV0") {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    assert_eq!(vhost, "/");
    let stats = json!({"publish_details": {"rate": 2.5}});
    let jobs = json!({"name": "jobs", "messages": 7, "messages_ready": 5, "message_stats": stats});
    match name.as_str() {
        "jobs" => Json(jobs).into_response(),
        "new" => Json(json!({"name": "new"})).into_response(),
        "odd" => Json(json!(["x"])).into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

#[tokio::test]
async fn rabbitmq_counts_the_messages_of_a_queue() {
    let server = Server::plain(Router::new().route("/api/queues/{vhost}/{name}", get(queue))).await;
    let (_engine, context) = engine().await;
    secret(&context, "rabbit", "password", "s3cret").await;
    secret(&context, "wrong", "password", "other").await;
    let spec = |name: &str| {
        let auth = json!({"username": "guest", "passwordFrom": {"name": name, "key": "password"}});
        json!({"rabbitmq": {"url": server.url, "basicAuth": auth}})
    };
    let source = open(&context, spec("rabbit"));
    for (query, wanted) in
        [("jobs/messages", 7.0), ("jobs/messages_ready", 5.0), ("jobs/publish_rate", 2.5)]
    {
        assert_eq!(value(&ask(&*source, query).await), wanted, "{query}");
    }
    assert_eq!(ask(&*source, "new/messages").await, Ok(Answer::NoData));
    for (query, problem) in [
        ("odd/messages", "answered with something other than a queue"),
        ("none/messages", "there is no queue `none` in the virtual host `/`"),
    ] {
        let found = ask(&*source, query).await.unwrap_err();
        assert!(found.ends_with(problem), "{found}");
    }
    let refused = ask(&*open(&context, spec("wrong")), "jobs/messages").await.unwrap_err();
    assert!(
        refused.contains("refused the credentials: 401") && !refused.contains("other"),
        "{refused}"
    );
    let unused = format!("http://127.0.0.1:{}", free_port().await);
    let down = open(&context, json!({"rabbitmq": {"url": unused}}));
    let down = ask(&*down, "jobs/messages").await.unwrap_err();
    assert!(down.starts_with("could not reach "), "{down}");
}

/// A job `web` with a group `api` of some size, at some modify index.
type Job = Arc<Mutex<(u32, u64)>>;

async fn scale_job(State(job): State<Job>, Json(request): Json<Value>) -> Response {
    let mut job = job.lock().unwrap();
    let index = request["JobModifyIndex"].as_u64().unwrap();
    if index != job.1 {
        let text = format!(
            "Enforcing job modify index {index}: job exists with conflicting job modify index: {}",
            job.1
        );
        return (StatusCode::INTERNAL_SERVER_ERROR, text).into_response();
    }
    let count = u32::try_from(request["Count"].as_u64().unwrap()).unwrap();
    if count > 10 {
        return (
            StatusCode::BAD_REQUEST,
            "group count was greater than scaling policy maximum: 11 > 10",
        )
            .into_response();
    }
    *job = (count, job.1 + 1);
    Json(json!({"EvalID": "e", "JobModifyIndex": job.1})).into_response()
}

fn nomad(job: Job) -> Router {
    let read = |State(job): State<Job>| async move {
        let (count, index) = *job.lock().unwrap();
        let group = json!({"Desired": count, "Running": count - 1, "Healthy": 0, "Unhealthy": 0});
        Json(
            json!({"JobID": "web", "JobModifyIndex": index, "JobStopped": false, "TaskGroups": {"api": group}}),
        )
    };
    let allocation = |id: &str, group: &str, status: &str| json!({"ID": id, "TaskGroup": group, "ClientStatus": status});
    let allocations = json!([
        allocation("1", "api", "running"),
        allocation("2", "api", "running"),
        allocation("3", "api", "complete"),
        allocation("4", "db", "running")
    ]);
    let stats = |Path(id): Path<u32>| async move {
        let usage = json!({"CpuStats": {"Percent": 10 * id, "TotalTicks": 100 * id}, "MemoryStats": {"Usage": (64 * id) << 20, "RSS": 0}});
        Json(json!({"ResourceUsage": usage, "Tasks": {}, "Timestamp": 0}))
    };
    let tasks = json!({"TaskGroups": [{"Name": "api", "Tasks": [{"Resources": {"CPU": 500, "MemoryMB": 128}}]}]});
    Router::new()
        .route("/v1/job/web/scale", get(read).put(scale_job))
        .route("/v1/job/web/allocations", get(move || async move { Json(allocations) }))
        .route("/v1/job/web", get(move || async move { Json(tasks) }))
        .route("/v1/client/allocation/{id}/stats", get(stats))
        .with_state(job)
}

#[tokio::test]
async fn a_nomad_group_is_measured_and_scaled_at_the_index_that_was_read() {
    let job = Job::new(Mutex::new((3, 7)));
    let server = Server::plain(nomad(Arc::clone(&job))).await;
    let settings = json!({"nomad": {"address": server.url}});
    let unused = json!({"nomad": {"address": format!("http://127.0.0.1:{}", free_port().await)}});
    let specs = json!({"nomad": settings, "other": {"redis": {}}, "down": unused});
    let (_api, context) = sources(specs).await;
    let source = open(&context, settings);
    let spec = json!({"nomad": {"job": "web", "group": "api"}});
    for (query, wanted) in [
        ("avg_cpu", 15.0),
        ("max_cpu", 20.0),
        ("sum_cpu-allocated", 60.0),
        ("min_memory-allocated", 50.0),
        ("taskgroup_avg_cpu/db/web@default", 40.0),
    ] {
        assert_eq!(
            value(&ask_about(&*source, query, Some(target(spec.clone()))).await),
            wanted,
            "{query}"
        );
    }
    assert_eq!(ask(&*source, "taskgroup_avg_cpu/none/web@default").await, Ok(Answer::NoData));
    let missing = ask(&*source, "taskgroup_avg_cpu/api/none@default").await.unwrap_err();
    assert!(missing.ends_with("job none does not exist"), "{missing}");

    let group = open_target(&context, spec);
    let status = group.status().await.unwrap();
    assert_eq!((status.count, status.ready, status.version.as_str()), (3, 2, "7"));
    group.scale(5, &status.version).await.unwrap();
    assert_eq!(*job.lock().unwrap(), (5, 8));
    let stale = group.scale(6, &status.version).await.unwrap_err();
    assert!(matches!(stale, TargetError::Conflict { .. }), "{stale}");
    let status = group.status().await.unwrap();
    let refused = group.scale(11, &status.version).await.unwrap_err();
    assert!(matches!(refused, TargetError::Refused { .. }), "{refused}");
    let of = |source: &str| {
        open_target(&context, json!({"nomad": {"job": "web", "group": "api", "source": source}}))
    };
    let wrong = of("other").status().await.unwrap_err().to_string();
    assert_eq!(wrong, "nomad job web group api: MetricSource other: is not of the type nomad");
    let none = of("none").status().await.unwrap_err().to_string();
    assert_eq!(none, "nomad job web group api: MetricSource none: does not exist");
    let down = of("down").status().await.unwrap_err();
    assert!(matches!(down, TargetError::Unavailable { .. }), "{down}");
}

#[tokio::test]
async fn a_rancher_service_is_scaled_if_its_scale_is_the_one_that_was_read() {
    let scale = Arc::new(Mutex::new(3));
    let read = |State(scale): State<Arc<Mutex<u64>>>| async move {
        let scale = *scale.lock().unwrap();
        Json(
            json!({"id": "1s5", "type": "service", "state": "active", "scale": scale, "currentScale": scale}),
        )
    };
    let write = |State(scale): State<Arc<Mutex<u64>>>, Json(change): Json<Value>| async move {
        assert_eq!(change["scale"], change["currentScale"]);
        *scale.lock().unwrap() = change["scale"].as_u64().unwrap();
        Json(json!({"id": "1s5"}))
    };
    let app = Router::new().route("/v2-beta/projects/1a5/services/1s5", get(read).put(write));
    let server = Server::plain(app.with_state(Arc::clone(&scale))).await;
    let settings = json!({"rancher": {"url": format!("{}/v2-beta", server.url), "project": "1a5"}});
    let (_api, context) = sources(json!({"rancher": settings})).await;
    let service = open_target(&context, json!({"rancher": {"service": "1s5"}}));
    let status = service.status().await.unwrap();
    assert_eq!((status.count, status.ready), (3, 3));
    service.scale(4, &status.version).await.unwrap();
    assert_eq!(*scale.lock().unwrap(), 4);
    let stale = service.scale(5, &status.version).await.unwrap_err();
    assert!(matches!(stale, TargetError::Conflict { .. }), "{stale}");
    let missing =
        open_target(&context, json!({"rancher": {"service": "1s6"}})).status().await.unwrap_err();
    assert!(matches!(missing, TargetError::Refused { .. }), "{missing}");
}

#[tokio::test]
async fn a_webhook_receives_the_size_with_a_signature_and_an_idempotency_key() {
    type Requests = Arc<Mutex<Vec<(HeaderMap, String)>>>;
    let requests = Requests::default();
    let receive = |State(requests): State<Requests>, headers: HeaderMap, body: String| async move {
        requests.lock().unwrap().push((headers, body));
        StatusCode::ACCEPTED
    };
    let app = Router::new()
        .route("/scale", post(receive))
        .route("/busy", post(|| async { StatusCode::SERVICE_UNAVAILABLE }))
        .route("/no", post(|| async { StatusCode::BAD_REQUEST }))
        .route("/broken", post(|| async { StatusCode::INTERNAL_SERVER_ERROR }))
        .route("/count", get(|| async { Json(json!({"n": 3})) }));
    let server = Server::plain(app.with_state(Arc::clone(&requests))).await;
    let counting = json!({"http": {"url": format!("{}/count", server.url), "value": "/n"}});
    let (_api, context) = sources(json!({"counting": counting})).await;
    let webhook = |path: &str| {
        let url = format!("{}{path}", server.url);
        open_target(&context, json!({"webhook": {"url": url, "countFrom": {"source": "counting"}}}))
    };
    let target = webhook("/scale");
    let status = target.status().await.unwrap();
    assert_eq!((status.count, status.ready), (3, 3));
    target.scale(5, &status.version).await.unwrap();
    target.scale(5, &status.version).await.unwrap();
    let later = target.status().await.unwrap();
    target.scale(5, &later.version).await.unwrap();
    let requests = requests.lock().unwrap().clone();
    let keys: Vec<_> =
        requests.iter().map(|(headers, _)| headers["idempotency-key"].clone()).collect();
    assert!(keys[0] == keys[1] && keys[1] != keys[2], "{keys:?}");
    let body: Value = serde_json::from_str(&requests[0].1).unwrap();
    assert_eq!(body, json!({"count": 5, "from": 3}));
    assert!(!requests[0].0.contains_key("x-plimsoll-signature"), "no key was given");
    let gone = targets::Version::new("2@then");
    let stale = target.scale(5, &gone).await.unwrap_err();
    assert!(matches!(stale, TargetError::Conflict { .. }), "{stale}");
    let failed = async |path: &str| webhook(path).scale(5, &status.version).await.unwrap_err();
    assert!(matches!(failed("/busy").await, TargetError::Unavailable { .. }));
    assert!(matches!(failed("/no").await, TargetError::Refused { .. }));
    assert!(matches!(failed("/broken").await, TargetError::Unknown { .. }));
}
