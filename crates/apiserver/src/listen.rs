//! Requests over the network, with TLS.
//!
//! A client is known once it has shown the token; until then it may have to make room for others.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, header};
use hyper::service::service_fn;
use process::Supervised;
use process::listen::{Known, Limits, Peer, RequestBody, Settings, Tls};
use tokio::net::TcpListener;

use crate::access::{Access, AccessError};
use crate::core::Core;
use crate::request::{Body, Caller};
use crate::rest;
use crate::service;
use crate::status::Status;

/// A port that the engine listens on, until this is dropped.
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    _task: Supervised,
}

impl Listening {
    /// Gives the address, with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Gives the address as kubeconfigs have it.
    pub fn url(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            let loopback = if address.is_ipv4() {
                [127, 0, 0, 1].into()
            } else {
                std::net::Ipv6Addr::LOCALHOST.into()
            };
            address.set_ip(loopback);
        }
        format!("https://{address}")
    }
}

/// Starts to listen.
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
        tracing::warn!(%address, "listening beyond this machine: whoever reaches the port and has the token may do everything");
    }
    let settings = Settings {
        // What is under way ends with the engine.
        limits: Limits { finish_within: Duration::ZERO, ..Limits::USUAL },
        known: Known::ByService,
        tls: Some(Arc::new(move || tls.clone())),
    };
    let (mut stopping, supervisor) = (core.stopping(), core.supervisor.clone());
    let stop = async move {
        let _ = stopping.wait_for(|stopping| *stopping).await;
    };
    let answer = service_fn(move |request: Request<RequestBody>| {
        let core = Arc::clone(&core);
        async move { Ok::<_, Infallible>(admit(&core, request).await) }
    });
    let serving = process::listen::serve(listener, settings, answer, stop);
    let task = supervisor.spawn_critical(format!("listener on {address}"), serving);
    Ok(Listening { address, _task: task })
}

/// Answers who has the token. Who has not learns nothing, not even what exists.
async fn admit(core: &Arc<Core>, request: Request<RequestBody>) -> Response<Body> {
    let said = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let token = said.and_then(|said| said.strip_prefix("Bearer ")).unwrap_or_default();
    if core.is_token(token.trim()) {
        if let Some(peer) = request.extensions().get::<Peer>() {
            peer.is_known();
        }
        service::answer(core, request, Caller::admin()).await
    } else {
        rest::refusal(&Status::new(401, "Unauthorized", "Unauthorized"))
    }
}
