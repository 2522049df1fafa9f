//! An engine with game servers, and an allocator.

use std::convert::Infallible;
use std::sync::Arc;

use api::allocation::{GameServerAllocation, GameServerAllocationStatus};
use bytes::Bytes;
use cluster::Caches;
use engine::{Delegate, Engine};
use futures::future::BoxFuture;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::ApiResource;
use plimsoll_serve::allocator::{self, AllocationError, Allocator, Settings, kubernetes};
use process::{Random, Supervisor};
use serde_json::{Value, json};
use tower::{BoxError, ServiceExt as _, service_fn};

pub(crate) struct World {
    pub(crate) engine: Engine,
}

/// Returns caches as an allocator's process has them, which are followed until the test ends.
pub(crate) fn followed(client: &Client, replaces: bool, supervisor: &Supervisor) -> Arc<Caches> {
    let caches = Caches::new(None, replaces);
    let (kinds, random) = (allocator::REQUIRED_KINDS.into(), Random::system());
    let following = caches.follow(client, &kinds, &random, supervisor);
    tokio::spawn(async move {
        let _following = following;
        std::future::pending::<()>().await;
    });
    caches
}

/// Starts an allocator, which replaces game servers or patches them.
pub(crate) async fn start(client: Client, replaces: bool, settings: Settings) -> Allocator {
    let caches = followed(&client, replaces, &settings.supervisor);
    Allocator::start(client, caches, settings).await
}

impl World {
    pub(crate) async fn new() -> Self {
        Self { engine: Engine::open(engine::Settings::ephemeral()).await.unwrap() }
    }

    /// Returns a world with so many Ready servers of the fleet `f`.
    pub(crate) async fn with_ready(count: usize) -> Self {
        let world = Self::new().await;
        for index in 0..count {
            world.ready(&format!("s{index:04}"), json!({})).await;
        }
        world
    }

    /// Makes a Ready server, with more in its status.
    pub(crate) async fn ready(&self, name: &str, more: Value) {
        create(&self.engine.client(), "default", name, more).await;
    }

    pub(crate) async fn allocator(&self) -> Allocator {
        start(self.engine.client(), true, Settings::default()).await
    }

    /// Lets the allocator answer for its group on the engine, as `plimsoll up` does.
    pub(crate) async fn delegate(&self) -> Allocator {
        let allocator = self.allocator().await;
        let answers = allocator.clone();
        let service = service_fn(move |request: Request<Full<Bytes>>| {
            let allocator = answers.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let answer = kubernetes::handle(&allocator, Request::from_parts(parts, body)).await;
                Ok::<_, BoxError>(answer.map(|body| Full::new(body).boxed_unsync()))
            }
        });
        self.engine.delegate("allocation.agones.dev", "v1", Delegate::new(service));
        allocator
    }

    /// Returns a client whose requests pass a hook first: it may hold them up, or answer in the engine's place.
    pub(crate) fn client_through(&self, hook: Hook) -> Client {
        let engine = self.engine.service();
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let (engine, hook) = (engine.clone(), Arc::clone(&hook));
            async move {
                let method = request.method().to_string();
                let path = request.uri().to_string();
                hook(Passing { method: method.clone(), path: path.clone(), is_answer: false })
                    .await?;
                let answer = engine.oneshot(request).await;
                hook(Passing { method, path, is_answer: true }).await?;
                answer.map_err(|never: Infallible| -> BoxError { match never {} })
            }
        });
        Client::new(service, "default")
    }

    pub(crate) async fn server(&self, name: &str) -> Value {
        let servers: Api<DynamicObject> =
            Api::namespaced_with(self.engine.client(), "default", &game_servers());
        serde_json::to_value(servers.get(name).await.unwrap()).unwrap()
    }

    pub(crate) async fn patch(&self, name: &str, patch: Value) {
        let servers: Api<DynamicObject> =
            Api::namespaced_with(self.engine.client(), "default", &game_servers());
        let patch = kube::api::Patch::Merge(patch);
        servers.patch(name, &Default::default(), &patch).await.unwrap();
    }

    /// Names the servers in a state, in order.
    pub(crate) async fn in_state(&self, state: &str) -> Vec<String> {
        let servers: Api<DynamicObject> =
            Api::namespaced_with(self.engine.client(), "default", &game_servers());
        let all = servers.list(&Default::default()).await.unwrap();
        let is_it = |s: &&DynamicObject| s.data["status"]["state"] == state;
        all.items.iter().filter(is_it).map(|s| s.metadata.name.clone().unwrap()).collect()
    }
}

/// A request on its way to the engine, or its answer on the way back.
pub(crate) struct Passing {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) is_answer: bool,
}

impl Passing {
    /// Whether it writes to a game server.
    pub(crate) fn is_write(&self) -> bool {
        matches!(&*self.method, "PATCH" | "PUT") && self.path.contains("/gameservers/")
    }
}

/// Looks at what passes; an error is what the client gets instead.
pub(crate) type Hook =
    Arc<dyn Fn(Passing) -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>;

pub(crate) async fn create(client: &Client, namespace: &str, name: &str, more: Value) {
    create_object(client, namespace, ready_server(namespace, name, more)).await;
}

/// Returns a Ready server, with more in its status.
pub(crate) fn ready_server(namespace: &str, name: &str, more: Value) -> Value {
    let kind = if more["lists"].is_object() { "shared" } else { "alone" };
    let mut server = json!({
        "apiVersion": "agones.dev/v1", "kind": "GameServer",
        "metadata": {"name": name, "namespace": namespace, "labels": {"agones.dev/fleet": "f", "kind": kind}},
        "spec": {"template": {"spec": {"containers": [{"name": "game", "image": "game:1"}]}}},
        "status": {"state": "Ready", "address": "10.0.0.1", "nodeName": "n1", "ports": [{"name": "game", "port": 7000}],
                   "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
    });
    let status = server["status"].as_object_mut().unwrap();
    status.extend(more.as_object().cloned().unwrap());
    server
}

pub(crate) async fn create_object(client: &Client, namespace: &str, server: Value) {
    let servers: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &game_servers());
    let server = serde_json::from_value(server).unwrap();
    servers.create(&PostParams::default(), &server).await.unwrap();
}

pub(crate) fn game_servers() -> ApiResource {
    ApiResource::erase::<api::agones::GameServer>(&())
}

/// Reads a spec as admission does.
pub(crate) fn allocation(spec: Value) -> GameServerAllocation {
    let mut value = json!({"metadata": {"namespace": "default"}, "spec": spec});
    let kind = api::find(None, "GameServerAllocation").unwrap();
    let admission = api::Admission { old: None, now: jiff::Timestamp::now() };
    (kind.admit)(&mut value, &admission).unwrap();
    value["apiVersion"] = json!("allocation.agones.dev/v1");
    value["kind"] = json!("GameServerAllocation");
    serde_json::from_value(value).unwrap()
}

/// Asks so many times at once.
pub(crate) async fn allocate_at_once(
    allocators: &[&Allocator],
    spec: &Value,
    count: usize,
) -> Vec<Result<GameServerAllocationStatus, AllocationError>> {
    let asking = (0..count).map(|index| {
        let allocator = allocators[index % allocators.len()].clone();
        let allocation = allocation(spec.clone());
        tokio::spawn(async move { allocator.allocate(&allocation).await })
    });
    let asking: Vec<_> = asking.collect();
    let mut answers = Vec::new();
    for asked in asking {
        answers.push(asked.await.unwrap());
    }
    answers
}
