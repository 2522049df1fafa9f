//! How do requests come in over the network?
//!
//! Everything a stranger can make us hold is bounded: how many connections there are, how long a handshake, a request's
//! head and its body may take, and how many requests one connection has under way.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::{Access, AccessError};
use crate::core::Core;
use crate::rest::{self, Body, Caller};
use crate::service;
use crate::status::Status;

const CONNECTIONS: usize = 4096;
const STREAMS_PER_CONNECTION: u32 = 1000;
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
const PING_EVERY: Duration = Duration::from_secs(30);

/// How long the head of the next request may take. Clients let go of an idle connection after 90 s, as Go's and hyper's do: it must not
/// be closed before that, or a request that is on its way is lost.
const HEAD_WITHIN: Duration = Duration::from_secs(120);

/// A port that the engine listens on, until this is dropped.
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
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

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts to listen.
pub(crate) async fn listen(
    core: Arc<Core>,
    access: &Access,
    address: SocketAddr,
) -> Result<Listening, AccessError> {
    let failed = |source| AccessError::Listen { address: address.to_string(), source };
    let tls = TlsAcceptor::from(access.tls(address.ip())?);
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "listening beyond this machine: whoever reaches the port and has the token may do everything");
    }
    let task = tokio::spawn(accept(core, tls, listener));
    Ok(Listening { address, task })
}

async fn accept(core: Arc<Core>, tls: TlsAcceptor, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut stopping = core.stopping();
    // Connections end with the listener.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(err) => {
                    // Out of file descriptors, most likely: wait until some are back.
                    tracing::warn!(error = &err as &dyn std::error::Error, "could not accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            Some(_) = connections.join_next() => continue,
            _ = stopping.changed() => return,
        };
        let (core, tls) = (Arc::clone(&core), tls.clone());
        connections.spawn(async move {
            serve(core, tls, stream).await;
            drop(place);
        });
    }
}

async fn serve(core: Arc<Core>, tls: TlsAcceptor, stream: TcpStream) {
    // Small events should not wait for company.
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE_WITHIN, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(err)) => {
            tracing::debug!(error = &err as &dyn std::error::Error, "a client gave up on TLS");
            return;
        }
        Err(_) => return,
    };
    let answer = service_fn(move |request: Request<Incoming>| {
        let core = Arc::clone(&core);
        async move { Ok::<_, Infallible>(admit(&core, request).await) }
    });
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN);
    server
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_EVERY)
        .max_header_list_size(64 << 10);
    if let Err(err) = server.serve_connection(TokioIo::new(stream), answer).await {
        tracing::debug!(error = &*err, "a connection broke");
    }
}

/// Answers who has the token. Who has not learns nothing, not even what exists.
async fn admit(core: &Arc<Core>, request: Request<Incoming>) -> Response<Body> {
    let said = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let token = said.and_then(|said| said.strip_prefix("Bearer ")).unwrap_or_default();
    if core.is_token(token.trim()) {
        service::answer(core, request, Caller::admin()).await
    } else {
        rest::refusal(&Status::new(401, "Unauthorized", "Unauthorized"))
    }
}
