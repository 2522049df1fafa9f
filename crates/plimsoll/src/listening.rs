//! The listeners of `up` and `run`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use serve::listen::Endpoint;
use serve::tls::CertificateFiles;
use tokio::net::TcpListener;

use crate::args::{AllocatorArgs, ExternalGrpcArgs};

/// Opens the allocator's listener for gRPC and REST, if there is an address.
pub(crate) async fn allocator(args: &AllocatorArgs) -> anyhow::Result<Option<Endpoint>> {
    let AllocatorArgs { allocator, allocator_certificates, allocator_callers } = args;
    endpoint(*allocator, "--allocator", allocator_certificates, allocator_callers).await
}

/// Opens the listener for a Cluster Autoscaler, if there is an address.
pub(crate) async fn external_grpc(args: &ExternalGrpcArgs) -> anyhow::Result<Option<Endpoint>> {
    let ExternalGrpcArgs { externalgrpc, externalgrpc_certificates, externalgrpc_callers } = args;
    let flag = "--externalgrpc";
    endpoint(*externalgrpc, flag, externalgrpc_certificates, externalgrpc_callers).await
}

/// Opens the listener of a flag, with the directories of its certificate and of those of its clients.
async fn endpoint(
    address: Option<SocketAddr>,
    flag: &str,
    certificates: &Option<PathBuf>,
    callers: &Option<PathBuf>,
) -> anyhow::Result<Option<Endpoint>> {
    let Some(address) = address else { return Ok(None) };
    let tls = certificates.as_deref().map(|directory| CertificateFiles {
        client_ca: callers.clone(),
        ..CertificateFiles::in_directory(directory)
    });
    let listener = listen(address, flag).await?;
    Ok(Some(Endpoint { listener, tls, allow_anonymous: false }))
}

/// Listens on the address of a flag.
pub(crate) async fn listen(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("{flag}: could not listen on {address}; is the port taken?"))
}
