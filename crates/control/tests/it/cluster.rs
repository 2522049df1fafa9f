//! A cluster with controllers to test, and helpers to read its objects.

use std::fmt::Debug;
use std::time::Duration;

use api::agones::{Fleet, GameServer, GameServerSet};
use cluster::Caches;
use engine::{Engine, Runtime};
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, Resource, ResourceExt as _};
use plimsoll_control::{Part, Settings, required_kinds, run};
use process::{Clock, Supervisor};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::standin::Games;
use crate::{client, standin};

/// The controllers of one namespace. That of nodes is for the whole cluster, which these tests share.
const PARTS: [Part; 6] = [
    Part::GameServer,
    Part::GameServerSet,
    Part::Fleet,
    Part::FleetAutoscaler,
    Part::ScalingPolicy,
    Part::AutoScalePolicy,
];

async fn controllers(
    client: Client,
    namespace: String,
    settings: Settings,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    let caches = Caches::new(Some(namespace), false);
    let (kinds, supervisor) = (required_kinds(&PARTS), Supervisor::new());
    let _following = caches.follow(&client, &kinds, &settings.random, &supervisor);
    run(client, caches, settings, &PARTS, stop).await;
}

/// An engine with nodes, and what plays the games in their pods. All of it ends with this.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// The nodes that its game servers go to.
    pub(crate) nodes: Vec<String>,
    pub(crate) games: Games,
    /// What the engine and the controllers go by.
    pub(crate) clock: Clock,
    tasks: JoinSet<()>,
    embedded: Option<(Engine, Runtime)>,
}

impl Cluster {
    /// Starts an embedded engine. Its time stands still when tokio's does.
    pub(crate) async fn embedded() -> Self {
        Self::embedded_at(Clock::virtual_at(Timestamp::now())).await
    }

    /// Starts an embedded engine with a clock.
    async fn embedded_at(clock: Clock) -> Self {
        let settings = engine::Settings { clock: clock.clone(), ..engine::Settings::ephemeral() };
        let engine = Engine::open(settings).await.unwrap();
        let simulated = Some(kubelet::Simulated::default());
        let runtime = engine.run(kubelet::Settings { simulated, local: None }).await.unwrap();
        let client = engine.client();
        Self::on(client, "default".to_owned(), clock, Some((engine, runtime))).await
    }

    /// Starts an embedded engine with controllers that live on.
    pub(crate) async fn start() -> Self {
        Self::start_at(Clock::virtual_at(Timestamp::now())).await
    }

    /// Starts an embedded engine with controllers that are not stopped, all with one clock.
    pub(crate) async fn start_at(clock: Clock) -> Self {
        let mut cluster = Self::embedded_at(clock).await;
        cluster.control();
        cluster
    }

    /// Uses the real Kubernetes that tests are given; `None`, with a line saying what is missing, where there is none. In continuous
    /// integration a missing one is a failure.
    pub(crate) async fn real() -> Option<Self> {
        let Some(path) = std::env::var_os("PLIMSOLL_TEST_KUBECONFIG") else {
            let missing = "skipped: no real Kubernetes; run `cargo xtask test`, or set PLIMSOLL_TEST_KUBECONFIG";
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            eprintln!("{missing}");
            return None;
        };
        let kubeconfig = Kubeconfig::read_from(path).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let client = client::admitted(Client::try_from(config).unwrap());
        define_kinds(&client).await;
        let namespace = format!("control-{:08x}", fastrand::u32(..));
        let object = json!({"metadata": {"name": namespace}});
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let object = serde_json::from_value(object).unwrap();
        namespaces.create(&PostParams::default(), &object).await.unwrap();
        let mut cluster = Self::on(client, namespace, Clock::system(), None).await;
        let (client, nodes) = (cluster.client.clone(), cluster.nodes.clone());
        cluster.tasks.spawn(standin::keep_addresses(client, nodes));
        Some(cluster)
    }

