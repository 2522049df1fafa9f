//! How every target fails: its system is down, silent or busy, refuses the credentials, or answers with something that is none of its own.
//! What is special to one of them is tested in its own file.
//!
//! The systems are stand-ins: they answer as far as a target reads them, with a size of three.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::{any, get, post};
use plimsoll_connect::Context;
use plimsoll_connect::targets::{self, Target, TargetError};
use serde_json::{Value, json};

use crate::real::{context_at, free_port, stand_in, target};
use crate::server::Server;

/// What comes in place of the system's answer.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// No answer at all.
    Silence,
    Answer(StatusCode, &'static str),
}

/// Which requests a fault meets.
#[derive(Clone, Copy, PartialEq)]
enum When {
    Always,
    AtAChange,
}

const BUSY: Fault = Fault::Answer(StatusCode::SERVICE_UNAVAILABLE, "busy");
const BROKEN: Fault = Fault::Answer(StatusCode::INTERNAL_SERVER_ERROR, "oops");
const PAGE: Fault = Fault::Answer(StatusCode::OK, "<html>welcome</html>");
const UNAUTHORIZED: Fault = Fault::Answer(StatusCode::UNAUTHORIZED, "who are you?");
const FORBIDDEN: Fault = Fault::Answer(StatusCode::FORBIDDEN, "go away");

/// Returns each target whose system is at an address.
fn all(url: &str) -> Vec<(&'static str, Value)> {
    let resize = format!("{url}/resize");
    let mut all = vec![
        ("scale", json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})),
        ("nodeGroup", json!({"nodeGroup": {"name": "pool"}})),
        ("docker", json!({"docker": {"service": "web"}})),
        ("docker, swarm mode", json!({"docker": {"service": "web", "swarm": true}})),
        ("nomad", json!({"nomad": {"job": "web", "group": "api"}})),
        ("rancher", json!({"rancher": {"service": "1s5"}})),
        ("webhook", json!({"webhook": {"url": resize, "countFrom": {"source": "http"}}})),
    ];
    if std::env::var_os("AWS_ACCESS_KEY_ID").is_some() {
        let group = json!({"name": "web", "region": "eu-west-1", "endpoint": url});
        all.push(("awsAutoscalingGroup", json!({"awsAutoscalingGroup": group})));
    }
    all
}

/// A target whose system is at an address, and what keeps it working.
struct Case {
    name: &'static str,
    target: Arc<dyn Target>,
    _sources: Server,
}

impl Case {
    /// Whether a request ends, whatever the fault. Requests to the API server have the time limit of who asks, which the controllers test.
    fn ends_by_itself(&self, fault: Fault) -> bool {
        !is_object(self.name) || !matches!(fault, Fault::Silence)
    }
}

/// Whether a target is an object of the cluster, whose system is the API server.
fn is_object(name: &str) -> bool {
    matches!(name, "scale" | "nodeGroup")
}

/// Opens each target whose system is at an address.
async fn open_all(url: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, spec) in all(url) {
        let (sources, sound) = metric_sources(url).await;
        let context = if is_object(name) { context_at(url) } else { sound };
        let opened = targets::open(&context, &target(spec)).map_err(|err| err.to_string());
        cases.push(Case { name, target: opened.unwrap(), _sources: sources });
    }
    cases
}

/// Serves the MetricSources that have the address of a target's system.
async fn metric_sources(url: &str) -> (Server, Context) {
    let specs = json!({
        "docker": {"docker": {"host": url}}, "nomad": {"nomad": {"address": url}},
        "rancher": {"rancher": {"url": url, "project": "1a5"}},
        "http": {"http": {"url": format!("{url}/count"), "value": "/n"}},
    });
    let serve = move |Path(name): Path<String>| async move {
        axum::Json(json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "MetricSource", "metadata": {"name": name},
            "spec": specs[&name],
        }))
    };
    let path = "/apis/plimsoll.dev/v1alpha1/metricsources/{name}";
    stand_in(Router::new().route(path, get(serve))).await
}

/// A stand-in for every system.
#[derive(Clone)]
struct System {
    fault: Fault,
    when: When,
    is_waited_for: Arc<AtomicBool>,
}

impl System {
    async fn start(fault: Fault, when: When) -> (Server, Self) {
        let system = Self { fault, when, is_waited_for: Arc::default() };
        let app = Router::new().fallback(any(Self::answer)).with_state(system.clone());
        (Server::plain(app).await, system)
    }

