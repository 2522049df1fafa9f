//! The usage of pods and nodes, as `kubectl top` shows it.

use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, PostParams};
use kubelet::{Capacity, Launcher, Local, Settings, Simulated};
use plimsoll_engine::{Engine, Runtime};
use serde_json::{Value, json};

use crate::pods::docker;
use crate::{ephemeral, kubectls};

async fn simulated() -> (Engine, Runtime) {
    let engine = ephemeral().await;
    let capacity = Capacity { cpu_millis: 4000, memory_bytes: 8 << 30, pods: 110 };
    let simulated = Simulated { count: 2, capacity, ..Simulated::default() };
    let runtime = engine.run(Settings { simulated: Some(simulated), local: None }).await.unwrap();
    (engine, runtime)
}

async fn create(client: &Client, pod: Value) {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod: Pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let name = pod.metadata.name.unwrap();
    for _ in 0..1200 {
        let status = pods.get(&name).await.unwrap().status;
        if status.and_then(|status| status.phase).as_deref() == Some("Running") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{name} does not run");
}

fn simulated_pod(name: &str, usage: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": name}, "annotations": {"plimsoll.dev/simulated-usage": usage}},
        "spec": {"nodeName": "sim-0001", "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]},
    })
}

async fn get(client: &Client, path: &str) -> Result<Value, kube::Error> {
    let path = format!("/apis/metrics.k8s.io/v1beta1{path}");
    client.request(http::Request::get(path).body(Vec::new()).unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn simulated_pods_use_what_their_annotation_specifies() {
    let (engine, _runtime) = simulated().await;
    let client = engine.client();
    create(&client, simulated_pod("a", "cpu=100m,memory=64Mi")).await;
    create(&client, simulated_pod("b", "cpu=50m")).await;

    let all = get(&client, "/namespaces/default/pods").await.unwrap();
    assert_eq!(all["kind"], "PodMetricsList");
    let names: Vec<&str> = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|i| i["metadata"]["name"].as_str())
        .collect();
    assert_eq!(names, ["a", "b"]);
    let a = get(&client, "/namespaces/default/pods/a").await.unwrap();
    assert_eq!(
        a["containers"][0],
        json!({"name": "c", "usage": {"cpu": "100000000n", "memory": "65536Ki"}})
    );
    assert_eq!(a["containers"][1]["usage"], json!({"cpu": "0n", "memory": "0Ki"}));
    let selected = get(&client, "/pods?labelSelector=app%3Db").await.unwrap();
    assert_eq!(selected["items"].as_array().unwrap().len(), 1);
    assert_eq!(selected["items"][0]["metadata"]["labels"]["app"], "b");

    let node = get(&client, "/nodes/sim-0001").await.unwrap();
    assert_eq!(node["usage"], json!({"cpu": "150000000n", "memory": "65536Ki"}));
    let nodes = get(&client, "/nodes").await.unwrap();
    assert_eq!(nodes["items"][1]["usage"]["cpu"], "0n");
    for path in ["/namespaces/default/pods/none", "/nodes/none"] {
        let kube::Error::Api(missing) = get(&client, path).await.unwrap_err() else { panic!() };
        assert_eq!(missing.code, 404, "{path}");
    }
    let kube::Error::Api(bad) = get(&client, "/pods?labelSelector=%3D%3D").await.unwrap_err()
    else {
        panic!()
    };
    assert_eq!(bad.code, 400, "{bad:?}");
}

/// A shell that never waits.
const BURN: [&str; 3] = ["sh", "-c", "while true; do :; done"];

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_top_shows_a_process_that_works_and_the_machine() {
    let containers = json!([
        {"name": "busy", "image": "i", "command": BURN},
        {"name": "idle", "image": "i", "command": ["sleep", "1000"]},
    ]);
    shows_what_works(local(), containers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_top_shows_a_docker_container_that_works() {
    let Some((socket, image)) = docker::real() else { return };
    let containers = json!([
        {"name": "busy", "image": image, "command": BURN},
        {"name": "idle", "image": image, "command": ["sleep", "1000"]},
    ]);
    shows_what_works(Local { docker: Some(socket), ..local() }, containers).await;
}

fn local() -> Local {
    let program = env!("CARGO_BIN_EXE_plimsoll-launch").into();
    Local::new(Launcher { program, args: Vec::new() })
}

/// Runs a pod with these containers, `busy` and `idle`, and checks what each kubectl shows of it.
async fn shows_what_works(local: Local, containers: Value) {
    let kubectls = kubectls();
    if kubectls.is_empty() {
        return;
    }
    let engine = ephemeral().await;
    let _runtime = engine.run(Settings { local: Some(local), simulated: None }).await.unwrap();
    let client = engine.client();
    let spec = json!({"terminationGracePeriodSeconds": 0, "containers": containers});
    create(&client, json!({"metadata": {"name": "a", "labels": {"app": "a"}}, "spec": spec})).await;

    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("kubeconfig");
    let listening = engine.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    engine.write_kubeconfig(&config, &listening).unwrap();
    for kubectl in kubectls {
        let run = |args: &'static [&'static str]| {
            let mut command = Command::new(&kubectl);
            command.arg("--kubeconfig").arg(&config).args(args);
            async move {
                let output = tokio::task::spawn_blocking(move || command.output().unwrap());
                let output = output.await.unwrap();
                let errors = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(output.status.success(), "{args:?}: {errors}");
                String::from_utf8(output.stdout).unwrap()
            }
        };
        let row = |text: &str, start: &str| -> (u64, u64) {
            let line = text.lines().find(|line| line.starts_with(start));
            let line = line.unwrap_or_else(|| panic!("no line {start:?} in {text}"));
            let fields: Vec<&str> = line[start.len()..].split_whitespace().collect();
            let number = |text: &str| text.trim_end_matches(char::is_alphabetic).parse().unwrap();
            (number(fields[0]), number(fields.iter().find(|f| f.ends_with("Mi")).unwrap()))
        };
        let pods = run(&["top", "pods", "-l", "app=a", "--containers"]).await;
        let ((busy, _), (idle, _)) = (row(&pods, "a     busy"), row(&pods, "a     idle"));
        assert!(busy > 10 && idle < busy, "{pods}");
        assert!(run(&["top", "pods", "-A"]).await.contains("default"));
        let nodes = run(&["top", "nodes"]).await;
        let (cpu, memory) = row(&nodes, "local");
        assert!(cpu > 0 && memory > 0, "{nodes}");
        assert!(run(&["top", "node", "local"]).await.contains("local"));
    }
}
