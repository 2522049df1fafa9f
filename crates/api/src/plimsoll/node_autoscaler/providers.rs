//! The connections to the systems that add and remove machines. Their drivers read them; here their fields are checked.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::NodeAutoscalerSpec;
use crate::plimsoll::{Checks, Span};

/// The connections to providers of node groups; `spec.provider` of a NodeGroup names what to scale through them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Providers {
    /// A server of Cluster Autoscaler's external gRPC protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_grpc: Option<ExternalGrpc>,
    /// The management cluster of Cluster API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_api: Option<ClusterApi>,
    /// Auto Scaling groups of AWS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws: Option<Aws>,
}

/// A server of Cluster Autoscaler's external gRPC protocol.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ExternalGrpc {
    /// Its address, as `host:port`.
    pub address: String,
    /// TLS; without it, the connection is plaintext.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// How long a call may take; 5s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Whether a group that no NodeGroup names gets a NodeGroup.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub discover: bool,
}

/// A server of Cluster Autoscaler's protocol for expanders.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct GrpcExpander {
    /// Its address, as `host:port`.
    pub address: String,
    /// TLS; without it, the connection is plaintext.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// How long a call may take; 5s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
}

/// The TLS settings of a connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Tls {
    /// The authorities to trust, in PEM; those of the system unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_from: Option<SecretKey>,
    /// The certificate to present, in PEM, with `keyFrom`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_from: Option<SecretKey>,
    /// Its private key, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_from: Option<SecretKey>,
    /// Whether any certificate is accepted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub skip_verify: bool,
    /// The name that the server's certificate must have, in place of the host's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server_name: String,
}

/// A key of a Secret in the controller's namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecretKey {
    /// The name of the Secret.
    pub name: String,
    /// The key in it.
    pub key: String,
}

/// The management cluster of Cluster API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterApi {
    /// Its kubeconfig; the cluster that Plimsoll runs on unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeconfig_from: Option<SecretKey>,
    /// Which of its groups get NodeGroups: those that match one of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub discover: Vec<ClusterApiDiscovery>,
}

/// Groups of Cluster API to find. All that is given must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterApiDiscovery {
    /// Their namespace; any unless given.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The cluster that they belong to; any unless given.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    /// Labels that they carry.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// Auto Scaling groups of AWS. Credentials are found as any AWS client finds them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Aws {
    /// The region; that of the environment unless given.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// The URLs of services in place of AWS' own.
    #[serde(skip_serializing_if = "AwsEndpoints::is_empty")]
    pub endpoints: AwsEndpoints,
    /// Which groups get NodeGroups: those that match one of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub discover: Vec<AwsDiscovery>,
}

/// The URLs of AWS' services.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct AwsEndpoints {
    /// Auto Scaling.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub autoscaling: String,
    /// EC2.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ec2: String,
    /// EKS.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub eks: String,
}

impl AwsEndpoints {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Auto Scaling groups to find.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct AwsDiscovery {
    /// Tags that they carry; an empty value matches any.
    pub tags: BTreeMap<String, String>,
}

impl Providers {
    /// Returns whether no connection is given.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the settings of each connection by the name of its provider, as drivers read them.
    pub fn connections(&self) -> Map<String, Value> {
        let value = serde_json::to_value(self);
        if let Ok(Value::Object(connections)) = value { connections } else { Map::new() }
    }

    /// Returns whether groups of a provider that no NodeGroup names get NodeGroups.
    pub fn discovers(&self, provider: &str) -> bool {
        match provider {
            "externalGrpc" => self.external_grpc.as_ref().is_some_and(|grpc| grpc.discover),
            "clusterApi" => self.cluster_api.as_ref().is_some_and(|api| !api.discover.is_empty()),
            "aws" => self.aws.as_ref().is_some_and(|aws| !aws.discover.is_empty()),
            _ => false,
        }
    }
}

/// Checks the connections, field by field.
pub(super) fn check(checks: &mut Checks, spec: &NodeAutoscalerSpec) {
    let servers = [
        spec.providers.external_grpc.as_ref().map(|server| {
            ("spec.providers.externalGrpc", &server.address, &server.tls, server.timeout)
        }),
        spec.grpc_expander
            .as_ref()
            .map(|server| ("spec.grpcExpander", &server.address, &server.tls, server.timeout)),
    ];
    for (path, address, tls, timeout) in servers.into_iter().flatten() {
        let has_port = address.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
        let problem = format!("`{address}` is not an address; write it like `host:8086`");
        checks.require(has_port, &format!("{path}.address"), problem);
        let is_positive = timeout.is_none_or(|timeout| timeout.0.is_positive());
        checks.require(is_positive, &format!("{path}.timeout"), "must be positive");
        let is_pair =
            tls.as_ref().is_none_or(|tls| tls.cert_from.is_some() == tls.key_from.is_some());
        let problem = "certFrom and keyFrom must be given together";
        checks.require(is_pair, &format!("{path}.tls"), problem);
    }
    let discoveries = spec.providers.aws.iter().flat_map(|aws| &aws.discover);
    for (index, discovery) in discoveries.enumerate() {
        let path = format!("spec.providers.aws.discover[{index}].tags");
        let problem = "must name at least one tag, or every group of the account would match";
        checks.require(!discovery.tags.is_empty(), &path, problem);
    }
}
