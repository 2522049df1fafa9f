//! The scheduler on the real API server, where there is one: it binds only the pods of this test, to nodes of this test.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Api, DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use plimsoll_scheduler::Settings;
use process::Random;
use serde_json::json;

use crate::{node, node_name, pod, unschedulable, wait_for_event, wait_for_pod};

/// The key of the label and the taint of this test's nodes. The value is different in each run.
const KEY: &str = "plimsoll.dev/scheduler-test";

/// Connects to the real API server; `None`, with a line on stderr, where there is none.
async fn connect() -> Option<Client> {
    let Some(path) = std::env::var_os("PLIMSOLL_TEST_KUBECONFIG") else {
        let missing = "skipped: PLIMSOLL_TEST_KUBECONFIG is not set; `cargo xtask test` sets it";
        assert!(std::env::var_os("CI").is_none(), "on CI nothing is skipped: {missing}");
        eprintln!("{missing}");
        return None;
    };
    let kubeconfig = Kubeconfig::read_from(path).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    Some(Client::try_from(config).unwrap())
}

/// What this test creates, all under one name.
struct Real {
    client: Client,
    /// The namespace, the scheduler's name, and the value of the label and the taint.
    name: String,
    nodes: Vec<String>,
}

impl Real {
    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    async fn create_nodes(&self) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        for name in &self.nodes {
            let mut node = node(name, "2");
            let labels = node.metadata.labels.get_or_insert_default();
            labels.insert(KEY.to_owned(), self.name.clone());
            // Other schedulers leave these nodes alone.
            let taint = json!({"key": KEY, "value": self.name, "effect": "NoSchedule"});
            node.spec = Some(serde_json::from_value(json!({"taints": [taint]})).unwrap());
            nodes.create(&PostParams::default(), &node).await.unwrap();
        }
    }

    async fn create_namespace(&self) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(self.name.clone());
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    }

    async fn create_pod(&self, name: &str, cpu: &str) {
        let mut pod = pod(name, &self.name, cpu);
        let spec = pod.spec.as_mut().unwrap();
        spec.node_selector = Some([(KEY.to_owned(), self.name.clone())].into());
        // Also that of a new node, which a controller takes away only later.
        spec.tolerations = Some(serde_json::from_value(json!([{"operator": "Exists"}])).unwrap());
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
    }

    async fn clean_up(&self) {
        let now = DeleteParams::default().grace_period(0);
        let _ = self.pods().delete_collection(&now, &Default::default()).await;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let _ = namespaces.delete(&self.name, &DeleteParams::default()).await;
        let nodes: Api<Node> = Api::all(self.client.clone());
        for name in &self.nodes {
            let _ = nodes.delete(name, &DeleteParams::default()).await;
        }
    }
}

async fn check(real: &Real) {
    real.create_namespace().await;
    real.create_nodes().await;
    let settings = Settings { scheduler_name: real.name.clone(), ..Settings::default() };
    let scheduler = plimsoll_scheduler::start(real.client.clone(), settings.clone());
    for name in ["a", "b", "c", "d"] {
        real.create_pod(name, "1").await;
    }
    let mut bound_to = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let bound = wait_for_pod(&real.pods(), name, |pod| node_name(pod).is_some()).await;
        let node = node_name(&bound).unwrap().to_owned();
        let event = wait_for_event(&real.client, &real.name, &bound, "Scheduled").await;
        let expected = format!("Successfully assigned {}/{name} to {node}", real.name);
        assert_eq!(event.message, Some(expected));
        assert_eq!(event.source.unwrap().component, Some(real.name.clone()));
        bound_to.push(node);
    }
    bound_to.sort();
    let [one, two] = &*real.nodes else { panic!("there are two nodes") };
    assert_eq!(bound_to, [one, one, two, two].map(Clone::clone), "each node takes two pods");

    real.create_pod("large", "1").await;
    let refused = wait_for_pod(&real.pods(), "large", |pod| unschedulable(pod).is_some()).await;
    let message = unschedulable(&refused).unwrap().to_owned();
    assert!(message.starts_with("0/") && message.contains("Insufficient cpu"), "{message}");
    let event = wait_for_event(&real.client, &real.name, &refused, "FailedScheduling").await;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert!(event.message.unwrap().contains("Insufficient cpu"));

    // A scheduler that starts anew knows what was bound before, and the pod gets the room that becomes free.
    scheduler.stop().await;
    let scheduler = plimsoll_scheduler::start(real.client.clone(), settings);
    let now = DeleteParams::default().grace_period(0);
    real.pods().delete("a", &now).await.unwrap();
    wait_for_pod(&real.pods(), "large", |pod| node_name(pod).is_some()).await;
    scheduler.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_bound_on_the_real_api_server() {
    let Some(client) = connect().await else { return };
    let unique = format!("{:08x}", Random::system().u64() >> 32);
    let name = format!("scheduler-test-{unique}");
    let nodes = ["a", "b"].map(|node| format!("{name}-{node}")).into();
    let real = Real { client, name, nodes };
    let outcome = AssertUnwindSafe(check(&real)).catch_unwind().await;
    real.clean_up().await;
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}
