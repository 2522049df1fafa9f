//! The NodeGroups of an embedded engine, served by Cluster Autoscaler's protocol: to clients of old and new releases, and to our own
//! provider `externalGrpc`.

use std::net::SocketAddr;
use std::sync::Arc;

use api::plimsoll::{NodeAutoscaler, NodeGroup as GroupObject};
use connect::Context;
use connect::proto::core_v1::Node;
use connect::proto::external_grpc::cloud_provider_client::CloudProviderClient;
use connect::proto::external_grpc::*;
use connect::providers::{self, NodeGroupProvider};
use engine::{Engine, Settings};
use jiff::SignedDuration;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Api, PostParams};
use plimsoll_serve::external_grpc::{self, NodeGroups, Providers};
use plimsoll_serve::listen::{Endpoint, ServeError};
use process::{Clock, Random, Supervisor};
use prost_types::Timestamp;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::Code;
use tonic::transport::Channel;

use crate::allocator::certificates::{Authority, files};

/// An engine with node groups, and the server that answers about them.
struct World {
    _engine: Engine,
    context: Context,
    address: SocketAddr,
    server: JoinHandle<Result<(), ServeError>>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl World {
    async fn new() -> Self {
        Self::with(|listener| Endpoint { listener, tls: None, allow_anonymous: false }).await
    }

    async fn with(endpoint: impl FnOnce(TcpListener) -> Endpoint) -> Self {
        let engine = Engine::open(Settings::ephemeral()).await.unwrap();
        let context =
            Context::new(engine.client(), Clock::system(), Random::seeded(1), Supervisor::new());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let groups = NodeGroups::new(context.clone(), Providers::new());
        let serving = external_grpc::serve(groups, endpoint(listener), std::future::pending());
        Self { _engine: engine, context, address, server: tokio::spawn(serving) }
    }

    /// Creates a group whose machines appear at once.
    async fn create(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut group = json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeGroup", "metadata": {"name": name},
            "spec": {
                "max": 3, "provider": {"simulated": {"startAfter": "0s"}},
                "template": {"labels": {"disk": "ssd"}, "capacity": {"cpu": "1500m", "memory": "4Gi"}},
            },
        });
        change(&mut group["spec"]);
        let api: Api<GroupObject> = Api::all(self.context.client.clone());
        api.create(&PostParams::default(), &serde_json::from_value(group).unwrap()).await.unwrap();
    }

    async fn client(&self) -> CloudProviderClient<Channel> {
        CloudProviderClient::connect(format!("http://{}", self.address)).await.unwrap()
    }

    fn provider(&self, tls: Value) -> Arc<dyn NodeGroupProvider> {
        let mut connection = json!({"address": self.address.to_string(), "timeout": "20s"});
        if !tls.is_null() {
            connection["tls"] = tls;
        }
        let opened = providers::open(&self.context, "externalGrpc", &connection);
        opened.map_err(|error| error.to_string()).unwrap()
    }
}

fn id(id: &str) -> String {
    id.to_owned()
}

async fn target(client: &mut CloudProviderClient<Channel>, group: &str) -> i32 {
    let request = NodeGroupTargetSizeRequest { id: id(group) };
    client.node_group_target_size(request).await.unwrap().into_inner().target_size
}

async fn instances(client: &mut CloudProviderClient<Channel>, group: &str) -> Vec<Instance> {
    let request = NodeGroupNodesRequest { id: id(group) };
    client.node_group_nodes(request).await.unwrap().into_inner().instances
}

/// A node as a client without a Node names it: the id is all that it knows.
fn unknown_node(instance: &Instance) -> ExternalGrpcNode {
    let provider_id = instance.id.clone();
    ExternalGrpcNode { name: provider_id.clone(), provider_id, ..ExternalGrpcNode::default() }
}

