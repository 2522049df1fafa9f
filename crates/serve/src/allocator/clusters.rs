//! Which cluster does an allocation go to, and how does it get there?
//!
//! GameServerAllocationPolicies name the clusters, in order of priority and by chance among equals. One without endpoints is
//! this cluster; the others are asked by gRPC, with the certificate of the policy's secret. The first that has a server wins.

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
use super::{Allocator, Refusal, messages};
use crate::proto::allocation::allocation_service_client::AllocationServiceClient;

/// How long one call may take, and all calls together.
const CALL_WITHIN: Duration = Duration::from_secs(10);
const ALL_WITHIN: Duration = Duration::from_secs(30);

/// How often all endpoints of a cluster are asked, and how long to wait before the second time; then twice as long each time.
const ROUNDS: u32 = 7;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The most connections to other clusters that are kept.
const MOST_CHANNELS: usize = 256;

/// Where authorities that everyone trusts usually are.
const AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Connections to other clusters, by endpoint and by what they were made with.
#[derive(Default)]
pub(super) struct Channels(Mutex<BTreeMap<(String, String), Channel>>);

/// Asks one cluster after the other, until one has a server.
pub(super) async fn allocate(
    allocator: &Allocator,
    allocation: &GameServerAllocation,
    tries: &mut Option<u32>,
) -> Result<GameServerAllocationStatus, Refusal> {
    let asked = in_turn(allocator, allocation, tries);
    tokio::time::timeout(ALL_WITHIN, asked).await.unwrap_or_else(|_| {
        let status = Status::deadline_exceeded("the other clusters did not answer in time");
        Err(remote("", status))
    })
}

