//! What Cluster Autoscaler's public Helm chart makes on a cluster: the account, its rights and the command line. The Deployment is left
//! out: the test starts the program itself.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Event, Node, Pod, ServiceAccount};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use serde_json::{Value, json};

use super::proxy::Proxy;
use crate::from_env;
use crate::lease::free_port;
use crate::machines::Shape;

/// An account with the rights of the chart, and the proxy that its requests go through. What the cluster has of it goes with this.
pub(super) struct Stage {
    /// The namespace of the release, and the name of everything that the cluster has only one of.
    pub(super) name: String,
    /// May do everything.
    pub(super) client: Client,
    pub(super) proxy: Proxy,
    pub(super) dir: tempfile::TempDir,
    /// What programs have in their environment besides what the chart sets for every cloud.
    pub(super) environment: Vec<(&'static str, &'static str)>,
}

/// A running program. It is killed when this is dropped.
pub(super) struct Program {
    child: Child,
    log: PathBuf,
    /// Where it answers probes.
    pub(super) address: String,
}

impl Stage {
    /// Makes the account; `None` without a cluster.
    pub(super) async fn new(name: &str, provider_rules: &[Value]) -> Option<Self> {
        let kubeconfig = from_env("PLIMSOLL_TEST_KUBECONFIG")?;
        let name = format!("{name}-{}", std::process::id());
        let config = |is_admin: bool| {
            let path = kubeconfig.clone();
            async move {
                let kubeconfig = Kubeconfig::read_from(path).unwrap();
                let options = KubeConfigOptions::default();
                let mut config =
                    Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
                if !is_admin {
                    config.auth_info = kube::config::AuthInfo::default();
                    // Watches last.
                    (config.read_timeout, config.write_timeout) = (None, None);
                }
                Client::try_from(config).unwrap()
            }
        };
        let client = config(true).await;
        let proxy = Proxy::start(config(false).await).await;
        let (dir, environment) = (tempfile::tempdir().unwrap(), Vec::new());
        let stage = Self { name, client, proxy, dir, environment };
        stage
            .create(
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": stage.name}}),
            )
            .await;
        for object in super::rights::objects(&stage.name, provider_rules) {
            stage.create(object).await;
        }
        stage.write_kubeconfig().await;
        symlink(env!("CARGO_BIN_EXE_plimsoll"), stage.dir.path().join("cluster-autoscaler"))
            .unwrap();
        Some(stage)
    }

