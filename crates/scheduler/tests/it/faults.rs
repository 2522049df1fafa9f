//! The scheduler while requests fail.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use engine::{Engine, Service};
use futures::future::BoxFuture;
use http::{Request, Response};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use kube::client::Body;
use plimsoll_scheduler::Settings;
use process::{Clock, Random, Supervisor};
use tower::BoxError;

use crate::{node, node_name, pod, unschedulable, wait_for_event, wait_for_pod};

/// How a request fails.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The connection breaks before the request arrives.
    Lost,
    /// The request is carried out, and its answer never arrives.
    Unanswered,
}

/// An API server of which some requests fail.
#[derive(Clone)]
struct FaultyService {
    inner: Service,
    /// The end of the path of the requests that fail.
    path: &'static str,
    faults: Arc<Mutex<VecDeque<Fault>>>,
}

impl tower::Service<Request<Body>> for FaultyService {
    type Response = Response<engine::Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_meant = request.uri().path().ends_with(self.path);
        let fault = if is_meant { self.faults.lock().unwrap().pop_front() } else { None };
        let mut inner = self.inner.clone();
        Box::pin(async move {
            match fault {
                None => Ok(tower::Service::call(&mut inner, request).await?),
                Some(Fault::Lost) => Err("connection reset".into()),
                Some(Fault::Unanswered) => {
                    let _ = tower::Service::call(&mut inner, request).await;
                    std::future::pending().await
                }
            }
        })
    }
}

struct Fixture {
    engine: Engine,
    faults: Arc<Mutex<VecDeque<Fault>>>,
    _scheduler: process::Supervised,
}

impl Fixture {
    /// Starts a scheduler of which requests to this path fail, on an API server with one node.
    async fn start(path: &'static str, faults: &[Fault]) -> Self {
        let clock = Clock::virtual_at(jiff::Timestamp::UNIX_EPOCH);
        let settings = engine::Settings { clock: clock.clone(), ..engine::Settings::ephemeral() };
        let engine = Engine::open(settings).await.unwrap();
        let nodes: Api<Node> = Api::all(engine.client());
        nodes.create(&PostParams::default(), &node("a", "1")).await.unwrap();
        let faults = Arc::new(Mutex::new(faults.iter().copied().collect()));
        let service = FaultyService { inner: engine.service(), path, faults: Arc::clone(&faults) };
        let settings = Settings {
            clock,
            random: Random::seeded(1),
            supervisor: Supervisor::new(),
            ..Settings::default()
        };
        let _scheduler = plimsoll_scheduler::start(Client::new(service, "default"), settings);
        Self { engine, faults, _scheduler }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_binding_is_retried() {
    let faults = [Fault::Lost, Fault::Lost, Fault::Lost];
    let fixture = Fixture::start("/binding", &faults).await;
    let client = fixture.engine.client();
    let pods = Api::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &pod("one", "default-scheduler", "1")).await.unwrap();
    let bound = wait_for_pod(&pods, "one", |pod| node_name(pod).is_some()).await;
    assert!(fixture.faults.lock().unwrap().is_empty());
    let event = wait_for_event(&client, "default", &bound, "Scheduled").await;
    assert_eq!(event.message.as_deref(), Some("Successfully assigned default/one to a"));
    assert_eq!(event.type_.as_deref(), Some("Normal"));
    assert_eq!(event.source.unwrap().component.as_deref(), Some("default-scheduler"));
}

#[tokio::test(start_paused = true)]
async fn a_binding_without_an_answer_holds_its_node_all_the_same() {
    let fixture = Fixture::start("/binding", &[Fault::Unanswered]).await;
    let client = fixture.engine.client();
    let pods = Api::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &pod("one", "default-scheduler", "1")).await.unwrap();
    wait_for_pod(&pods, "one", |pod| node_name(pod).is_some()).await;
    pods.create(&PostParams::default(), &pod("two", "default-scheduler", "1")).await.unwrap();
    // Long enough for the first binding to time out.
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let refused = wait_for_pod(&pods, "two", |pod| unschedulable(pod).is_some()).await;
    assert_eq!(unschedulable(&refused), Some("0/1 nodes are available: 1 Insufficient cpu."));
    pods.delete("one", &DeleteParams::default().grace_period(0)).await.unwrap();
    wait_for_pod(&pods, "two", |pod| node_name(pod).is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_could_not_be_written_is_written_later() {
    let fixture = Fixture::start("/large/status", &[Fault::Lost, Fault::Unanswered]).await;
    let client = fixture.engine.client();
    let pods = Api::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &pod("large", "default-scheduler", "9")).await.unwrap();
    let refused = wait_for_pod(&pods, "large", |pod| unschedulable(pod).is_some()).await;
    assert_eq!(unschedulable(&refused), Some("0/1 nodes are available: 1 Insufficient cpu."));
    assert!(fixture.faults.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn pods_of_other_schedulers_are_left_alone() {
    let fixture = Fixture::start("/binding", &[]).await;
    let client = fixture.engine.client();
    let pods = Api::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &pod("other", "another", "1")).await.unwrap();
    pods.create(&PostParams::default(), &pod("ours", "default-scheduler", "1")).await.unwrap();
    wait_for_pod(&pods, "ours", |pod| node_name(pod).is_some()).await;
    let other = pods.get("other").await.unwrap();
    assert_eq!((node_name(&other), unschedulable(&other)), (None, None));
}
