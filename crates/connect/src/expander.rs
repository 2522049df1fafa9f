//! An expander in a server of its own, by Cluster Autoscaler's protocol: it chooses among the groups that would help.

use std::time::Duration;

use api::plimsoll::Span;
use decide::nodes::Template;
use k8s_openapi::api::core::v1 as core;
use serde::Deserialize;
use serde_json::Value;
use tonic::transport::Channel;

use crate::grpc::{self, GrpcServer};
use crate::proto::core_v1::{Node, Pod};
use crate::proto::grpc_expander::expander_client::ExpanderClient;
use crate::proto::grpc_expander::{BestOptionsRequest, Option as ProtoOption};
use crate::registry::{Context, read_settings};
use crate::tls::TlsSettings;

/// How long a call may take unless the settings say otherwise.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The settings of the connection.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    /// Host and port.
    address: String,
    tls: Option<TlsSettings>,
    timeout: Option<Span>,
}

/// A way to grow one group.
#[derive(Clone, Debug)]
pub struct ExpanderOption {
    /// The group.
    pub group: String,
    /// The number of nodes that it would get.
    pub node_count: u32,
    /// What a person should know about it.
    pub debug: String,
    /// The shape of a new node.
    pub template: Template,
    /// The pods that would fit on the new nodes.
    pub pods: Vec<core::Pod>,
}

/// A server of the protocol.
pub struct GrpcExpander {
    address: String,
    timeout: Duration,
    channel: Channel,
}

impl GrpcExpander {
    /// Checks the settings: `address`, `tls` and `timeout`. Nothing is sent.
    pub fn open(context: &Context, settings: &Value) -> Result<Self, String> {
        let Settings { address, tls, timeout } = read_settings(settings)?;
        let timeout = grpc::timeout(timeout, TIMEOUT)?;
        let channel = GrpcServer::new(context, &address, tls)?.channel();
        Ok(Self { address, timeout, channel })
    }

    /// Returns the groups that the expander prefers, best first. If it fails or chooses none of them, all groups are returned, so that the
    /// next expander of the chain decides.
    pub async fn best_options(&self, options: &[ExpanderOption]) -> Vec<String> {
        let all = || options.iter().map(|option| option.group.clone()).collect();
        match self.ask(options).await {
            Ok(chosen) if chosen.is_empty() => {
                tracing::debug!(address = self.address, "the expander chose no known group");
                all()
            }
            Ok(chosen) => chosen,
            Err(problem) => {
                tracing::warn!(address = self.address, problem, "the expander failed; skipping it");
                all()
            }
        }
    }

    async fn ask(&self, options: &[ExpanderOption]) -> Result<Vec<String>, String> {
        let mut client = ExpanderClient::new(self.channel.clone());
        let answer = client.best_options(request(options));
        let answer = tokio::time::timeout(self.timeout, answer).await;
        let answer = answer.map_err(|_| format!("no answer within {:?}", self.timeout))?;
        let chosen = answer.map_err(|status| grpc::root_cause(&status))?.into_inner().options;
        let mut groups: Vec<String> = Vec::new();
        for ProtoOption { node_group_id: group, .. } in chosen {
            let is_known = options.iter().any(|option| option.group == group);
            if is_known && !groups.contains(&group) {
                groups.push(group);
            }
        }
        Ok(groups)
    }
}

fn request(options: &[ExpanderOption]) -> BestOptionsRequest {
    let mut request = BestOptionsRequest::default();
    for option in options {
        request.insert_node(&option.group, &Node::example(&option.group, &option.template));
        let pods: Vec<Pod> = option.pods.iter().map(Pod::from).collect();
        let described = ProtoOption {
            node_group_id: option.group.clone(),
            node_count: i32::try_from(option.node_count).unwrap_or(i32::MAX),
            debug: option.debug.clone(),
            ..ProtoOption::default()
        };
        request.options.push(described.with_pods(pods.iter()));
    }
    request
}
