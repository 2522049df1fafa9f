//! Cluster Autoscaler's protocol `externalgrpc`, served: the NodeGroups of this cluster for an autoscaler elsewhere, each scaled by its own
//! provider.
//!
//! Requests are answered from one reading of all groups, which Refresh and every change renew.

mod answers;
mod groups;
mod service;

use axum::Router;
use connect::proto::external_grpc::cloud_provider_server::CloudProviderServer;

pub use groups::{NodeGroups, Providers};

use crate::listen::{self, Endpoint, ServeError};

/// Serves the groups until `stop` is ready, and lets requests in progress finish.
pub async fn serve(
    groups: NodeGroups,
    endpoint: Endpoint,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let certificates = endpoint.certificates(groups.supervisor()).await?;
    listen::serve(endpoint.listener, certificates, router(groups), stop).await;
    Ok(())
}

/// Returns the routes of the protocol.
pub fn router(groups: NodeGroups) -> Router {
    let service = CloudProviderServer::new(service::Service::new(groups));
    tonic::service::Routes::new(service).into_axum_router()
}
