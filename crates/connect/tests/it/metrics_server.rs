//! The source `kubernetes` on a real kube-apiserver with a real metrics-server, which reads the use of pods that KWOK simulates.
//!
//! The node, KWOK and metrics-server are this test's own, so that it can stop them. It takes a minute, and belongs to
//! `cargo xtask test --all`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Api, DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use plimsoll_connect::Context;
use plimsoll_connect::sources::{Answer, MetricSource, Query};
use process::{Clock, Random, Supervisor};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::real::{Program, ask_about, open, target, value, variable};

/// The group that metrics-server serves.
const GROUP: &str = "v1beta1.metrics.k8s.io";

/// A real cluster with a namespace and a node of this test.
struct Stage {
    kubeconfig: PathBuf,
    config: Config,
    client: Client,
    /// The name of the namespace and of the node.
    name: String,
}

impl Stage {
    async fn open() -> Self {
        let kubeconfig = PathBuf::from(std::env::var_os("PLIMSOLL_TEST_KUBECONFIG").unwrap());
        let read = Kubeconfig::read_from(&kubeconfig).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(read, &options).await.unwrap();
        config.default_retry = false;
        let client = Client::try_from(config.clone()).unwrap();
        let name = format!("metrics-{}", std::process::id());
        Self { kubeconfig, config, client, name }
    }