#[tokio::test]
async fn a_client_scales_groups_as_cluster_autoscaler_does() {
    let world = World::new().await;
    world.create("pool-a", |_| {}).await;
    world.create("pool-b", |spec| spec["provider"] = json!({"aws": {}})).await;
    let mut client = world.client().await;
    client.refresh(RefreshRequest {}).await.unwrap();
    let groups = client.node_groups(NodeGroupsRequest {}).await.unwrap().into_inner().node_groups;
    // The other one cannot be scaled: it does not name its group.
    assert_eq!(groups.len(), 1);
    assert_eq!((&*groups[0].id, groups[0].min_size, groups[0].max_size), ("pool-a", 0, 3));
    assert_eq!(target(&mut client, "pool-a").await, 0);

    let increase = |delta| NodeGroupIncreaseSizeRequest { delta, id: id("pool-a") };
    client.node_group_increase_size(increase(2)).await.unwrap();
    assert_eq!(target(&mut client, "pool-a").await, 2);
    let running = instances(&mut client, "pool-a").await;
    let state = instance_status::InstanceState::InstanceRunning;
    assert!(running.iter().all(|it| it.status.as_ref().unwrap().instance_state() == state));
    let too_many = client.node_group_increase_size(increase(2)).await.unwrap_err();
    assert_eq!(too_many.message(), "4 nodes are more than the maximum of 3");
    assert!(client.node_group_increase_size(increase(-1)).await.is_err());

    let node = unknown_node(&running[0]);
    let request = NodeGroupForNodeRequest { node: Some(node.clone()) };
    let group = client.node_group_for_node(request).await.unwrap().into_inner().node_group;
    assert_eq!(group.unwrap().id, "pool-a");
    let stranger = ExternalGrpcNode { provider_id: id("cloud://x"), ..node.clone() };
    let request = NodeGroupForNodeRequest { node: Some(stranger) };
    let group = client.node_group_for_node(request).await.unwrap().into_inner().node_group;
    assert_eq!(group.unwrap().id, "");

    let delete = NodeGroupDeleteNodesRequest { nodes: vec![node], id: id("pool-a") };
    client.node_group_delete_nodes(delete).await.unwrap();
    assert_eq!(target(&mut client, "pool-a").await, 1);
    assert_eq!(instances(&mut client, "pool-a").await.len(), 1);
    let decrease = NodeGroupDecreaseTargetSizeRequest { delta: -1, id: id("pool-a") };
    let refused = client.node_group_decrease_target_size(decrease).await.unwrap_err();
    assert!(refused.message().ends_with("a target of 0 would delete nodes: 1 exist"), "{refused}");
    let unknown = NodeGroupTargetSizeRequest { id: id("pool-c") };
    let unknown = client.node_group_target_size(unknown).await.unwrap_err();
    assert_eq!(unknown.message(), "there is no node group `pool-c`");
}

#[tokio::test]
async fn nodes_of_another_group_are_not_deleted() {
    let world = World::new().await;
    world.create("pool-a", |_| {}).await;
    world.create("pool-b", |_| {}).await;
    let mut client = world.client().await;
    let increase = NodeGroupIncreaseSizeRequest { delta: 1, id: id("pool-b") };
    client.node_group_increase_size(increase).await.unwrap();
    let nodes = vec![unknown_node(&instances(&mut client, "pool-b").await[0])];
    let delete = NodeGroupDeleteNodesRequest { nodes, id: id("pool-a") };
    let refused = client.node_group_delete_nodes(delete).await.unwrap_err();
    assert!(refused.message().ends_with("is not an instance of node group `pool-a`"), "{refused}");
    assert_eq!(target(&mut client, "pool-b").await, 1);
}

