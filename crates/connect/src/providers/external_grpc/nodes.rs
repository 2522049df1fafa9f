//! The Nodes of instances, as servers expect them in a request.

use std::collections::BTreeMap;

use cluster::Undecoded;
use cluster::error::api_message;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, ListParams};

use super::super::ProviderError;
use crate::proto::external_grpc::ExternalGrpcNode;

/// Marks an instance without a Node.
const FAKE_NODE: &str = "k8s.io/cluster-autoscaler/fake-node-reason";

/// Finds the Nodes of instances. Some clouds look at names and labels; an instance without a Node is known by its id only.
pub(super) async fn of_instances(
    client: &Client,
    instances: &[String],
) -> Result<Vec<ExternalGrpcNode>, ProviderError> {
    let api: Api<Undecoded<Node>> = Api::all(client.clone());
    // What the API server has in its cache is new enough: an instance does not change its Node.
    let nodes = api.list(&ListParams::default().match_any()).await;
    let unavailable = |error| ProviderError::Unavailable { message: api_message(&error) };
    let nodes = nodes.map_err(unavailable)?;
    let names_one = |node: &&Undecoded<Node>| instances.iter().any(|id| node.text().contains(id));
    let decoded = nodes.items.iter().filter(names_one).filter_map(Undecoded::decode);
    let mut known: BTreeMap<String, Node> = BTreeMap::new();
    for node in decoded {
        if let Some(id) = node.spec.as_ref().and_then(|spec| spec.provider_id.clone()) {
            known.insert(id, node);
        }
    }
    Ok(instances.iter().map(|id| describe(id, known.remove(id))).collect())
}

fn describe(id: &str, node: Option<Node>) -> ExternalGrpcNode {
    let provider_id = id.to_owned();
    match node {
        Some(node) => ExternalGrpcNode {
            provider_id,
            name: node.metadata.name.unwrap_or_default(),
            labels: node.metadata.labels.unwrap_or_default(),
            annotations: node.metadata.annotations.unwrap_or_default(),
        },
        None => ExternalGrpcNode {
            name: provider_id.clone(),
            provider_id,
            labels: BTreeMap::new(),
            annotations: BTreeMap::from([(FAKE_NODE.to_owned(), "unregistered".to_owned())]),
        },
    }
}
