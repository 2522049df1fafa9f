//! Where do `up` and `run` listen?

use std::net::SocketAddr;

use anyhow::Context as _;
use serve::allocator::Endpoint;
use serve::tls::Files;
use tokio::net::TcpListener;

use crate::args::AllocatorArgs;

/// Listens for allocations by gRPC and REST, if that was asked for.
pub(crate) async fn allocator(args: &AllocatorArgs) -> anyhow::Result<Option<Endpoint>> {
    let Some(address) = args.allocator else { return Ok(None) };
    let callers = args.allocator_callers.clone();
    let folder = args.allocator_certificates.as_deref();
    let tls = folder.map(|folder| Files { callers, ..Files::in_folder(folder) });
    let listener = listen(address, "--allocator").await?;
    Ok(Some(Endpoint { listener, tls, allow_anonymous: false }))
}

/// Listens on the address of a flag.
pub(crate) async fn listen(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("{flag}: could not listen on {address}; is the port taken?"))
}