#[tokio::test]
async fn templates_and_prices_are_answered_for_every_release() {
    use prost::Message as _;

    let world = World::new().await;
    world.create("pool-a", |spec| spec["price"] = json!(0.5)).await;
    world.create("free", |spec| drop(spec.as_object_mut().unwrap().remove("template"))).await;
    let mut client = world.client().await;
    let request = |group| NodeGroupTemplateNodeInfoRequest { id: id(group) };
    let answer =
        client.node_group_template_node_info(request("pool-a")).await.unwrap().into_inner();
    assert_eq!(answer.node_info, answer.node_bytes);
    let node = Node::decode(answer.node_bytes.as_slice()).unwrap();
    let metadata = node.metadata.clone().unwrap();
    assert_eq!(metadata.labels["disk"], "ssd");
    // Simulated machines have this label.
    assert_eq!(metadata.labels["plimsoll.dev/node-group"], "pool-a");
    let status = node.status.clone().unwrap();
    assert_eq!(status.conditions[0].r#type, "Ready");
    assert_eq!(status.allocatable["cpu"].string, "1500m");
    let missing = client.node_group_template_node_info(request("free")).await.unwrap_err();
    assert_eq!(missing.code(), Code::Unimplemented);

    let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
    let example = ExternalGrpcNode {
        name: metadata.name,
        labels: metadata.labels,
        annotations: metadata.annotations,
        ..ExternalGrpcNode::default()
    };
    let old = PricingNodePriceRequest {
        node: Some(example.clone()),
        start_time: at(0),
        end_time: at(7200),
        ..PricingNodePriceRequest::default()
    };
    let new = PricingNodePriceRequest {
        start_time: None,
        end_time: None,
        start_timestamp: at(0),
        end_timestamp: at(7200),
        ..old.clone()
    };
    for request in [old.clone(), new] {
        let price = client.pricing_node_price(request).await.unwrap().into_inner().price;
        assert_eq!(price, 1.0);
    }
    let unpriced = ExternalGrpcNode { annotations: Default::default(), ..example };
    let request = PricingNodePriceRequest { node: Some(unpriced), ..old };
    let unpriced = client.pricing_node_price(request).await.unwrap_err();
    assert_eq!(unpriced.code(), Code::Unimplemented);
    let pod = client.pricing_pod_price(PricingPodPriceRequest::default()).await.unwrap_err();
    assert_eq!(pod.code(), Code::Unimplemented);
}

#[tokio::test]
async fn options_are_merged_with_the_defaults_of_every_release() {
    let world = World::new().await;
    let own = json!({"utilizationThreshold": 0.3, "unneededFor": "90s"});
    world.create("pool-a", |spec| spec["options"] = own).await;
    world.create("plain", |_| {}).await;
    let mut client = world.client().await;
    let minutes = |minutes: i64| Some(SignedDuration::from_mins(minutes));
    let both = NodeGroupAutoscalingOptions {
        scale_down_utilization_threshold: 0.5,
        scale_down_gpu_utilization_threshold: 0.6,
        ..NodeGroupAutoscalingOptions::default()
    };
    let both = both.with_durations(connect::proto::OptionDurations {
        unneeded_for: minutes(10),
        unready_for: minutes(20),
        max_provision_time: minutes(15),
    });
    let old = NodeGroupAutoscalingOptions {
        scale_down_unneeded_duration: None,
        scale_down_unready_duration: None,
        max_node_provision_duration: None,
        ..both
    };
    let new = NodeGroupAutoscalingOptions {
        scale_down_unneeded_time: None,
        scale_down_unready_time: None,
        max_node_provision_time: None,
        ..both
    };
    let request = |group, defaults| NodeGroupAutoscalingOptionsRequest {
        id: id(group),
        defaults: Some(defaults),
    };
    for defaults in [both, old, new] {
        let answer = client.node_group_get_options(request("pool-a", defaults)).await.unwrap();
        let options = answer.into_inner().node_group_autoscaling_options.unwrap();
        assert_eq!(options.scale_down_utilization_threshold, 0.3);
        assert_eq!(options.scale_down_gpu_utilization_threshold, 0.6);
        // Releases up to 1.33 read the one, later ones the other.
        assert_eq!(options.scale_down_unneeded_time.unwrap().duration, 90_000_000_000);
        assert_eq!(options.scale_down_unneeded_duration.unwrap().seconds, 90);
        assert_eq!(options.scale_down_unready_time.unwrap().duration, 1_200_000_000_000);
        assert_eq!(options.scale_down_unready_duration.unwrap().seconds, 1200);
        assert_eq!(options.max_node_provision_duration.unwrap().seconds, 900);
    }
    let plain = client.node_group_get_options(request("plain", both)).await.unwrap();
    assert_eq!(plain.into_inner().node_group_autoscaling_options, None);
}

#[tokio::test]
async fn our_own_provider_scales_the_groups_of_another_cluster() {
    let world = World::new().await;
    let own = json!({"unneededFor": "90s"});
    world.create("pool-a", |spec| spec["options"] = own).await;
    let provider = world.provider(Value::Null);
    provider.increase("pool-a", 2).await.unwrap();
    let group = provider.snapshot().await.unwrap().remove(0);
    assert_eq!((group.id.as_str(), group.max, group.target), ("pool-a", 3, 2));
    let template = group.template.unwrap();
    assert_eq!((template.labels.get("disk"), template.capacity.cpu), (Some("ssd"), 1500));
    assert_eq!(group.options.unneeded_for, Some(SignedDuration::from_secs(90)));
    assert_eq!(group.options.unready_for, None);
    provider.delete_nodes("pool-a", &[group.instances[0].id.clone()]).await.unwrap();
    let group = provider.snapshot().await.unwrap().remove(0);
    assert_eq!((group.target, group.instances.len()), (1, 1));
}

#[tokio::test]
async fn access_is_closed_to_clients_without_a_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, others) = (Authority::new("ours"), Authority::new("others"));
    let certificates = files(directory.path(), &ours.server(&["127.0.0.1"]), &ours);
    let world = World::with(|listener| Endpoint {
        listener,
        tls: Some(certificates),
        allow_anonymous: false,
    })
    .await;
    let namespaces: Api<Namespace> = Api::all(world.context.client.clone());
    let namespace = json!({"metadata": {"name": "plimsoll-system"}});
    let namespace = serde_json::from_value(namespace).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    for (name, authority) in [("known", &ours), ("stranger", &others)] {
        let pair = authority.caller("client");
        let files = [("ca", &ours.pem), ("crt", &pair.certificate), ("key", &pair.key)];
        let data = files.map(|(key, pem)| (key.to_owned(), ByteString(pem.clone().into_bytes())));
        let mut secret = Secret { data: Some(data.into()), ..Secret::default() };
        secret.metadata.name = Some(name.to_owned());
        let secrets: Api<Secret> = Api::namespaced(world.context.client.clone(), "plimsoll-system");
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    }
    let from = |name: &str, key: &str| json!({"name": name, "key": key});
    let shown = |name: &str| {
        json!({
            "caFrom": from(name, "ca"), "certFrom": from(name, "crt"), "keyFrom": from(name, "key"),
        })
    };
    assert!(world.provider(shown("known")).snapshot().await.unwrap().is_empty());
    for tls in [Value::Null, shown("stranger"), json!({"caFrom": from("known", "ca")})] {
        assert!(world.provider(tls.clone()).snapshot().await.is_err(), "{tls}");
    }
}