    async fn on(
        client: Client,
        namespace: String,
        clock: Clock,
        embedded: Option<(Engine, Runtime)>,
    ) -> Self {
        let mut nodes = Vec::new();
        for index in 0..3 {
            let name = format!("{namespace}-{index}");
            standin::node(&client, &name, &namespace, index).await;
            nodes.push(name);
        }
        let mut tasks = JoinSet::new();
        let games = Games::default();
        tasks.spawn(games.clone().play(client.clone(), namespace.clone()));
        Self { client, namespace, nodes, games, clock, tasks, embedded }
    }

    /// Starts controllers that live on.
    pub(crate) fn control(&mut self) {
        let (client, stop) = (self.client.clone(), std::future::pending());
        self.tasks.spawn(self.controllers(client, self.settings(), stop));
    }

    /// Starts controllers that die at random requests, and are started again; their lives get longer.
    pub(crate) fn control_mortally(&mut self, seed: u64) {
        eprintln!("deaths by seed {seed}");
        let (client, settings) = (self.client.clone(), self.settings());
        let namespace = self.namespace.clone();
        self.tasks.spawn(async move {
            let mut chance = fastrand::Rng::with_seed(seed);
            for number in 0.. {
                let life = chance.u32(8..40 + 20 * number);
                let (client, death) = client::mortal(client.clone(), life, chance.bool());
                let stop = std::future::pending();
                let mut tasks = JoinSet::new();
                tasks.spawn(controllers(client, namespace.clone(), settings.clone(), stop));
                death.notified().await;
            }
        });
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings { clock: self.clock.clone(), ..Settings::default() }
    }

    /// Runs the controllers of this cluster's namespace as a process of their own does, with caches that end with them.
    pub(crate) fn controllers(
        &self,
        client: Client,
        settings: Settings,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        controllers(client, self.namespace.clone(), settings, stop)
    }

