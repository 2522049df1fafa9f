//! The stand-in for a server of `externalgrpc` that the tests of the provider use, with one group, whose machines are Nodes.

#[allow(dead_code, reason = "the tests of the provider use all of it")]
#[path = "../../../connect/tests/it/external_grpc/cloud.rs"]
mod cloud;

use std::sync::atomic::{AtomicU32, Ordering};

use connect::proto;
use decide::nodes::Template;
use kube::Client;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::service::Routes;
use tonic::transport::server::{Server, ServerTlsConfig, TcpIncoming};

use crate::machines::{Machines, Shape};
use cloud::{Cloud, CloudGroup, Form, instance};
use proto::core_v1::Node;
use proto::external_grpc::instance_status::InstanceState;

/// The server, for as long as this lives.
pub(crate) struct Serving {
    pub(crate) address: String,
    _server: JoinSet<()>,
    _machines: Machines,
}

/// Serves a group of up to so many machines, with TLS or without.
pub(crate) async fn serve(
    client: Client,
    (group, max): (&str, i32),
    shape: Shape,
    tls: Option<ServerTlsConfig>,
) -> Serving {
    let cloud = Cloud::new(Form::Both);
    let template = Some(template(&shape));
    let described = CloudGroup { max, template, ..CloudGroup::default() };
    cloud.state().groups.insert(group.to_owned(), described);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut builder = Server::builder();
    if let Some(tls) = tls {
        let _ = rustls::crypto::ring::default_provider().install_default();
        builder = builder.tls_config(tls).unwrap();
    }
    let served = builder
        .add_routes(Routes::from(cloud.router()))
        .serve_with_incoming(TcpIncoming::from(listener));
    let mut server = JoinSet::new();
    server.spawn(async move { served.await.unwrap() });
    let name = shape.value.clone();
    let machines = Machines::play(client, shape, move || {
        let ids = start_instances(&cloud, &name);
        Box::pin(async move { Some(ids) })
    });
    Serving { address, _server: server, _machines: machines }
}

/// Starts the instances that groups lack, and returns all instances.
fn start_instances(cloud: &Cloud, name: &str) -> Vec<String> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let mut state = cloud.state();
    for group in state.groups.values_mut() {
        while group.instances.len() < usize::try_from(group.target).unwrap() {
            let id = format!("cloud://{name}-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
            group.instances.push(instance(&id, InstanceState::InstanceRunning));
        }
    }
    let instances = state.groups.values().flat_map(|group| &group.instances);
    instances.map(|instance| instance.id.clone()).collect()
}

/// Returns what the server tells of a new node.
fn template(shape: &Shape) -> Node {
    let node = serde_json::from_value(shape.node("template", "")).unwrap();
    let node = api::nodes::node(&node, None);
    let template = Template {
        labels: node.labels,
        taints: node.taints,
        capacity: node.capacity,
        allocatable: node.allocatable,
    };
    Node::example("template", &template)
}