#[tokio::test]
async fn plain_text_is_served_on_loopback_only() {
    let engine = Engine::open(Settings::ephemeral()).await.unwrap();
    let context =
        Context::new(engine.client(), Clock::system(), Random::seeded(1), Supervisor::new());
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let endpoint = Endpoint { listener, tls: None, allow_anonymous: false };
    let groups = NodeGroups::new(context, Providers::new());
    let refused = external_grpc::serve(groups, endpoint, std::future::pending()).await.unwrap_err();
    assert!(matches!(refused, ServeError::PlainText(_)), "{refused}");
}

#[test]
fn the_example_of_the_guide_connects_a_group_to_a_server() {
    let read = |path: &str| {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        std::fs::read_to_string(format!("{root}/{path}")).unwrap()
    };
    let example = read("examples/nodes/external-grpc.yaml");
    assert!(read("docs/guide/nodes.md").contains(&example));
    let (autoscaler, group) = example.split_once("---\n").unwrap();
    let autoscaler: NodeAutoscaler = serde_saphyr::from_str(autoscaler).unwrap();
    let connections = autoscaler.spec.providers.connections();
    assert_eq!(connections["externalGrpc"]["tls"]["certFrom"]["key"], "tls.crt");
    let group: GroupObject = serde_saphyr::from_str(group).unwrap();
    let (provider, named) = providers::named_group(&group).unwrap();
    assert_eq!((provider, &*named.id), ("externalGrpc", "workers-pool"));
}
