//! Multi-cluster allocation.
//!
//! GameServerAllocationPolicies name the clusters, which are tried by priority and in random order among equals. A policy without
//! endpoints is this cluster; the others are called over gRPC, with the certificate of the policy's Secret. The first that
//! allocates a server wins.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::allocation::{AllocationState, GameServerAllocation, GameServerAllocationStatus};
use api::multicluster::{ConnectionInfo, GameServerAllocationPolicy};
use cluster::Undecoded;
use connect::trust::TrustStore;
use decide::allocation::next_cluster;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};
use kube::core::Selector;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Status};

use super::answer::without_server;
use super::{AllocationError, Allocator, messages};
use crate::proto::allocation::allocation_service_client::AllocationServiceClient;

/// The timeout of one call, and of all calls together.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
const TOTAL_TIMEOUT: Duration = Duration::from_secs(30);

/// How often all endpoints of a cluster are tried, and the delay after the first round; it doubles with each round.
const ROUNDS: u32 = 7;
const FIRST_DELAY: Duration = Duration::from_millis(100);

/// The maximum number of cached connections to other clusters.
const MAX_CHANNELS: usize = 256;

/// The usual paths of the system's CA bundle.
const SYSTEM_CA_BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Connections to other clusters, by endpoint and credentials.
#[derive(Default)]
pub(super) struct Channels(Mutex<BTreeMap<(String, String), Channel>>);

/// Tries one cluster after the other, until one allocates a server.
pub(super) async fn allocate(
    allocator: &Allocator,
    allocation: &GameServerAllocation,
    tries: &mut Option<u32>,
) -> Result<GameServerAllocationStatus, AllocationError> {
    let attempts = try_clusters(allocator, allocation, tries);
    tokio::time::timeout(TOTAL_TIMEOUT, attempts).await.unwrap_or_else(|_| {
        let status = Status::deadline_exceeded("the other clusters did not respond in time");
        Err(remote_error("", status))
    })
}

async fn try_clusters(
    allocator: &Allocator,
    allocation: &GameServerAllocation,
    tries: &mut Option<u32>,
) -> Result<GameServerAllocationStatus, AllocationError> {
    let namespace = allocation.metadata.namespace.as_deref().unwrap_or("default");
    let policies = policies(allocator, allocation, namespace).await?;
    let views: Vec<_> = policies.iter().map(GameServerAllocationPolicy::view).collect();
    let seed = allocator.shared.settings.random.u64();
    let mut tried = BTreeSet::new();
    let mut last = Err(AllocationError::NoPolicy(namespace.into()));
    while let Some(next) = next_cluster(&views, &tried, seed) {
        tried.insert(Arc::clone(&views[next].cluster));
        let info = &policies[next].spec.connection_info;
        last = match info.allocation_endpoints.as_deref() {
            None | Some([]) => allocate_locally(allocator, allocation, info, tries).await,
            Some(endpoints) => {
                allocate_remotely(allocator, allocation, namespace, info, endpoints).await
            }
        };
        if matches!(&last, Ok(status) if status.state == AllocationState::Allocated) {
            return last;
        }
    }
    last
}

async fn policies(
    allocator: &Allocator,
    allocation: &GameServerAllocation,
    namespace: &str,
) -> Result<Vec<GameServerAllocationPolicy>, AllocationError> {
    let wanted = allocation.spec.multi_cluster_setting.policy_selector.clone();
    let selector = Selector::try_from(wanted).map_err(|err| {
        let path = "spec.multiClusterSetting.policySelector";
        AllocationError::Invalid(vec![api::Problem::new(path, err.to_string())])
    })?;
    let api: Api<Undecoded<GameServerAllocationPolicy>> =
        Api::namespaced(allocator.shared.client.clone(), namespace);
    let found = api.list(&ListParams::default().labels_from(&selector)).await;
    let found = found.map_err(|err| AllocationError::Write(Arc::new(err)))?;
    Ok(found.items.iter().filter_map(Undecoded::decode).collect())
}

/// Allocates in this cluster.
async fn allocate_locally(
    allocator: &Allocator,
    allocation: &GameServerAllocation,
    info: &ConnectionInfo,
    tries: &mut Option<u32>,
) -> Result<GameServerAllocationStatus, AllocationError> {
    let mut local = allocation.clone();
    local.metadata.namespace = Some(info.namespace.clone());
    allocator.allocate_here(&local, tries).await
}

