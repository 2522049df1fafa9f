//! A cluster with controllers to test, and short ways to look at what is there.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use api::agones::{Fleet, GameServer, GameServerSet};
use control::{Part, Settings};
use engine::Engine;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use plimsoll_control as control;

use crate::standin;

/// An engine with nodes, the stand-in for what runs pods, and controllers.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    tasks: Vec<JoinHandle<()>>,
    _engine: Option<Engine>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Cluster {
    /// Starts an engine with `nodes` nodes, and everything on it.
    pub(crate) async fn start(nodes: usize) -> Self {
        let mut cluster = Self::bare(nodes).await;
        cluster.run(Settings::default());
        cluster
    }

    /// Starts an engine with nodes and the stand-in, but no controllers.
    pub(crate) async fn bare(nodes: usize) -> Self {
        let engine = Engine::open(engine::Settings::ephemeral()).await.unwrap();
        let client = engine.client();
        for index in 0..nodes {
            standin::node(&client, &format!("node-{index}"), index).await;
        }
        let standin = tokio::spawn(standin::run(client.clone(), "default".to_owned()));
        let namespace = "default".to_owned();
        Self { client, namespace, tasks: vec![standin], _engine: Some(engine) }
    }

    /// Starts controllers.
    pub(crate) fn run(&mut self, settings: Settings) {
        let client = self.client.clone();
        let work = control::run(client, settings, &Part::ALL, std::future::pending());
        self.tasks.push(tokio::spawn(work));
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        let object = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap()
    }

    pub(crate) async fn patch<K>(&self, name: &str, change: Value)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let patch = Patch::Merge(change);
        self.api::<K>().patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    pub(crate) async fn delete<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        self.api::<K>().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub(crate) async fn list<K>(&self) -> Vec<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        self.api::<K>().list(&ListParams::default()).await.unwrap().items
    }

    pub(crate) async fn servers(&self) -> Vec<GameServer> {
        self.list().await
    }

    /// The servers in a state, that are not going.
    pub(crate) async fn in_state(&self, state: &str) -> Vec<GameServer> {
        let mut all = self.servers().await;
        all.retain(|s| state_of(s) == state && s.metadata.deletion_timestamp.is_none());
        all
    }

    pub(crate) async fn sets(&self) -> Vec<GameServerSet> {
        self.list().await
    }

    pub(crate) async fn fleet(&self, name: &str) -> Fleet {
        self.api().get(name).await.unwrap()
    }

    pub(crate) async fn pods(&self) -> Vec<Pod> {
        self.list().await
    }

    /// Waits until so many servers are Ready, and the fleet says so.
    pub(crate) async fn ready(&self, fleet: &str, count: i32) {
        until(&format!("{count} Ready in {fleet}"), async || {
            let status = self.fleet(fleet).await.status.unwrap_or_default();
            status.ready_replicas == count && status.replicas == count
        })
        .await;
    }
}

pub(crate) fn state_of(server: &GameServer) -> &str {
    server.status.as_ref().map_or("", |status| status.state.as_str())
}

/// Waits for a condition, generously.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(what, waiting).await;
}

pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(Duration::from_secs(60), work).await;
    done.unwrap_or_else(|_| panic!("waited in vain: {what}"))
}

/// A fleet of servers with one port.
pub(crate) fn fleet(name: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "agones.dev/v1",
        "kind": "Fleet",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "template": {"spec": server_spec()}},
    })
}

pub(crate) fn server_spec() -> Value {
    json!({
        "ports": [{"name": "game", "containerPort": 7654}],
        "template": {"spec": {"containers": [{"name": "game", "image": "game:1"}]}},
    })
}

pub(crate) fn server(name: &str) -> Value {
    json!({
        "apiVersion": "agones.dev/v1",
        "kind": "GameServer",
        "metadata": {"name": name},
        "spec": server_spec(),
    })
}
