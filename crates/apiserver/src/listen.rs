//! The TLS listener of the API server.
//!
//! A client is authenticated by its bearer token, that of the administrator or of a service account. Until then its connection
//! may be closed to make room for others.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, header};
use hyper::service::service_fn;
use process::Supervised;
use process::listen::{Known, Limits, Peer, RequestBody, Settings, Tls};
use serde_json::json;
use tokio::net::TcpListener;

use crate::access::{Access, AccessError};
use crate::authentication;
use crate::core::Core;
use crate::request::Body;
use crate::rest;
use crate::rest::internal::{self, Propagation};
use crate::service;
use crate::status::Status;

/// A listener of the API server, which is closed when this is dropped.
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    _task: Supervised,
}

impl Listening {
    /// Returns the address with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for kubeconfigs.
    pub fn url(&self) -> String {
        format!("https://{}", reachable(self.address))
    }
}

/// Returns an address at which this machine reaches a listener.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        let loopback = if address.is_ipv4() {
            [127, 0, 0, 1].into()
        } else {
            std::net::Ipv6Addr::LOCALHOST.into()
        };
        address.set_ip(loopback);
    }
    address
}

/// Makes the listener the endpoint of the Service `kubernetes`, in place of that of an earlier run.
async fn publish(core: &Arc<Core>, address: SocketAddr) {
    const NAME: &str = "kubernetes";
    let address = reachable(address);
    let served = core.registry.served();
    let Some(slices) = served.find("discovery.k8s.io", "v1", "endpointslices") else { return };
    let slice = json!({
        "metadata": {"name": NAME, "labels": {"kubernetes.io/service-name": NAME}},
        "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [address.ip().to_string()], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}],
    });
    let namespace = Some("default");
    // The type of an address cannot be changed.
    internal::delete(core, slices, namespace, NAME, None, Propagation::Background).await;
    internal::create(core, slices, namespace, "kube-apiserver", slice).await;
}

/// Starts a listener.
pub(crate) async fn listen(
    core: Arc<Core>,
    access: &Access,
    address: SocketAddr,
) -> Result<Listening, AccessError> {
    let failed = |source| AccessError::Listen { address: address.to_string(), source };
    let tls = Tls { config: access.tls(address.ip())?, admits: Arc::new(|_| true) };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "listening on a non-loopback address: every client with the token of the kubeconfig has full access");
    }
    let settings = Settings {
        // Requests in flight end with the server.
        limits: Limits { finish_within: Duration::ZERO, ..Limits::USUAL },
        known: Known::ByService,
        tls: Some(Arc::new(move || tls.clone())),
    };
    let (mut stopping, supervisor) = (core.stopping(), core.supervisor.clone());
    let stop = async move {
        let _ = stopping.wait_for(|stopping| *stopping).await;
    };
    let server = Arc::clone(&core);
    let answer = service_fn(move |request: Request<RequestBody>| {
        let core = Arc::clone(&core);
        async move { Ok::<_, Infallible>(authenticate(&core, request).await) }
    });
    let serving = process::listen::serve(listener, settings, answer, stop);
    let task = supervisor.spawn_critical(format!("listener on {address}"), serving);
    publish(&server, address).await;
    Ok(Listening { address, _task: task })
}

/// Handles a request with a valid token; any other request is answered with 401.
async fn authenticate(core: &Arc<Core>, request: Request<RequestBody>) -> Response<Body> {
    let authorization = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let token = authorization
        .and_then(|authorization| authorization.strip_prefix("Bearer "))
        .unwrap_or_default();
    if let Some(caller) = authentication::caller(core, token.trim()) {
        if let Some(peer) = request.extensions().get::<Peer>() {
            peer.is_known();
        }
        service::answer(core, request, caller).await
    } else {
        rest::refusal(&Status::new(401, "Unauthorized", "Unauthorized"))
    }
}