    async fn create<K>(&self, api: Api<K>, object: Value)
    where
        K: Clone + Serialize + DeserializeOwned + std::fmt::Debug,
    {
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    /// Creates a node for KWOK, and a Deployment with two pods that use half and a quarter of a core, and half of their memory.
    async fn prepare(&self) {
        let Self { client, name, .. } = self;
        self.create(Api::<Namespace>::all(client.clone()), json!({"metadata": {"name": name}}))
            .await;
        let capacity = json!({"cpu": "32", "memory": "64Gi", "pods": "110"});
        let path = format!("/metrics/nodes/{name}/metrics/resource");
        let node = json!({
            "metadata": {
                "name": name, "labels": {"plimsoll.dev/test-kubelet": name},
                "annotations": {"metrics.k8s.io/resource-metrics-path": path},
            },
            "spec": {"taints": [{"key": "plimsoll.dev/test", "effect": "NoSchedule"}]},
            "status": {"capacity": capacity, "allocatable": capacity},
        });
        self.create(Api::<Node>::all(client.clone()), node).await;
        let containers = json!([{
            "name": "main", "image": "web",
            "resources": {"requests": {"cpu": "1", "memory": "100Mi"}, "limits": {"cpu": "2", "memory": "200Mi"}},
        }]);
        for (service, uses) in [("web", &["500m", "250m"][..]), ("new", &[])] {
            let labels = json!({"app": service});
            let deployment = json!({
                "metadata": {"name": service},
                "spec": {"replicas": uses.len(), "selector": {"matchLabels": labels}, "template": {
                    "metadata": {"labels": labels}, "spec": {"containers": containers},
                }},
            });
            self.create(Api::<Deployment>::namespaced(client.clone(), name), deployment).await;
            for (index, cpu) in uses.iter().enumerate() {
                let annotations = json!({"test/cpu": cpu, "test/memory": "50Mi"});
                let pod = json!({
                    "metadata": {"name": format!("{service}-{index}"), "labels": labels, "annotations": annotations},
                    "spec": {"nodeName": name, "containers": containers},
                });
                self.create(Api::<Pod>::namespaced(client.clone(), name), pod).await;
            }
        }
    }

    /// Starts a KWOK that plays the node, and simulates the use that the pods' annotations name.
    async fn kwok(&self, program: &str) -> Program {
        let stages = Path::new(program).with_file_name("kwok-stages.yaml");
        let usage =
            |resource: &str| format!("Quantity(pod.metadata.annotations[\"test/{resource}\"])");
        let usage =
            json!({"cpu": {"expression": usage("cpu")}, "memory": {"expression": usage("memory")}});
        let metric = |name: &str, dimension: &str, kind: &str, value: &str| {
            let mut labels = vec![];
            if dimension != "node" {
                labels.push(json!({"name": "namespace", "value": "pod.metadata.namespace"}));
                labels.push(json!({"name": "pod", "value": "pod.metadata.name"}));
            }
            if dimension == "container" {
                labels.push(json!({"name": "container", "value": "container.name"}));
            }
            json!({"name": name, "dimension": dimension, "kind": kind, "labels": labels, "value": value})
        };
        let metrics = json!([
            metric(
                "node_cpu_usage_seconds_total",
                "node",
                "counter",
                "node.CumulativeUsage(\"cpu\")"
            ),
            metric("node_memory_working_set_bytes", "node", "gauge", "node.Usage(\"memory\")"),
            metric("container_start_time_seconds", "container", "gauge", "pod.SinceSecond()"),
            metric(
                "container_cpu_usage_seconds_total",
                "container",
                "counter",
                "pod.CumulativeUsage(\"cpu\", container.name)"
            ),
            metric(
                "container_memory_working_set_bytes",
                "container",
                "gauge",
                "pod.Usage(\"memory\", container.name)"
            ),
        ]);
        let version = "kwok.x-k8s.io/v1alpha1";
        let path = "/metrics/nodes/{nodeName}/metrics/resource";
        let config = [
            json!({"apiVersion": version, "kind": "ClusterResourceUsage", "metadata": {"name": "usage"},
                   "spec": {"usages": [{"usage": usage}]}}),
            json!({"apiVersion": version, "kind": "Metric", "metadata": {"name": "resource"},
                   "spec": {"path": path, "metrics": metrics}}),
        ]
        .map(|document| format!("---\n{document}\n"))
        .concat();
        Program::start(program, |port, folder| {
            let file = folder.join("usage.yaml");
            std::fs::write(&file, config).unwrap();
            vec![
                format!("--kubeconfig={}", self.kubeconfig.display()),
                format!("--config={}", stages.display()),
                format!("--config={}", file.display()),
                format!(
                    "--manage-nodes-with-label-selector=plimsoll.dev/test-kubelet={}",
                    self.name
                ),
                format!("--server-address=127.0.0.1:{port}"),
                format!("--node-port={port}"),
                "--node-ip=127.0.0.1".to_owned(),
            ]
        })
        .await
    }

    /// Starts a metrics-server that reads from that KWOK, and registers its group.
    async fn metrics_server(&self, program: &str) -> Program {
        let server = Program::start(program, |port, folder| {
            let kubeconfig = self.kubeconfig.display();
            vec![
                format!("--kubeconfig={kubeconfig}"),
                format!("--authentication-kubeconfig={kubeconfig}"),
                format!("--authorization-kubeconfig={kubeconfig}"),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--secure-port={port}"),
                format!("--cert-dir={}", folder.display()),
                "--kubelet-use-node-status-port".to_owned(),
                "--kubelet-preferred-address-types=InternalIP".to_owned(),
                "--deprecated-kubelet-completely-insecure".to_owned(),
                "--metric-resolution=10s".to_owned(),
                "--kubelet-request-timeout=5s".to_owned(),
            ]
        })
        .await;
        let service = json!({"metadata": {"name": "metrics"}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
        self.create(Api::<Service>::namespaced(self.client.clone(), &self.name), service).await;
        let group = json!({
            "metadata": {"name": GROUP},
            "spec": {
                "group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
                "service": {"name": "metrics", "namespace": self.name, "port": server.port},
                "insecureSkipTLSVerify": true,
            },
        });
        self.create(Api::<APIService>::all(self.client.clone()), group).await;
        server
    }

    fn context(&self, client: Client) -> Context {
        let (clock, random, supervisor) = (Clock::system(), Random::seeded(1), Supervisor::new());
        Context::new(client, clock, random, supervisor)
    }

    /// Takes everything away, whatever is there.
    async fn clean_up(&self) {
        let now = DeleteParams::background().grace_period(0);
        let client = || self.client.clone();
        drop(Api::<APIService>::all(client()).delete(GROUP, &now).await);
        let pods: Api<Pod> = Api::namespaced(client(), &self.name);
        drop(pods.delete_collection(&now, &Default::default()).await);
        drop(Api::<Namespace>::all(client()).delete(&self.name, &now).await);
        drop(Api::<Node>::all(client()).delete(&self.name, &now).await);
    }
}

/// Waits until the source answers with points.
async fn until_measured(source: &dyn MetricSource, stage: &Stage) {
    let until = Instant::now() + Duration::from_secs(180);
    loop {
        let answer = ask_about(source, "cpu", Some(deployment(stage, "web"))).await;
        if matches!(answer, Ok(Answer::Points(_))) {
            return;
        }
        assert!(Instant::now() < until, "metrics-server has no metrics: {answer:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn deployment(stage: &Stage, name: &str) -> plimsoll_connect::targets::TargetRef {
    let mut target = target(json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name}));
    target.namespace.clone_from(&stage.name);
    target
}

async fn measure(stage: &Stage, kwok: &str, metrics_server: &str) {
    stage.prepare().await;
    let _kwok = stage.kwok(kwok).await;
    let context = stage.context(stage.client.clone());
    let source = open(&context, json!({"kubernetes": {}}));
    let web = || Some(deployment(stage, "web"));
    let unserved = ask_about(&*source, "cpu", web()).await.unwrap_err();
    assert!(unserved.contains("metrics.k8s.io is not served by the cluster"), "{unserved}");

    let server = stage.metrics_server(metrics_server).await;
    until_measured(&*source, stage).await;
    for (query, wanted) in
        [("cpu", 37.5), ("cpu/limit", 18.75), ("memory", 50.0), ("memory/limit", 25.0)]
    {
        let found = value(&ask_about(&*source, query, web()).await);
        assert!((found - wanted).abs() < wanted / 10.0, "{query}: {found} %");
    }
    let new = Some(deployment(stage, "new"));
    assert_eq!(ask_about(&*source, "cpu", new).await, Ok(Answer::NoData));
    let missing = ask_about(&*source, "cpu", Some(deployment(stage, "none"))).await.unwrap_err();
    assert!(missing.contains("not found"), "{missing}");

    // What was measured now is stale in an hour.
    let later = Query {
        text: "cpu".to_owned(),
        target: web(),
        window: decide::checks::Window { length: None, offset: jiff::SignedDuration::ZERO },
        now: jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1),
        deadline: Instant::now() + Duration::from_secs(30),
    };
    let stale = source.query(&later).await.map_err(|err| err.to_string());
    assert!(matches!(stale, Ok(Answer::Stale { .. })), "{stale:?}");

    let mut config = stage.config.clone();
    config.auth_info.impersonate = Some("nobody".to_owned());
    let stranger = stage.context(Client::try_from(config).unwrap());
    let stranger = open(&stranger, json!({"kubernetes": {}}));
    let refused = ask_about(&*stranger, "cpu", web()).await.unwrap_err();
    assert!(refused.contains("forbidden"), "{refused}");

    drop(server);
    let down = ask_about(&*source, "cpu", web()).await;
    assert!(down.is_err(), "an aggregated API that is down is an error: {down:?}");
}

#[tokio::test]
async fn a_real_metrics_server_has_the_use_of_pods_and_is_an_error_when_it_is_down() {
    // Set by `cargo xtask test --all`.
    if std::env::var_os("PLIMSOLL_TEST_SLOW").is_none() {
        return;
    }
    let names = ["PLIMSOLL_TEST_KUBECONFIG", "PLIMSOLL_TEST_KWOK", "PLIMSOLL_TEST_METRICS_SERVER"];
    let [Some(_), Some(kwok), Some(server)] = names.map(variable) else { return };
    let stage = std::sync::Arc::new(Stage::open().await);
    let measured = {
        let stage = std::sync::Arc::clone(&stage);
        tokio::spawn(async move { measure(&stage, &kwok, &server).await })
    };
    let measured = measured.await;
    stage.clean_up().await;
    measured.unwrap();
}