    async fn answer(State(system): State<Self>, request: Request) -> Response {
        if system.when == When::AtAChange
            && let Some(answer) = read(request).await
        {
            return answer;
        }
        match system.fault {
            Fault::Answer(status, body) => (status, Html(body)).into_response(),
            Fault::Silence => {
                // From the first request without an answer on, time passes by itself.
                if !system.is_waited_for.swap(true, Ordering::SeqCst) {
                    tokio::time::pause();
                }
                std::future::pending().await
            }
        }
    }

    /// Lets time pass as usual again.
    fn resume(&self) {
        if self.is_waited_for.swap(false, Ordering::SeqCst) {
            tokio::time::resume();
        }
    }
}

/// Answers a request that changes nothing; `None` for those that would.
async fn read(request: Request) -> Option<Response> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    if parts.method == Method::GET {
        return Some(axum::Json(object(&path)).into_response());
    }
    let form = to_bytes(Body::new(body), 1 << 20).await.unwrap();
    let is_aws = String::from_utf8_lossy(&form).contains("Action=DescribeAutoScalingGroups");
    is_aws.then(|| {
        "<DescribeAutoScalingGroupsResponse><DescribeAutoScalingGroupsResult><AutoScalingGroups><member>\
         <AutoScalingGroupName>web</AutoScalingGroupName><MinSize>0</MinSize><MaxSize>9</MaxSize>\
         <DesiredCapacity>3</DesiredCapacity></member></AutoScalingGroups>\
         </DescribeAutoScalingGroupsResult></DescribeAutoScalingGroupsResponse>"
            .into_response()
    })
}

/// Returns what a system has at a path.
fn object(path: &str) -> Value {
    let metadata = |name: &str| json!({"name": name, "namespace": "default", "uid": "u", "resourceVersion": "7"});
    let labels = |number: u32| {
        json!({
            "com.docker.compose.project": "shop", "com.docker.compose.service": "web",
            "com.docker.compose.container-number": number.to_string(),
        })
    };
    let group = json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeGroup", "metadata": metadata("pool"),
        "spec": {"min": 0, "max": 9, "provider": {"simulated": {"startAfter": "24h"}}, "template": {"capacity": {"cpu": "4", "memory": "16Gi"}}},
        "status": {"target": 3},
    });
    let list = |kind: &str, items: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": {"resourceVersion": "7"}, "items": items});
    match path {
        "/apis/apps/v1" => json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "apps/v1",
            "resources": [{"name": "deployments", "singularName": "", "namespaced": true, "kind": "Deployment", "verbs": ["get"]}],
        }),
        "/apis/apps/v1/namespaces/default/deployments/web/scale" => json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata("web"),
            "spec": {"replicas": 3}, "status": {"replicas": 3},
        }),
        "/apis/apps/v1/namespaces/default/deployments/web" => json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("web"), "status": {"readyReplicas": 3},
        }),
        "/apis/plimsoll.dev/v1alpha1/nodegroups/pool" => group,
        "/apis/plimsoll.dev/v1alpha1/nodegroups" => list("NodeGroupList", json!([group])),
        "/apis/plimsoll.dev/v1alpha1/nodeautoscalers" => list("NodeAutoscalerList", json!([])),
        "/api/v1/nodes" => list("NodeList", json!([])),
        "/containers/json" => (1..=3)
            .map(|n| json!({"Id": format!("c{n}"), "Created": n, "State": "running", "Status": "Up", "Labels": labels(n)}))
            .collect(),
        "/containers/c3/json" => json!({
            "Id": "c3", "Name": "/shop-web-3", "Image": "i", "Config": {"Labels": labels(3)},
            "HostConfig": {"NetworkMode": "none"}, "NetworkSettings": {"Networks": {}},
        }),
        "/services" => json!([{
            "ID": "s", "Version": {"Index": 42}, "Spec": {"Name": "web", "Mode": {"Replicated": {"Replicas": 3}}},
            "ServiceStatus": {"RunningTasks": 3},
        }]),
        "/v1/job/web/scale" => json!({
            "JobModifyIndex": 7, "JobStopped": false, "TaskGroups": {"api": {"Desired": 3, "Running": 3, "Healthy": 0, "Unhealthy": 0}},
        }),
        "/projects/1a5/services/1s5" => {
            json!({"id": "1s5", "type": "service", "state": "active", "scale": 3, "currentScale": 3})
        }
        "/count" => json!({"n": 3}),
        _ => panic!("no target reads {path}"),
    }
}

/// Reads the size of each target whose system has a fault.
async fn unread(fault: Fault) -> Vec<(&'static str, TargetError)> {
    let (server, system) = System::start(fault, When::Always).await;
    let mut found = Vec::new();
    for case in open_all(&server.url).await.into_iter().filter(|case| case.ends_by_itself(fault)) {
        for outcome in [
            within(case.name, case.target.status()).await.map(drop),
            within(case.name, case.target.size()).await.map(drop),
        ] {
            system.resume();
            found.push((case.name, outcome.expect_err(case.name)));
        }
    }
    found
}

