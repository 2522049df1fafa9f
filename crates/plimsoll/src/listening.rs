//! The listeners of `up` and `run`.

use std::net::SocketAddr;

use anyhow::Context as _;
use serve::allocator::Endpoint;
use serve::tls::CertificateFiles;
use tokio::net::TcpListener;

use crate::args::AllocatorArgs;

/// Opens the allocator's listener for gRPC and REST, if there is an address.
pub(crate) async fn allocator(args: &AllocatorArgs) -> anyhow::Result<Option<Endpoint>> {
    let Some(address) = args.allocator else { return Ok(None) };
    let client_ca = args.allocator_callers.clone();
    let directory = args.allocator_certificates.as_deref();
    let tls = directory.map(|directory| CertificateFiles {
        client_ca,
        ..CertificateFiles::in_directory(directory)
    });
    let listener = listen(address, "--allocator").await?;
    Ok(Some(Endpoint { listener, tls, allow_anonymous: false }))
}

/// Listens on the address of a flag.
pub(crate) async fn listen(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("{flag}: could not listen on {address}; is the port taken?"))
}
