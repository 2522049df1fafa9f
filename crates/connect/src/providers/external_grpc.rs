//! Node groups behind Cluster Autoscaler's protocol `externalgrpc`: any of its cloud providers in a server of its own, or a server that
//! was written for it.
//!
//! The status codes of servers have no meaning other than Unimplemented: they pass on the errors of clouds as they come.

mod nodes;
mod snapshot;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::plimsoll::Span;
use futures::future::BoxFuture;
use process::Clock;
use serde::Deserialize;
use serde_json::Value;
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

use self::snapshot::Details;
use super::{Group, NodeGroupProvider, ProviderError};
use crate::grpc::{self, GrpcServer};
use crate::proto::external_grpc::cloud_provider_client::CloudProviderClient;
use crate::proto::external_grpc::{
    NodeGroupDecreaseTargetSizeRequest, NodeGroupDeleteNodesRequest, NodeGroupIncreaseSizeRequest,
};
use crate::registry::{Context, read_settings};
use crate::tls::TlsSettings;

/// How long a call may take unless the settings say otherwise.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The block `externalGrpc` of a NodeAutoscaler's `providers`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    /// Host and port.
    address: String,
    tls: Option<TlsSettings>,
    timeout: Option<Span>,
    /// Whether the controller creates a NodeGroup for each group of the server.
    #[serde(default, rename = "discover")]
    _discover: bool,
}

/// A server of the protocol.
struct ExternalGrpc {
    client: kube::Client,
    clock: Clock,
    address: String,
    server: GrpcServer,
    timeout: Duration,
    channel: Mutex<Channel>,
    /// What was last read about each group and seldom changes.
    details: Mutex<BTreeMap<String, Details>>,
}

/// Checks the settings. Nothing is sent.
pub(super) fn open(
    context: &Context,
    settings: &Value,
) -> Result<Arc<dyn NodeGroupProvider>, String> {
    let Settings { address, tls, timeout, _discover: _ } = read_settings(settings)?;
    let timeout = grpc::timeout(timeout, TIMEOUT)?;
    let server = GrpcServer::new(context, &address, tls)?;
    Ok(Arc::new(ExternalGrpc {
        client: context.client.clone(),
        clock: context.clock.clone(),
        address,
        channel: Mutex::new(server.channel()),
        server,
        timeout,
        details: Mutex::default(),
    }))
}

impl NodeGroupProvider for ExternalGrpc {
    fn snapshot(&self) -> BoxFuture<'_, Result<Vec<Group>, ProviderError>> {
        Box::pin(self.read_groups())
    }

    fn increase<'a>(&'a self, group: &'a str, by: u32) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async move {
            let request = NodeGroupIncreaseSizeRequest { delta: count(by), id: group.to_owned() };
            let outcome =
                self.call("NodeGroupIncreaseSize", request, async |mut server, request| {
                    server.node_group_increase_size(request).await
                });
            outcome.await.map(drop).map_err(|error| error.after_change(group))
        })
    }

    fn delete_nodes<'a>(
        &'a self,
        group: &'a str,
        instances: &'a [String],
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async move {
            let nodes = nodes::of_instances(&self.client, instances).await?;
            let request = NodeGroupDeleteNodesRequest { nodes, id: group.to_owned() };
            let outcome =
                self.call("NodeGroupDeleteNodes", request, async |mut server, request| {
                    server.node_group_delete_nodes(request).await
                });
            outcome.await.map(drop).map_err(|error| error.after_change(group))
        })
    }

    fn decrease_target<'a>(
        &'a self,
        group: &'a str,
        by: u32,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async move {
            let (delta, id) = (-count(by), group.to_owned());
            let request = NodeGroupDecreaseTargetSizeRequest { delta, id };
            let method = "NodeGroupDecreaseTargetSize";
            let outcome = self.call(method, request, async |mut server, request| {
                server.node_group_decrease_target_size(request).await
            });
            outcome.await.map(drop).map_err(|error| error.after_change(group))
        })
    }
}

fn count(by: u32) -> i32 {
    i32::try_from(by).unwrap_or(i32::MAX)
}

impl ExternalGrpc {
    /// Sends a request, and limits the time until the answer.
    async fn call<Q, A>(
        &self,
        method: &str,
        request: Q,
        send: impl AsyncFnOnce(CloudProviderClient<Channel>, Q) -> Result<Response<A>, Status>,
    ) -> Result<A, RpcError> {
        let channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let answer = send(CloudProviderClient::new(channel), request);
        let prefix = format!("{} {method}", self.address);
        let Ok(answer) = tokio::time::timeout(self.timeout, answer).await else {
            // The connection may be dead without being closed: the next call opens another one.
            *self.channel.lock().unwrap_or_else(PoisonError::into_inner) = self.server.channel();
            let message = format!("{prefix}: no answer within {:?}", self.timeout);
            return Err(RpcError { failure: Failure::Uncertain, message });
        };
        answer.map(Response::into_inner).map_err(|status| RpcError::new(&prefix, &status))
    }
}

/// Why a call failed.
#[derive(Debug)]
struct RpcError {
    failure: Failure,
    message: String,
}

/// How a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// The request was not sent.
    NotSent,
    /// The server does not have the method.
    Unimplemented,
    /// The server answered with an error.
    Refused,
    /// The request may have been carried out.
    Uncertain,
}

impl RpcError {
    fn new(prefix: &str, status: &Status) -> Self {
        if grpc::was_not_sent(status) {
            let message = format!("{prefix}: could not connect: {}", grpc::root_cause(status));
            return Self { failure: Failure::NotSent, message };
        }
        // An error with a source is the connection's, not the server's.
        if std::error::Error::source(status).is_some() {
            let message = format!("{prefix}: the connection failed: {}", grpc::root_cause(status));
            return Self { failure: Failure::Uncertain, message };
        }
        let code = status.code();
        let failure = match code {
            Code::Unimplemented => Failure::Unimplemented,
            Code::DeadlineExceeded | Code::Cancelled | Code::Unavailable => Failure::Uncertain,
            Code::Ok
            | Code::Unknown
            | Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::OutOfRange
            | Code::Internal
            | Code::DataLoss
            | Code::Unauthenticated => Failure::Refused,
        };
        let message = match status.message() {
            "" => format!("{prefix}: {code:?}"),
            message => format!("{prefix}: {message}"),
        };
        Self { failure, message }
    }

    /// Returns what the failure of a change means.
    fn after_change(self, group: &str) -> ProviderError {
        let (group, message) = (group.to_owned(), self.message);
        match self.failure {
            Failure::NotSent => ProviderError::Unavailable { message },
            Failure::Unimplemented | Failure::Refused => ProviderError::Refused { group, message },
            Failure::Uncertain => ProviderError::Unknown { group, message },
        }
    }
}

/// A call that changes nothing pauses the provider, however it failed.
impl From<RpcError> for ProviderError {
    fn from(error: RpcError) -> Self {
        Self::Unavailable { message: error.message }
    }
}
