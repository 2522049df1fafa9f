//! The endpoints of Services, from pods on simulated nodes.

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use process::Random;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;

/// Starts an engine with the controller of endpoints.
async fn start() -> (Cluster, AbortOnDropHandle<()>) {
    let cluster = Cluster::embedded().await;
    let controller = plimsoll_control::endpoints::run(cluster.client.clone(), Random::seeded(1));
    (cluster, AbortOnDropHandle::new(tokio::spawn(controller)))
}

fn service(name: &str, change: Value) -> Value {
    let mut service = json!({
        "metadata": {"name": name},
        "spec": {
            "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    });
    for (field, value) in change.as_object().unwrap() {
        service["spec"][field] = value.clone();
    }
    service
}

async fn pod(cluster: &Cluster, name: &str, finalizers: Value) {
    let container = json!({
        "name": "c", "image": "i", "ports": [{"name": "http", "containerPort": 8080}],
    });
    let pod = json!({
        "metadata": {"name": name, "labels": {"app": "web"}, "finalizers": finalizers},
        "spec": {"containers": [container], "nodeSelector": {"test": cluster.namespace}},
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    cluster.api::<Pod>().create(&PostParams::default(), &pod).await.unwrap();
}

async fn slices(cluster: &Cluster, service: &str) -> Vec<EndpointSlice> {
    let mut slices = cluster.list::<EndpointSlice>().await;
    slices.retain(|slice| {
        let labels = slice.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get("kubernetes.io/service-name")).map(String::as_str)
            == Some(service)
    });
    slices
}

/// Lists the endpoints of a Service: pod, ready, serving, terminating.
async fn endpoints(cluster: &Cluster, service: &str) -> Vec<(String, bool, bool, bool)> {
    let slices = slices(cluster, service).await;
    let line = |endpoint: &Endpoint| {
        let name = endpoint.target_ref.as_ref().unwrap().name.clone().unwrap();
        let c = endpoint.conditions.as_ref().unwrap();
        (name, c.ready.unwrap(), c.serving.unwrap(), c.terminating.unwrap())
    };
    let all = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
    let mut all: Vec<_> = all.map(line).collect();
    all.sort();
    all
}

fn line(name: &str, ready: bool, serving: bool, terminating: bool) -> (String, bool, bool, bool) {
    (name.to_owned(), ready, serving, terminating)
}

#[tokio::test]
async fn endpoints_follow_pods_from_ready_to_gone() {
    let (cluster, _controller) = start().await;
    cluster.create::<Service>(service("web", json!({}))).await;
    cluster.create::<Service>(service("all", json!({"publishNotReadyAddresses": true}))).await;
    for (name, finalizers) in [("a", json!([])), ("b", json!([])), ("c", json!(["test.dev/hold"]))]
    {
        pod(&cluster, name, finalizers).await;
    }
    let ready = ["a", "b", "c"].map(|name| line(name, true, true, false));
    cluster.until("three are ready", async || endpoints(&cluster, "web").await == ready).await;
    let slice = slices(&cluster, "web").await.remove(0);
    assert_eq!(slice.ports.as_ref().unwrap()[0].port, Some(8080), "the named port is resolved");
    let owner = &slice.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((&*owner.kind, &*owner.name), ("Service", "web"));

    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let (params, patch) = (PatchParams::default(), Patch::Strategic(unready));
    cluster.api::<Pod>().patch_status("b", &params, &patch).await.unwrap();
    cluster.api::<Pod>().delete("c", &DeleteParams::default()).await.unwrap();
    let expected = [
        line("a", true, true, false),
        line("b", false, false, false),
        line("c", false, true, true),
    ];
    cluster.until("one is left", async || endpoints(&cluster, "web").await == expected).await;
    let expected =
        [line("a", true, true, false), line("b", true, false, false), line("c", true, true, true)];
    cluster.until("all are published", async || endpoints(&cluster, "all").await == expected).await;
    cluster
        .until("Endpoints list one ready and one unready address", async || {
            let endpoints = cluster.api::<Endpoints>().get("web").await.unwrap();
            let counts = |subset: &k8s_openapi::api::core::v1::EndpointSubset| {
                let ready = subset.addresses.as_ref().map_or(0, Vec::len);
                (ready, subset.not_ready_addresses.as_ref().map_or(0, Vec::len))
            };
            endpoints.subsets.iter().flatten().map(counts).collect::<Vec<_>>() == [(1, 1)]
        })
        .await;

    let release = json!({"metadata": {"finalizers": null}});
    cluster.patch::<Pod>("c", release).await;
    let gone = async || endpoints(&cluster, "web").await.len() == 2;
    cluster.until("the terminated pod is gone", gone).await;
    cluster.delete::<Service>("web").await;
    cluster
        .until("everything of the Service is gone", async || {
            let endpoints = cluster.api::<Endpoints>().get_opt("web").await.unwrap();
            endpoints.is_none() && slices(&cluster, "web").await.is_empty()
        })
        .await;
}

#[tokio::test]
async fn more_than_a_hundred_pods_have_several_slices() {
    let (cluster, _controller) = start().await;
    cluster.create::<Service>(service("web", json!({"clusterIP": "None"}))).await;
    for number in 0..120 {
        pod(&cluster, &format!("web-{number}"), json!([])).await;
    }
    let all_ready = async || {
        let all = endpoints(&cluster, "web").await;
        all.len() == 120 && all.iter().all(|(_, ready, ..)| *ready)
    };
    cluster.until("120 are ready", all_ready).await;
    let slices = slices(&cluster, "web").await;
    let sizes: Vec<_> = slices.iter().map(|s| s.endpoints.as_ref().map_or(0, Vec::len)).collect();
    assert!(sizes.len() > 1 && sizes.iter().all(|size| *size <= 100), "{sizes:?}");
    let is_headless = |slice: &EndpointSlice| {
        let labels = slice.metadata.labels.as_ref().unwrap();
        labels.contains_key("service.kubernetes.io/headless")
    };
    assert!(slices.iter().all(is_headless));
}

#[tokio::test]
async fn the_endpoints_of_a_service_without_a_selector_belong_to_its_author() {
    let (cluster, _controller) = start().await;
    cluster.create::<Service>(service("manual", json!({"selector": null}))).await;
    let slice = json!({
        "metadata": {"name": "manual-1", "labels": {"kubernetes.io/service-name": "manual"}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"]}],
        "ports": [{"name": "http", "port": 80}],
    });
    cluster.create::<EndpointSlice>(slice).await;
    // What the controller would do to the first Service it has done by the time that the second one is served.
    cluster.create::<Service>(service("web", json!({}))).await;
    pod(&cluster, "a", json!([])).await;
    let served = async || endpoints(&cluster, "web").await.len() == 1;
    cluster.until("the other Service is served", served).await;
    let slices = slices(&cluster, "manual").await;
    assert_eq!(slices.len(), 1);
    assert_eq!(slices[0].endpoints.as_ref().unwrap()[0].addresses, ["192.0.2.1"]);
    assert!(cluster.api::<Endpoints>().get_opt("manual").await.unwrap().is_none());
}

/// Returns the slices of all Services of a namespace in a fixed order, without what differs from one cluster to another.
async fn shape(cluster: &Cluster) -> Vec<Value> {
    let endpoint = |endpoint: &Endpoint| {
        let pod = endpoint.target_ref.clone().unwrap_or_default();
        json!({
            "pod": [pod.kind, pod.name, pod.field_path],
            "conditions": endpoint.conditions, "hostname": endpoint.hostname,
            "hasNode": endpoint.node_name.is_some(), "addresses": endpoint.addresses.len(),
        })
    };
    let slice = |slice: &EndpointSlice| {
        let meta = &slice.metadata;
        let mut endpoints: Vec<_> = slice.endpoints.iter().flatten().map(endpoint).collect();
        endpoints.sort_by_key(Value::to_string);
        let mut owner = json!(meta.owner_references.as_ref().unwrap());
        owner[0]["uid"] = Value::Null;
        let mut annotations = meta.annotations.clone().unwrap_or_default();
        annotations.remove("endpoints.kubernetes.io/last-change-trigger-time");
        json!({
            "annotations": annotations,
            "generateName": meta.generate_name, "labels": meta.labels, "owner": owner,
            "addressType": slice.address_type, "ports": slice.ports.as_deref().unwrap_or_default(),
            "endpoints": endpoints,
        })
    };
    let mut slices: Vec<Value> = cluster.list::<EndpointSlice>().await.iter().map(slice).collect();
    slices.retain(|slice| slice["labels"]["kubernetes.io/service-name"] != "kubernetes");
    slices.sort_by_key(Value::to_string);
    slices
}

/// Creates Services and pods of all kinds.
async fn set_up(cluster: &Cluster) {
    let ports = json!([
        {"name": "http", "port": 80, "targetPort": "http", "appProtocol": "http"},
        {"name": "fixed", "port": 81, "targetPort": 9000, "protocol": "UDP"},
    ]);
    cluster.create::<Service>(service("web", json!({"ports": ports}))).await;
    let headless = json!({"clusterIP": "None", "ports": null, "publishNotReadyAddresses": true});
    cluster.create::<Service>(service("headless", headless)).await;
    cluster.create::<Service>(service("empty", json!({"selector": {"app": "none"}}))).await;
    cluster.create::<Service>(service("manual", json!({"selector": null}))).await;
    let written = json!({
        "metadata": {"name": "manual", "labels": {"by": "hand"}, "annotations": {"note": "kept"}},
        "subsets": [
            {
                "addresses": [{"ip": "192.0.2.1", "hostname": "one"}, {"ip": "192.0.2.2"}],
                "notReadyAddresses": [{"ip": "192.0.2.3"}],
                "ports": [{"name": "http", "port": 8080}, {"name": "dns", "port": 53, "protocol": "UDP"}],
            },
            {"addresses": [{"ip": "192.0.2.9"}], "ports": [{"name": "http", "port": 7000}]},
        ],
    });
    cluster.create::<Endpoints>(written).await;
    for (name, port, finalizers) in [
        ("a", json!([{"name": "http", "containerPort": 8080}]), json!([])),
        ("b", json!([{"name": "http", "containerPort": 8081}]), json!(["test.dev/hold"])),
        ("c", json!([]), json!([])),
    ] {
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": "web"}, "finalizers": finalizers},
            "spec": {
                "hostname": format!("host-{name}"), "subdomain": "headless",
                "containers": [{"name": "c", "image": "i", "ports": port}],
                "nodeSelector": {"test": cluster.namespace},
            },
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        cluster.api::<Pod>().create(&PostParams::default(), &pod).await.unwrap();
    }
}

/// Makes one pod unready, and deletes another, which a finalizer holds.
async fn disturb(cluster: &Cluster) {
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let patch = Patch::Strategic(unready);
    cluster.api::<Pod>().patch_status("a", &PatchParams::default(), &patch).await.unwrap();
    cluster.api::<Pod>().delete("b", &DeleteParams::default()).await.unwrap();
    let ports = json!([{"name": "http", "port": 8080}]);
    let subset = json!({"addresses": [{"ip": "192.0.2.1"}], "ports": ports});
    cluster.patch::<Endpoints>("manual", json!({"subsets": [subset]})).await;
}

/// Compares with kube-controller-manager.
#[tokio::test]
async fn slices_are_those_of_the_real_controller() {
    let Some(real) = Cluster::real().await else { return };
    let (ours, _controller) = start().await;
    let same = async |what: &str| {
        real.until(what, async || shape(&real).await == shape(&ours).await).await;
    };
    for cluster in [&real, &ours] {
        set_up(cluster).await;
        let are_ready = async || {
            let all = endpoints(cluster, "web").await;
            all.len() == 3 && all.iter().all(|(_, ready, ..)| *ready)
        };
        cluster.until("three are ready", are_ready).await;
    }
    same("the same slices for ready pods").await;
    for cluster in [&real, &ours] {
        disturb(cluster).await;
        let expected = [
            line("a", false, false, false),
            line("b", false, true, true),
            line("c", true, true, false),
        ];
        let is_updated = async || endpoints(cluster, "web").await == expected;
        cluster.until("one is left", is_updated).await;
    }
    same("the same slices for unready and terminating pods").await;
    for cluster in [&real, &ours] {
        let ports = json!([{"name": "http", "port": 80, "targetPort": 7000, "protocol": "TCP"}]);
        cluster.patch::<Service>("web", json!({"spec": {"ports": ports}})).await;
        cluster.patch::<Pod>("b", json!({"metadata": {"finalizers": null}})).await;
        let is_moved = async || {
            let slices = slices(cluster, "web").await;
            let ports: Vec<_> =
                slices.iter().flat_map(|s| s.ports.iter().flatten()).map(|p| p.port).collect();
            ports == [Some(7000)] && endpoints(cluster, "web").await.len() == 2
        };
        cluster.until("the port is another", is_moved).await;
        cluster.delete::<Endpoints>("manual").await;
    }
    same("the same slices after a change of the ports").await;
    real.end().await;
}
