//! A cluster with nodes whose pods run nothing, and the controllers of workloads: ours on the embedded engine, Kubernetes' on a real one.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cluster::Caches;
use engine::{Engine, Runtime};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, Resource, ResourceExt as _};
use kubelet::Simulation;
use plimsoll_control::{Part, Settings, required_kinds, run};
use process::Supervisor;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::cluster::{Kind, until};
use crate::standin;

/// The annotation of a pod template with the exit code of the pods of a Job.
const EXIT_CODE: &str = "test/exit-code";

/// A cluster with three nodes. All of it ends with this.
pub(super) struct Stage {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) nodes: Vec<String>,
    _tasks: JoinSet<()>,
    _embedded: Option<(Engine, Runtime)>,
    _manager: Option<Manager>,
}

/// The pods of Jobs end at once.
struct Ending;

impl Simulation for Ending {
    fn play(&self, pod: &Arc<Pod>) -> Option<BoxFuture<'static, i32>> {
        let owner = pod.metadata.owner_references.as_ref()?.first()?;
        let code = pod.annotations().get(EXIT_CODE).map_or(Some(0), |code| code.parse().ok());
        let code = code.filter(|_| owner.kind == "Job")?;
        Some(
            async move {
                tokio::time::sleep(Duration::from_millis(100)).await;
                code
            }
            .boxed(),
        )
    }
}

impl Stage {
    /// Starts an embedded engine with our controllers.
    pub(super) async fn embedded() -> Self {
        let engine = Engine::open(engine::Settings::ephemeral()).await.unwrap();
        let simulated = kubelet::Simulated {
            simulation: Some(Arc::new(Ending)),
            ..kubelet::Simulated::default()
        };
        let settings = kubelet::Settings { simulated: Some(simulated), local: None };
        let runtime = engine.run(settings).await.unwrap();
        let client = engine.client();
        let mut tasks = JoinSet::new();
        tasks.spawn(control(client.clone()));
        let namespace = new_namespace(&client).await;
        let nodes = nodes(&client, &namespace).await;
        let embedded = Some((engine, runtime));
        Self { client, namespace, nodes, _tasks: tasks, _embedded: embedded, _manager: None }
    }

    /// Uses the real Kubernetes that tests are given, with a controller manager for workloads; `None`, with a line saying what is
    /// missing, where there is none.
    pub(super) async fn real() -> Option<Self> {
        let given = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let (Some(kubeconfig), Some(kubectl)) =
            (given("PLIMSOLL_TEST_KUBECONFIG"), given("PLIMSOLL_TEST_KUBECTL"))
        else {
            let missing = "skipped: no real Kubernetes; run `cargo xtask test`, or set PLIMSOLL_TEST_KUBECONFIG and \
                           PLIMSOLL_TEST_KUBECTL";
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            eprintln!("{missing}");
            return None;
        };
        let manager =
            Manager::start(&kubectl.with_file_name("kube-controller-manager"), &kubeconfig);
        let options = KubeConfigOptions::default();
        let config = Kubeconfig::read_from(kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(config, &options).await.unwrap();
        let client = Client::try_from(config).unwrap();
        let namespace = new_namespace(&client).await;
        let nodes = nodes(&client, &namespace).await;
        let (tasks, manager) = (JoinSet::new(), Some(manager));
        Some(Self { client, namespace, nodes, _tasks: tasks, _embedded: None, _manager: manager })
    }

    /// Removes what is left on a real cluster.
    pub(super) async fn end(self) {
        let now = DeleteParams::background();
        drop(Api::<Namespace>::all(self.client.clone()).delete(&self.namespace, &now).await);
        let nodes: Api<Node> = Api::all(self.client.clone());
        for node in &self.nodes {
            drop(nodes.delete(node, &now).await);
        }
    }

    /// Starts the deletion of the namespace.
    pub(super) async fn delete_namespace(&self) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.delete(&self.namespace, &DeleteParams::background()).await.unwrap();
    }

    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates an object whose pods go to the nodes of this stage.
    pub(super) async fn create<K: Kind>(&self, mut object: Value) -> K {
        if let Some(pod) = object.pointer_mut("/spec/template/spec") {
            pod["nodeSelector"] = json!({"test": self.namespace});
        }
        let object = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap()
    }

    pub(super) async fn get<K: Kind>(&self, name: &str) -> K {
        self.api::<K>().get(name).await.unwrap()
    }

    pub(super) async fn list<K: Kind>(&self) -> Vec<K> {
        self.api::<K>().list(&ListParams::default()).await.unwrap().items
    }