    /// Takes everything away again.
    pub(crate) async fn end(self) {
        if self.embedded.is_some() {
            return;
        }
        let all = ListParams::default();
        for fleet in self.list::<Fleet>().await {
            self.delete::<Fleet>(&fleet.name_any()).await;
        }
        let now = DeleteParams::background();
        drop(self.api::<GameServer>().delete_collection(&now, &all).await);
        until("nothing is left", async || self.servers().await.is_empty()).await;
        let nodes: Api<Node> = Api::all(self.client.clone());
        for node in &self.nodes {
            drop(nodes.delete(node, &now).await);
        }
        drop(Api::<Namespace>::all(self.client.clone()).delete(&self.namespace, &now).await);
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Makes an object; game servers go to the nodes of this cluster.
    pub(crate) async fn create<K: Kind>(&self, mut object: Value) -> K {
        for template in ["/spec/template/spec/template/spec", "/spec/template/spec"] {
            let pod = object.pointer_mut(template).filter(|pod| pod["containers"].is_array());
            if let Some(pod) = pod {
                pod["nodeSelector"] = json!({"test": self.namespace});
            }
        }
        let object = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap()
    }

    pub(crate) async fn patch<K: Kind>(&self, name: &str, change: Value) {
        let patch = Patch::Merge(change);
        self.api::<K>().patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    pub(crate) async fn delete<K: Kind>(&self, name: &str) {
        self.api::<K>().delete(name, &DeleteParams::background()).await.unwrap();
    }

    pub(crate) async fn list<K: Kind>(&self) -> Vec<K> {
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

    pub(crate) async fn pods(&self) -> Vec<Pod> {
        self.list().await
    }

    pub(crate) async fn fleet(&self, name: &str) -> Fleet {
        self.api().get(name).await.unwrap()
    }

    /// Waits until the status of a fleet has this many servers, all Ready.
    pub(crate) async fn ready(&self, fleet: &str, ready: i32) {
        self.until(&format!("{ready} Ready in {fleet}"), async || {
            let status = self.fleet(fleet).await.status.unwrap_or_default();
            (status.ready_replicas, status.replicas) == (ready, ready)
        })
        .await;
    }

    /// Waits until this many servers are Ready, all others are deleted and the status of the fleet agrees; then checks for duplicates.
    pub(crate) async fn settles(&self, fleet: &str, ready: usize, others: usize) {
        self.until(&format!("{ready} Ready and {others} others in {fleet}"), async || {
            let status = self.fleet(fleet).await.status.unwrap_or_default();
            let sums = (status.ready_replicas, status.replicas);
            sums == (count(ready), count(ready + others))
                && self.in_state("Ready").await.len() == ready
                && self.servers().await.len() == ready + others
                && self.pods().await.len() == ready + others
        })
        .await;
        self.check().await;
    }

    /// Waits for a condition with a long limit, and panics with the current state after it.
    pub(crate) async fn until(&self, what: &str, holds: impl AsyncFnMut() -> bool) {
        if !comes_true(holds).await {
            let servers: Vec<_> = self.servers().await.iter().map(line).collect();
            let pods = self.pods().await;
            let pods: Vec<_> = pods
                .iter()
                .map(|pod| {
                    json!([
                        pod.name_any(),
                        pod.spec.as_ref().and_then(|s| s.node_name.clone()),
                        pod.status
                    ])
                    .to_string()
                })
                .collect();
            let sets: Vec<_> = self
                .sets()
                .await
                .iter()
                .map(|set| json!([set.name_any(), set.spec.replicas, set.status]).to_string())
                .collect();
            let (servers, pods, sets) = (servers.join("\n"), pods.join("\n"), sets.join("\n"));
            panic!("waited in vain: {what}\n{sets}\n{servers}\n{pods}");
        }
    }

    /// Checks that each server has its pod, and no two on a node have the same port.
    pub(crate) async fn check(&self) {
        let servers = self.servers().await;
        let mut pods: Vec<String> = self.pods().await.iter().map(|pod| pod.name_any()).collect();
        let mut names: Vec<String> = servers.iter().map(|server| server.name_any()).collect();
        pods.sort();
        names.sort();
        assert_eq!(pods, names, "each server has one pod");
        let mut taken = std::collections::BTreeSet::new();
        for status in servers.iter().filter_map(|server| server.status.as_ref()) {
            for port in status.ports.iter().flatten() {
                let place = (status.node_name.clone(), port.port);
                assert!(taken.insert(place.clone()), "{place:?} is taken twice");
            }
        }
    }
}

/// The kinds that tests create and read in a namespace.
pub(crate) trait Kind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
{
}

/// Makes the kinds known to a real API server.
async fn define_kinds(client: &Client) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in api::KINDS.iter().filter_map(|kind| kind.crd).map(|make| make()) {
        let name = crd.name_any();
        let apply = PatchParams::apply("plimsoll-tests").force();
        crds.patch(&name, &apply, &Patch::Apply(&crd)).await.unwrap();
        until(&format!("{name} is served"), async || {
            let status = crds.get(&name).await.unwrap().status.unwrap_or_default();
            let is_served = |c: &str| {
                let all = status.conditions.iter().flatten();
                all.clone().any(|condition| condition.type_ == c && condition.status == "True")
            };
            is_served("Established")
        })
        .await;
    }
}

pub(crate) fn state_of(server: &GameServer) -> &str {
    server.status.as_ref().map_or("", |status| status.state.as_str())
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap()
}

fn line(server: &GameServer) -> String {
    let is_going = server.metadata.deletion_timestamp.is_some();
    json!([server.name_any(), is_going, server.status]).to_string()
}

/// Waits for a condition, generously.
pub(crate) async fn until(what: &str, holds: impl AsyncFnMut() -> bool) {
    assert!(comes_true(holds).await, "waited in vain: {what}");
}

async fn comes_true(mut holds: impl AsyncFnMut() -> bool) -> bool {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let patience = std::env::var("PLIMSOLL_TEST_PATIENCE").ok().and_then(|s| s.parse().ok());
    tokio::time::timeout(Duration::from_secs(patience.unwrap_or(180)), waiting).await.is_ok()
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

fn server_spec() -> Value {
    json!({
        "ports": [{"name": "game", "containerPort": 7654}],
        "health": {"disabled": true},
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