    /// Creates an object of any kind.
    pub(super) async fn create(&self, object: Value) {
        let (group, version) = match object["apiVersion"].as_str().unwrap().split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", object["apiVersion"].as_str().unwrap()),
        };
        let kind = object["kind"].as_str().unwrap();
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let api: Api<DynamicObject> = match object.metadata.namespace.as_deref() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &kind),
            None => Api::all_with(self.client.clone(), &kind),
        };
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    async fn write_kubeconfig(&self) {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.name);
        let request =
            TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
        let params = PostParams::default();
        let token = accounts.create_token_request(super::rights::ACCOUNT, &params, &request).await;
        let token = token.unwrap().status.unwrap().token;
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.proxy.url}}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        fs::write(self.dir.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
    }

    /// Starts the program as the chart's Deployment does, with flags of `extraArgs`.
    pub(super) fn start(&self, replica: &str, flags: &[&str]) -> Program {
        let log = self.dir.path().join(format!("{replica}.log"));
        let address = format!("127.0.0.1:{}", free_port());
        let mut command = Command::new("./cluster-autoscaler");
        command
            .current_dir(self.dir.path())
            .args([&format!("--namespace={}", self.name), "--logtostderr=true"])
            .args(["--stderrthreshold=info", "--v=4"])
            .args(flags)
            // What a pod has in its place, and times that a test can wait for.
            .args(["--kubeconfig=kubeconfig", &format!("--address={address}")])
            .args(["--scale-down-unneeded-time=2s", "--scale-down-delay-after-add=1s"])
            .args(["--node-delete-delay-after-taint=1s", "--ok-total-unready-count=100000"])
            .env_clear()
            .env("POD_NAMESPACE", &self.name)
            .env("SERVICE_ACCOUNT", super::rights::ACCOUNT)
            .envs(self.environment.iter().copied())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap());
        Program { child: command.spawn().unwrap(), log, address }
    }

    /// Returns what the nodes of this test are like.
    pub(super) fn shape(&self) -> Shape {
        Shape { key: "stage", value: self.name.clone() }
    }

    /// Creates a pod that only nodes of this test take. Its controller is a ReplicaSet, so that it may be moved.
    pub(super) async fn pod(&self, name: &str, cpu: &str) {
        let sets: Api<DynamicObject> = Api::namespaced_with(
            self.client.clone(),
            &self.name,
            &ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "ReplicaSet")),
        );
        let spec = json!({
            "nodeSelector": {"stage": self.name},
            "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
        });
        if sets.get_opt("set").await.unwrap().is_none() {
            let labels = json!({"app": "none"});
            let template = json!({"metadata": {"labels": labels}, "spec": spec});
            self.create(json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet",
                "metadata": {"name": "set", "namespace": self.name},
                "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
            }))
            .await;
        }
        let uid = sets.get("set").await.unwrap().metadata.uid.unwrap();
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": uid, "controller": true,
        });
        self.create(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": self.name, "ownerReferences": [owner]},
            "spec": spec,
        }))
        .await;
    }

    pub(super) async fn delete_pod(&self, name: &str) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.name);
        let params = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        pods.delete(name, &params).await.unwrap();
    }

    /// Returns the node that runs a pod.
    pub(super) async fn node_of(&self, pod: &str) -> Option<String> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.name);
        let pod = pods.get_opt(pod).await.unwrap()?;
        let is_running = pod.status?.phase.as_deref() == Some("Running");
        pod.spec?.node_name.filter(|_| is_running)
    }

    /// Returns the nodes of this test.
    pub(super) async fn nodes(&self) -> Vec<Node> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let own = ListParams::default().labels(&format!("stage={}", self.name));
        nodes.list(&own).await.unwrap().items
    }

    /// Returns the events of the program with a reason.
    pub(super) async fn events(&self, reason: &str) -> Vec<Event> {
        let events: Api<Event> = Api::all(self.client.clone());
        let mut events = events.list(&ListParams::default()).await.unwrap().items;
        events.retain(|event| {
            let source = event.source.as_ref().and_then(|source| source.component.as_deref());
            event.reason.as_deref() == Some(reason) && source == Some("cluster-autoscaler")
        });
        events
    }

    /// Asserts that no request asked for more than the chart allows, and that none was about Plimsoll's own kinds.
    pub(super) fn assert_requests_are_those_of_a_cluster_autoscaler(&self) {
        let records = self.proxy.records();
        assert!(records.len() > 20, "{records:?}");
        for record in records {
            let path = record.path.as_str();
            assert!(!path.contains("plimsoll.dev"), "{record:?}");
            assert!(!path.contains("events.k8s.io"), "{record:?}");
            let is_node = path.starts_with("/api/v1/nodes/");
            assert!(!(is_node && record.method == "PATCH"), "{record:?}");
            let optional =
                ["resource.k8s.io", "autoscaling.x-k8s.io", "infrastructure.cluster.x-k8s.io"];
            let is_optional = optional.iter().any(|group| {
                path.starts_with(&format!("/apis/{group}/")) && record.method == "GET"
            });
            assert!(record.status != 403 || is_optional, "{record:?}");
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let (client, name) = (self.client.clone(), self.name.clone());
        let deleted = async move {
            let params = DeleteParams::default();
            for kind in ["ClusterRole", "ClusterRoleBinding"] {
                let kind = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", kind);
                let api: Api<DynamicObject> =
                    Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
                drop(api.delete(&name, &params).await);
            }
            let nodes: Api<Node> = Api::all(client.clone());
            let own = ListParams::default().labels(&format!("stage={name}"));
            drop(nodes.delete_collection(&params, &own).await);
            let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client);
            drop(namespaces.delete(&name, &params).await);
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(deleted));
    }
}

impl Program {
    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Returns the status and the text of an answer; 0 while nothing listens.
    pub(super) async fn get(&self, path: &str) -> (u16, String) {
        match reqwest::get(format!("http://{}{path}", self.address)).await {
            Ok(answer) => (answer.status().as_u16(), answer.text().await.unwrap()),
            Err(_) => (0, String::new()),
        }
    }

    /// Ends it as a kubelet does.
    pub(super) fn terminate(mut self) -> ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "it did not end: {}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends it without a warning.
    pub(super) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it has ended by itself.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            eprintln!("{}:\n{}", self.log.display(), self.log());
        }
    }
}