    /// Returns the pods with a label `app`.
    pub(super) async fn pods(&self, app: &str) -> Vec<Pod> {
        let params = ListParams::default().labels(&format!("app={app}"));
        self.api::<Pod>().list(&params).await.unwrap().items
    }

    pub(super) async fn patch<K: Kind>(&self, name: &str, change: Value) {
        let patch = Patch::Merge(change);
        self.api::<K>().patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    pub(super) async fn delete<K: Kind>(&self, name: &str) {
        match self.api::<K>().delete(name, &DeleteParams::background()).await {
            // A controller was faster.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            outcome => drop(outcome.unwrap()),
        }
    }

    /// Returns the sets of a Deployment, oldest revision first.
    pub(super) async fn sets(&self, deployment: &str) -> Vec<ReplicaSet> {
        let mut sets = self.list::<ReplicaSet>().await;
        sets.retain(|set| set.owner_references().iter().any(|owner| owner.name == deployment));
        sets.sort_by_key(revision);
        sets
    }

    /// Waits until a Deployment has nothing but available pods of its present template.
    pub(super) async fn complete(&self, name: &str) {
        self.until(&format!("{name} is complete"), async || {
            let deployment: Deployment = self.get(name).await;
            let (spec, status) = (deployment.spec.unwrap(), deployment.status.unwrap_or_default());
            let replicas = spec.replicas.unwrap();
            let counts = [status.replicas, status.updated_replicas, status.available_replicas];
            let is_observed = status.observed_generation == deployment.metadata.generation;
            let is_done = status.conditions.iter().flatten().any(|condition| {
                condition.type_ == "Progressing"
                    && condition.reason.as_deref() == Some("NewReplicaSetAvailable")
            });
            let pods = self.pods(name).await.len();
            let sets = self.sets(name).await;
            let of_sets = sets.iter().filter_map(|set| set.status.as_ref()?.available_replicas);
            of_sets.sum::<i32>() == replicas
                && counts.iter().all(|count| count.unwrap_or_default() == replicas)
                && is_observed
                && is_done
                && status.terminating_replicas.unwrap_or_default() == 0
                && pods == usize::try_from(replicas).unwrap()
        })
        .await;
    }

    /// Waits for a condition, and prints the objects after a timeout.
    pub(super) async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let waited =
            tokio::time::timeout(Duration::from_secs(60), until(what, async || holds().await));
        if waited.await.is_err() {
            let deployments = json!(self.list::<Deployment>().await);
            let sets = json!(self.list::<ReplicaSet>().await);
            let pods = json!(self.list::<Pod>().await);
            panic!("waited in vain: {what}\n{deployments}\n{sets}\n{pods}");
        }
    }
}

pub(super) fn revision(set: &ReplicaSet) -> u64 {
    set.annotations()["deployment.kubernetes.io/revision"].parse().unwrap()
}

/// A Deployment whose pods have the label `app` of its name.
pub(super) fn deployment(name: &str, replicas: i32, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name)},
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    object
}

/// A pod template with the label `app`.
pub(super) fn template(app: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": "app:1"}], "terminationGracePeriodSeconds": 0},
    })
}

/// A change of a template.
pub(super) fn version(version: &str) -> Value {
    json!({"spec": {"template": {"metadata": {"annotations": {"version": version}}}}})
}

async fn new_namespace(client: &Client) -> String {
    let name = format!("workloads-{:08x}", fastrand::u32(..));
    let object = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&PostParams::default(), &object).await.unwrap();
    name
}

async fn nodes(client: &Client, namespace: &str) -> Vec<String> {
    let mut nodes = Vec::new();
    for index in 0..3 {
        let name = format!("{namespace}-{index}");
        standin::node(client, &name, namespace, index).await;
        nodes.push(name);
    }
    nodes
}

async fn control(client: Client) {
    let (caches, settings) = (Caches::new(None, false), Settings::default());
    let (kinds, supervisor) = (required_kinds(&[Part::Workload]), Supervisor::new());
    let _following = caches.follow(&client, &kinds, &settings.random, &supervisor);
    run(client, caches, settings, &[Part::Workload], std::future::pending()).await;
}

/// A controller manager with the workload controllers only. It is killed when this is dropped.
struct Manager(Child);

impl Manager {
    fn start(program: &std::path::Path, kubeconfig: &std::path::Path) -> Self {
        let controllers =
            "deployment-controller,replicaset-controller,job-controller,daemonset-controller";
        let mut command = Command::new(program);
        command.args(["--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port=0"]);
        command.arg(format!("--controllers={controllers}")).arg("--kubeconfig").arg(kubeconfig);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
