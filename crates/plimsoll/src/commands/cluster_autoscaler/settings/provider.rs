//! The provider of `--cloud-provider`, its connection, and the groups that flags name.

mod aws;
mod external_grpc;

use std::path::PathBuf;

use api::plimsoll::node_autoscaler::{ClusterApi, ClusterApiDiscovery, Providers};

use super::Surroundings;
use crate::args::cluster_autoscaler::Flags;

/// What the connection to a provider needs besides the settings of a NodeAutoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cloud {
    ExternalGrpc {
        tls: Option<TlsFiles>,
    },
    Aws,
    ClusterApi {
        management: Management,
        /// The API group of its objects, where it is another one.
        group: Option<String>,
        /// Their version, where it is not the preferred one.
        version: Option<String>,
        /// The architecture of nodes whose template names none.
        architecture: Option<String>,
    },
    /// Nodes that a KWOK controller runs.
    Kwok {
        /// The ConfigMap with the settings, and its namespace.
        config_map: String,
        namespace: Option<String>,
    },
}

/// The certificates of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) ca: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// The cluster with the objects of Cluster API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Management {
    /// The one whose nodes are scaled.
    #[default]
    Workload,
    /// The one that this process runs in as a pod.
    Pod,
    /// The one of a kubeconfig.
    Kubeconfig(PathBuf),
}

/// A group of `--nodes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupBounds {
    pub(crate) id: String,
    pub(crate) min: u32,
    pub(crate) max: u32,
}

impl Cloud {
    /// Returns the name of the provider among ours.
    pub(crate) fn provider(&self) -> &'static str {
        match self {
            Self::ExternalGrpc { .. } => "externalGrpc",
            Self::Aws => "aws",
            Self::ClusterApi { .. } => "clusterApi",
            Self::Kwok { .. } => "kwok",
        }
    }
}

/// Returns the provider that the flags ask for, and adds its connection.
pub(super) fn cloud(
    flags: &Flags,
    surroundings: &Surroundings,
    providers: &mut Providers,
    notices: &mut Vec<String>,
) -> Result<Cloud, String> {
    let variable = |name: &str| surroundings.variable(name).map(str::to_owned);
    match flags.text("cloud-provider") {
        "externalgrpc" => {
            let (connection, tls) = external_grpc::read(surroundings.cloud_config.as_deref())?;
            providers.external_grpc = Some(connection);
            Ok(Cloud::ExternalGrpc { tls })
        }
        "aws" => {
            providers.aws = Some(aws::connection(flags, surroundings, notices)?);
            Ok(Cloud::Aws)
        }
        "clusterapi" => {
            let discover = discover_cluster_api(flags)?;
            providers.cluster_api = Some(ClusterApi { discover, ..ClusterApi::default() });
            Ok(Cloud::ClusterApi {
                management: management(flags),
                group: variable("CAPI_GROUP"),
                version: variable("CAPI_VERSION"),
                architecture: variable("CAPI_SCALE_ZERO_DEFAULT_ARCH"),
            })
        }
        "kwok" => {
            let name = variable("KWOK_PROVIDER_CONFIGMAP");
            Ok(Cloud::Kwok {
                config_map: name.unwrap_or_else(|| "kwok-provider-config".to_owned()),
                namespace: variable("POD_NAMESPACE"),
            })
        }
        "" => Err("--cloud-provider is missing; expected externalgrpc, clusterapi, aws or kwok"
            .to_owned()),
        other => Err(format!(
            "--cloud-provider: `{other}` is not externalgrpc, clusterapi, aws or kwok; every other \
             cloud can be reached through a server for externalgrpc"
        )),
    }
}

/// Returns the groups of `--nodes`, which only AWS needs: the others know the bounds of their groups.
pub(super) fn groups(
    flags: &Flags,
    cloud: &Cloud,
    notices: &mut Vec<String>,
) -> Result<Vec<GroupBounds>, String> {
    let groups = flags.list("nodes").into_iter().map(group_bounds);
    let groups = groups.collect::<Result<Vec<GroupBounds>, String>>()?;
    if *cloud != Cloud::Aws && !groups.is_empty() {
        let provider = flags.text("cloud-provider");
        notices.push(format!("--nodes has no effect: {provider} knows the bounds of its groups"));
        return Ok(Vec::new());
    }
    Ok(groups)
}

/// Reads `MIN:MAX:GROUP`; the name of the group may have colons.
fn group_bounds(text: &str) -> Result<GroupBounds, String> {
    let mut parts = text.splitn(3, ':');
    let mut part = || parts.next().unwrap_or_default();
    let (min, max, id) = (part().parse(), part().parse(), part());
    let bounds: Option<(u32, u32)> = min.ok().zip(max.ok());
    match bounds.filter(|(min, max)| min <= max && !id.is_empty()) {
        Some((min, max)) => Ok(GroupBounds { id: id.to_owned(), min, max }),
        None => Err(format!("--nodes: `{text}` is not MIN:MAX:GROUP, with 0 <= MIN <= MAX")),
    }
}

/// Returns the values of `--node-group-auto-discovery` without the prefix of a provider.
fn discoveries<'a>(flags: &'a Flags, prefix: &str) -> Result<Vec<&'a str>, String> {
    let strip = |text: &'a str| {
        let wrong =
            || format!("--node-group-auto-discovery: `{text}` does not begin with `{prefix}`");
        text.strip_prefix(prefix).ok_or_else(wrong)
    };
    flags.list("node-group-auto-discovery").into_iter().map(strip).collect()
}

/// Reads `KEY=VALUE,KEY=VALUE`; a key without a value has an empty one.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| part.split_once('=').unwrap_or((part, "")))
}

/// Returns which groups of Cluster API are found; without a flag, all of them.
fn discover_cluster_api(flags: &Flags) -> Result<Vec<ClusterApiDiscovery>, String> {
    let mut all = Vec::new();
    for text in discoveries(flags, "clusterapi:")? {
        let mut found = ClusterApiDiscovery::default();
        for (key, value) in pairs(text) {
            let value = value.to_owned();
            match key {
                "namespace" => found.namespace = value,
                "clusterName" => found.cluster_name = value,
                label => drop(found.labels.insert(label.to_owned(), value)),
            }
        }
        all.push(found);
    }
    if all.is_empty() {
        all.push(ClusterApiDiscovery::default());
    }
    Ok(all)
}

/// Returns where the objects of Cluster API are: `--cloud-config` is the kubeconfig of the management cluster.
fn management(flags: &Flags) -> Management {
    match (flags.text("cloud-config"), flags.bool("clusterapi-cloud-config-authoritative")) {
        ("", true) => Management::Pod,
        ("", false) => Management::Workload,
        (path, _) => Management::Kubeconfig(PathBuf::from(path)),
    }
}