async fn in_turn(
    allocator: &Allocator,
    allocation: &GameServerAllocation,
    tries: &mut Option<u32>,
) -> Result<GameServerAllocationStatus, Refusal> {
    let namespace = allocation.metadata.namespace.as_deref().unwrap_or("default");
    let policies = policies(allocator, allocation, namespace).await?;
    let views: Vec<_> = policies.iter().map(GameServerAllocationPolicy::view).collect();
    let seed = fastrand::u64(..);
    let mut tried = BTreeSet::new();
    let mut last = Err(Refusal::NoPolicy(namespace.into()));
    while let Some(next) = next_cluster(&views, &tried, seed) {
        tried.insert(Arc::clone(&views[next].cluster));
        let info = &policies[next].spec.connection_info;
        last = match info.allocation_endpoints.as_deref() {
            None | Some([]) => here(allocator, allocation, info, tries).await,
            Some(endpoints) => there(allocator, allocation, namespace, info, endpoints).await,
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
) -> Result<Vec<GameServerAllocationPolicy>, Refusal> {
    let wanted = allocation.spec.multi_cluster_setting.policy_selector.clone();
    let selector = Selector::try_from(wanted).map_err(|err| {
        let path = "spec.multiClusterSetting.policySelector";
        Refusal::Invalid(vec![api::Problem::new(path, err.to_string())])
    })?;
    let api: Api<Undecoded<GameServerAllocationPolicy>> =
        Api::namespaced(allocator.shared.client.clone(), namespace);
    let found = api.list(&ListParams::default().labels_from(&selector)).await;
    let found = found.map_err(|err| Refusal::Write(Arc::new(err)))?;
    Ok(found.items.iter().filter_map(Undecoded::decode).collect())
}

/// Allocates in this cluster.
async fn here(
    allocator: &Allocator,
    allocation: &GameServerAllocation,
    info: &ConnectionInfo,
    tries: &mut Option<u32>,
) -> Result<GameServerAllocationStatus, Refusal> {
    let mut local = allocation.clone();
    local.metadata.namespace = Some(info.namespace.clone());
    allocator.allocate_here(&local, tries).await
}

/// Asks the endpoints of another cluster in order, and all of them again while none answers.
async fn there(
    allocator: &Allocator,
    allocation: &GameServerAllocation,
    namespace: &str,
    info: &ConnectionInfo,
    endpoints: &[String],
) -> Result<GameServerAllocationStatus, Refusal> {
    let secrets: Api<Secret> = Api::namespaced(allocator.shared.client.clone(), namespace);
    let secret = secrets.get(&info.secret_name).await;
    let secret = secret.map_err(|err| {
        let why = cluster::explain(&err);
        let message = format!("could not read secret `{}`: {why}", info.secret_name);
        remote(&info.cluster_name, Status::unknown(message))
    })?;
    let request = messages::forwarded(allocation, &info.namespace);
    let mut last = Err(remote(&info.cluster_name, Status::unknown("nothing was tried")));
    let mut pause = FIRST_PAUSE;
    for round in 0..ROUNDS {
        for endpoint in endpoints {
            let channel = allocator.shared.channels.get(endpoint, info, &secret);
            let channel = channel.map_err(|status| remote(endpoint, status))?;
            let mut client = AllocationServiceClient::new(channel);
            let asked = tokio::time::timeout(CALL_WITHIN, client.allocate(request.clone())).await;
            let late = |_| Status::deadline_exceeded("no answer in time");
            match asked.map_err(late).and_then(|answered| answered) {
                Ok(answer) => return Ok(messages::status(answer.into_inner(), endpoint)),
                // It has none: asking again does not change that.
                Err(status) if status.code() == Code::ResourceExhausted => {
                    return Ok(without_server(AllocationState::UnAllocated));
                }
                Err(status) => last = Err(remote(endpoint, status)),
            }
        }
        if round + 1 < ROUNDS {
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }
    last
}

fn remote(endpoint: &str, status: Status) -> Refusal {
    Refusal::Remote { endpoint: endpoint.to_owned(), status: Box::new(status) }
}

impl Channels {
    /// Gives the connection to an endpoint, which is made when it is first used and kept for as long as nothing changes.
    fn get(
        &self,
        endpoint: &str,
        info: &ConnectionInfo,
        secret: &Secret,
    ) -> Result<Channel, Status> {
        let version = secret.metadata.resource_version.clone().unwrap_or_default();
        let mut authority = DefaultHasher::new();
        info.server_ca.as_ref().map(|ca| &ca.0).hash(&mut authority);
        let made_with = format!("{}/{version}/{:x}", info.secret_name, authority.finish());
        let mut channels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = channels.get(&(endpoint.to_owned(), made_with.clone())) {
            return Ok(channel.clone());
        }
        let channel = connect(endpoint, info, secret)?;
        channels.retain(|(of, _), _| of != endpoint);
        if channels.len() >= MOST_CHANNELS {
            channels.pop_first();
        }
        channels.insert((endpoint.to_owned(), made_with), channel.clone());
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
        authorities.extend(AUTHORITIES.iter().find_map(|path| std::fs::read(path).ok()));
    }
    let trusted = TrustStore::from_pem(&authorities.join(&b'\n'));
    let verifier = trusted.and_then(|trusted| trusted.server_verifier()).map_err(|err| {
        Status::unknown(format!(
            "endpoint `{endpoint}` cannot be checked: serverCa and ca.crt: {}",
            process::log::chain(&err)
        ))
    })?;
    let tls = ClientTlsConfig::new().identity(identity);
    let host = if endpoint.contains(':') { endpoint.to_owned() } else { format!("{endpoint}:443") };
    let bad = |err: tonic::transport::Error| {
        let why = process::log::chain(&err);
        Status::unknown(format!("endpoint `{endpoint}` cannot be used: {why}"))
    };
    let endpoint = Endpoint::from_shared(format!("https://{host}")).map_err(bad)?;
    let endpoint = endpoint.connect_timeout(CALL_WITHIN);
    let endpoint = endpoint.tls_config_with_verifier(tls, verifier).map_err(bad)?;
    Ok(endpoint.connect_lazy())
}
