//! Pods find nodes, and simulated nodes run them.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kubelet::{Capacity, Settings, Simulated, Simulation};
use plimsoll_engine::{Engine, Runtime};
use serde_json::{Value, json};

use crate::ephemeral;

async fn simulated(count: usize, simulation: Option<Arc<dyn Simulation>>) -> (Engine, Runtime) {
    let engine = ephemeral().await;
    let capacity = Capacity { cpu_millis: 4000, memory_bytes: 8 << 30, pods: 110 };
    let start_after = Duration::from_secs(1);
    let simulated = Simulated { count, capacity, start_after, simulation, leases: false };
    let runtime = engine.run(Settings { simulated: Some(simulated), local: None }).await.unwrap();
    (engine, runtime)
}

fn pod(name: &str, spec: Value) -> Pod {
    let mut all = json!({"containers": [{"name": "c", "image": "i"}]});
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"app": "x"}}, "spec": all}))
        .unwrap()
}

/// Waits until something is so for a pod; time is paused, so that waiting takes none.
async fn until(client: &Client, name: &str, what: &str, holds: impl Fn(&Pod) -> bool) -> Pod {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for _ in 0..5000 {
        if let Some(pod) = pods.get_opt(name).await.unwrap().filter(|pod| holds(pod)) {
            return pod;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{name} never {what}: {:?}", pods.get_opt(name).await.unwrap());
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref().unwrap().node_name.as_deref()
}

async fn create(client: &Client, pod: &Pod) {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.create(&PostParams::default(), pod).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pod_gets_a_node_runs_after_its_time_and_is_removed_when_deleted() {
    let (engine, runtime) = simulated(2, None).await;
    assert_eq!(runtime.nodes(), ["sim-0001", "sim-0002"]);
    let client = engine.client();
    create(&client, &pod("a", json!({}))).await;
    let running = until(&client, "a", "ran", |pod| phase(pod) == "Running").await;
    let status = running.status.clone().unwrap();
    assert!(status.conditions.unwrap().iter().all(|c| c.status == "True"));
    assert!(status.container_statuses.unwrap()[0].ready);
    assert!(status.pod_ip.is_some() && status.host_ip.is_some());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.delete("a", &DeleteParams::default()).await.unwrap();
    for _ in 0..100 {
        if pods.get_opt("a").await.unwrap().is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the pod is still there");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fits_nowhere_gets_a_condition_and_later_a_node_once_there_is_room() {
    let (engine, _runtime) = simulated(1, None).await;
    let client = engine.client();
    let port = json!({"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 1, "hostPort": 7000}]}]});
    create(&client, &pod("first", port.clone())).await;
    until(&client, "first", "ran", |pod| phase(pod) == "Running").await;
    create(&client, &pod("second", port)).await;
    let refused = until(&client, "second", "was refused", |pod| {
        let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_ref());
        conditions.is_some_and(|c| c.iter().any(|c| c.reason.as_deref() == Some("Unschedulable")))
    })
    .await;
    let conditions = refused.status.unwrap().conditions.unwrap();
    let message = conditions.iter().find(|c| c.type_ == "PodScheduled").unwrap().message.clone();
    assert_eq!(
        message.unwrap(),
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    );
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.delete("first", &DeleteParams::default()).await.unwrap();
    until(&client, "second", "ran", |pod| phase(pod) == "Running").await;
}

#[tokio::test(start_paused = true)]
async fn cordons_selectors_and_gates_are_kept() {
    let (engine, _runtime) = simulated(2, None).await;
    let client = engine.client();
    let nodes: Api<Node> = Api::all(client.clone());
    let cordon = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    nodes.patch("sim-0001", &PatchParams::default(), &cordon).await.unwrap();
    create(&client, &pod("a", json!({}))).await;
    assert_eq!(
        node(&until(&client, "a", "got a node", |pod| node(pod).is_some()).await),
        Some("sim-0002")
    );
    create(&client, &pod("b", json!({"nodeSelector": {"kubernetes.io/hostname": "sim-0001"}})))
        .await;
    create(&client, &pod("c", json!({"schedulingGates": [{"name": "example.com/wait"}]}))).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for name in ["b", "c"] {
        assert_eq!(node(&pods.get(name).await.unwrap()), None, "{name}");
    }
    let open = Patch::Merge(json!({"spec": {"unschedulable": null}}));
    nodes.patch("sim-0001", &PatchParams::default(), &open).await.unwrap();
    let ungate = Patch::Merge(json!({"spec": {"schedulingGates": null}}));
    pods.patch("c", &PatchParams::default(), &ungate).await.unwrap();
    assert_eq!(
        node(&until(&client, "b", "got a node", |pod| node(pod).is_some()).await),
        Some("sim-0001")
    );
    until(&client, "c", "got a node", |pod| node(pod).is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_like_company_are_packed_and_others_are_spread() {
    let (engine, _runtime) = simulated(3, None).await;
    let client = engine.client();
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}});
    let wish = json!([{"weight": 100, "podAffinityTerm": term}]);
    let affinity =
        json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wish}});
    let requests = json!([{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}]);
    for (spec, name, on_one) in [
        (json!({"affinity": affinity, "containers": requests}), "packed", 6),
        (json!({"containers": requests}), "spread", 2),
    ] {
        for index in 0..6 {
            create(&client, &pod(&format!("{name}-{index}"), spec.clone())).await;
        }
        let mut nodes = Vec::new();
        for index in 0..6 {
            let name = format!("{name}-{index}");
            let placed = until(&client, &name, "got a node", |pod| node(pod).is_some()).await;
            nodes.push(node(&placed).unwrap().to_owned());
        }
        nodes.sort();
        let most = nodes.chunk_by(|a, b| a == b).map(<[String]>::len).max();
        assert!(most >= Some(on_one) && (on_one == 6 || most < Some(6)), "{name}: {nodes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_simulated_node_that_is_deleted_takes_its_pods_with_it() {
    let (engine, _runtime) = simulated(1, None).await;
    let client = engine.client();
    create(&client, &pod("a", json!({}))).await;
    until(&client, "a", "ran", |pod| phase(pod) == "Running").await;
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.delete("sim-0001", &DeleteParams::default()).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for _ in 0..100 {
        if pods.get_opt("a").await.unwrap().is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the pod is still there");
}

/// Ends each pod after a minute with the exit code that its annotation names.
struct Script;

impl Simulation for Script {
    fn play(&self, pod: &Arc<Pod>) -> Option<BoxFuture<'static, i32>> {
        let code = pod.metadata.annotations.as_ref()?.get("test/exit")?.parse().ok()?;
        Some(Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            code
        }))
    }
}

#[tokio::test(start_paused = true)]
async fn a_simulated_pod_ends_as_its_script_specifies() {
    let (engine, _runtime) = simulated(1, Some(Arc::new(Script))).await;
    let client = engine.client();
    for (name, code, policy, ends) in [
        ("good", "0", "Never", "Succeeded"),
        ("bad", "3", "Never", "Failed"),
        ("again", "3", "OnFailure", "Running"),
    ] {
        let mut pod = pod(name, json!({"restartPolicy": policy}));
        pod.metadata.annotations = Some([("test/exit".to_owned(), code.to_owned())].into());
        create(&client, &pod).await;
        let ended = until(&client, name, "ended", |pod| {
            let status = pod.status.as_ref().and_then(|s| s.container_statuses.as_ref());
            let status = status.and_then(|s| s.first());
            phase(pod) == ends && (ends != "Running" || status.is_some_and(|s| s.restart_count > 0))
        })
        .await;
        let status = ended.status.unwrap().container_statuses.unwrap().remove(0);
        let state = if ends == "Running" { status.last_state } else { status.state };
        assert_eq!(state.unwrap().terminated.unwrap().exit_code.to_string(), code);
    }
}

#[tokio::test]
async fn thousands_of_pods_are_placed_in_a_moment() {
    let (engine, _runtime) = simulated(50, None).await;
    let client = engine.client();
    let began = std::time::Instant::now();
    let creating = (0..2000).map(|index| {
        let port = json!([{"containerPort": 1, "hostPort": 7000 + index % 100}]);
        let spec = json!({"containers": [{"name": "c", "image": "i", "ports": port}]});
        let (client, pod) = (client.clone(), pod(&format!("p-{index}"), spec));
        async move { create(&client, &pod).await }
    });
    futures::future::join_all(creating).await;
    let created = began.elapsed();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for _ in 0..600 {
        let bound = pods.list(&ListParams::default().fields("status.phase=Running")).await.unwrap();
        if bound.items.len() == 2000 {
            eprintln!("2000 pods: created in {created:?}, running after {:?}", began.elapsed());
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("not all pods run");
}