/// Calls the endpoints of another cluster in order, and retries all of them while none responds.
async fn allocate_remotely(
    allocator: &Allocator,
    allocation: &GameServerAllocation,
    namespace: &str,
    info: &ConnectionInfo,
    endpoints: &[String],
) -> Result<GameServerAllocationStatus, AllocationError> {
    let secrets: Api<Secret> = Api::namespaced(allocator.shared.client.clone(), namespace);
    let secret = secrets.get(&info.secret_name).await;
    let secret = secret.map_err(|err| {
        let why = cluster::explain(&err);
        let message = format!("could not read secret `{}`: {why}", info.secret_name);
        remote_error(&info.cluster_name, Status::unknown(message))
    })?;
    let request = messages::forwarded(allocation, &info.namespace);
    let mut last = Err(remote_error(&info.cluster_name, Status::unknown("no endpoint was tried")));
    let mut delay = FIRST_DELAY;
    for round in 0..ROUNDS {
        for endpoint in endpoints {
            let channel = allocator.shared.channels.get(endpoint, info, &secret);
            let channel = channel.map_err(|status| remote_error(endpoint, status))?;
            let mut client = AllocationServiceClient::new(channel);
            let response =
                tokio::time::timeout(CALL_TIMEOUT, client.allocate(request.clone())).await;
            let late = |_| Status::deadline_exceeded("no response in time");
            match response.map_err(late).and_then(|response| response) {
                Ok(response) => return Ok(messages::status(response.into_inner(), endpoint)),
                // It has no matching server; a retry would not change that.
                Err(status) if status.code() == Code::ResourceExhausted => {
                    return Ok(without_server(AllocationState::UnAllocated));
                }
                Err(status) => last = Err(remote_error(endpoint, status)),
            }
        }
        if round + 1 < ROUNDS {
            tokio::time::sleep(delay).await;
            delay *= 2;
        }
    }
    last
}

fn remote_error(endpoint: &str, status: Status) -> AllocationError {
    AllocationError::Remote { endpoint: endpoint.to_owned(), status: Box::new(status) }
}

impl Channels {
    /// Returns the connection to an endpoint. It is opened on first use, and cached while the credentials stay the same.
    fn get(
        &self,
        endpoint: &str,
        info: &ConnectionInfo,
        secret: &Secret,
    ) -> Result<Channel, Status> {
        let version = secret.metadata.resource_version.clone().unwrap_or_default();
        let mut authority = DefaultHasher::new();
        info.server_ca.as_ref().map(|ca| &ca.0).hash(&mut authority);
        let credentials = format!("{}/{version}/{:x}", info.secret_name, authority.finish());
        let mut channels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = channels.get(&(endpoint.to_owned(), credentials.clone())) {
            return Ok(channel.clone());
        }
        let channel = connect(endpoint, info, secret)?;
        channels.retain(|(other, _), _| other != endpoint);
        if channels.len() >= MAX_CHANNELS {
            channels.pop_first();
        }
        channels.insert((endpoint.to_owned(), credentials), channel.clone());
        Ok(channel)
    }
}

fn connect(endpoint: &str, info: &ConnectionInfo, secret: &Secret) -> Result<Channel, Status> {
    let empty = BTreeMap::new();
    let data = secret.data.as_ref().unwrap_or(&empty);
    let part = |key: &str| {
        let missing = || Status::unknown(format!("secret `{}` has no `{key}`", info.secret_name));
        data.get(key).map(|bytes| bytes.0.clone()).ok_or_else(missing)
    };
    let identity = Identity::from_pem(part("tls.crt")?, part("tls.key")?);
    let mut authorities: Vec<Vec<u8>> = info.server_ca.iter().map(|ca| ca.0.clone()).collect();
    authorities.extend(part("ca.crt").ok());
    if authorities.is_empty() {
        authorities.extend(SYSTEM_CA_BUNDLES.iter().find_map(|path| std::fs::read(path).ok()));
    }
    let trusted = TrustStore::from_pem(&authorities.join(&b'\n'));
    let verifier = trusted.and_then(|trusted| trusted.server_verifier()).map_err(|err| {
        Status::unknown(format!(
            "invalid serverCa or ca.crt for endpoint `{endpoint}`: {}",
            process::log::chain(&err)
        ))
    })?;
    let tls = ClientTlsConfig::new().identity(identity);
    let host = if endpoint.contains(':') { endpoint.to_owned() } else { format!("{endpoint}:443") };
    let bad = |err: tonic::transport::Error| {
        let why = process::log::chain(&err);
        Status::unknown(format!("invalid endpoint `{endpoint}`: {why}"))
    };
    let endpoint = Endpoint::from_shared(format!("https://{host}")).map_err(bad)?;
    let endpoint = endpoint.connect_timeout(CALL_TIMEOUT);
    let endpoint = endpoint.tls_config_with_verifier(tls, verifier).map_err(bad)?;
    Ok(endpoint.connect_lazy())
}