/// Sets the size of each target whose system has a fault at a change, after it was read.
async fn unscaled(fault: Fault) -> Vec<(&'static str, Result<(), TargetError>)> {
    let (server, system) = System::start(fault, When::AtAChange).await;
    let mut found = Vec::new();
    for case in open_all(&server.url).await.into_iter().filter(|case| case.ends_by_itself(fault)) {
        let name = case.name;
        let status = case.target.status().await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(status.count, 3, "{name}");
        found.push((name, within(name, case.target.scale(5, &status.version)).await));
        system.resume();
    }
    found
}

/// Waits for an outcome longer than any target may take. Where a request has no answer, this time passes at once.
async fn within<T>(name: &str, outcome: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(Duration::from_secs(600), outcome).await;
    outcome.unwrap_or_else(|_| panic!("{name} waits for ever"))
}

#[tokio::test]
async fn the_size_of_a_target_that_is_down_busy_or_answers_with_a_web_page_is_unavailable() {
    let down = format!("http://127.0.0.1:{}", free_port().await);
    for Case { name, target, _sources } in open_all(&down).await {
        for error in [target.status().await.unwrap_err(), target.size().await.unwrap_err()] {
            assert!(matches!(error, TargetError::Unavailable { .. }), "{name} is down: {error:?}");
        }
    }
    // What cannot be read is never taken for a size.
    for fault in [BUSY, BROKEN, PAGE] {
        for (name, error) in unread(fault).await {
            assert!(
                matches!(error, TargetError::Unavailable { .. }),
                "{name}, {fault:?}: {error:?}"
            );
        }
    }
}

#[tokio::test]
async fn the_size_of_a_target_that_does_not_answer_is_unavailable() {
    for (name, error) in unread(Fault::Silence).await {
        assert!(matches!(error, TargetError::Unavailable { .. }), "{name}: {error:?}");
    }
}

#[tokio::test]
async fn a_target_that_refuses_the_credentials_says_so() {
    for fault in [UNAUTHORIZED, FORBIDDEN] {
        // What refuses to count is the source of the webhook, not its receiver.
        for (name, error) in unread(fault).await.into_iter().filter(|(name, _)| *name != "webhook")
        {
            assert!(matches!(error, TargetError::Refused { .. }), "{name}, {fault:?}: {error:?}");
        }
        for (name, outcome) in unscaled(fault).await {
            let is_refused = matches!(outcome, Err(TargetError::Refused { .. }));
            assert!(is_refused, "{name}, {fault:?}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn a_change_without_an_answer_may_or_may_not_have_been_made() {
    for (name, outcome) in unscaled(Fault::Silence).await {
        assert!(matches!(outcome, Err(TargetError::Unknown { .. })), "{name}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_change_that_is_answered_with_a_failure_or_a_web_page_is_not_taken_for_made() {
    for fault in [BROKEN, PAGE] {
        for (name, outcome) in unscaled(fault).await {
            // The receiver of a webhook may answer with any text.
            let is_meant = match (name, fault) {
                ("webhook", Fault::Answer(StatusCode::OK, _)) => outcome.is_ok(),
                _ => matches!(outcome, Err(TargetError::Unknown { .. })),
            };
            assert!(is_meant, "{name}, {fault:?}: {outcome:?}");
        }
    }
    for (name, outcome) in unscaled(BUSY).await {
        let is_meant = match name {
            // An engine that fails says 503, too.
            "docker" | "docker, swarm mode" => matches!(outcome, Err(TargetError::Unknown { .. })),
            _ => matches!(outcome, Err(TargetError::Unavailable { .. })),
        };
        assert!(is_meant, "{name}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_docker_service_of_which_one_step_was_carried_out_may_or_may_not_have_been_scaled() {
    let refused = || async { (StatusCode::FORBIDDEN, axum::Json(json!({"message": "no more"}))) };
    let created = || async { (StatusCode::CREATED, axum::Json(json!({"Id": "c4"}))) };
    let app = Router::new()
        .route("/containers/create", post(created))
        .route("/containers/c4/start", post(refused))
        .fallback(any(async |request: Request| read(request).await.unwrap()));
    let server = Server::plain(app).await;
    let docker =
        open_all(&server.url).await.into_iter().find(|case| case.name == "docker").unwrap();
    let status = docker.target.status().await.unwrap();
    let error = docker.target.scale(4, &status.version).await.unwrap_err();
    assert!(matches!(error, TargetError::Unknown { .. }), "{error:?}");
    assert!(error.to_string().ends_with("may or may not have been scaled: no more"), "{error}");
}
