//! Serves HTTP on TCP and TLS listeners, within limits.
//!
//! Everything a client can make us hold is bounded: how many connections there are, how long a handshake, the head of a
//! request and its body may take, and how many requests one connection has under way. An unauthenticated client never
//! keeps out one that is known: when there are too many, the one that has been silent for longest is closed.

mod body;
mod connections;
mod io;

use std::convert::Infallible;
use std::error::Error;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use http::{Request, Response, StatusCode};
use hyper::body::{Body, Incoming};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use body::ResponseBody;
pub use body::{BodyError, RequestBody};
use connections::Connections;
pub use connections::Peer;
use io::Held;

const STREAMS_PER_CONNECTION: u32 = 1000;
const HEADER_LIST_SIZE: u32 = 64 << 10;
/// The number of requests that a client may reset before they are handled.
const RESETS_WAITING: usize = 100;
/// How many protocol errors a client may cause on one connection.
const ERRORS_PER_CONNECTION: usize = 1000;
const PING_EVERY: Duration = Duration::from_secs(30);

/// How long the head of the next request may take. Clients let go of an idle connection after 90 s, as Go's and hyper's do: it must not
/// be closed before that, or a request that is on its way is lost.
const IDLE_FOR: Duration = Duration::from_secs(120);

/// The limits of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most connections.
    pub connections: usize,
    /// The most connections of clients that have not authenticated.
    pub unauthenticated: usize,
    /// How long a client may take to authenticate, from the moment its connection was accepted.
    pub authenticate_within: Duration,
    /// How long the body of a request may take; `None`: it is a stream that may go on.
    pub body_within: Option<Duration>,
    /// How long requests under way have once the listener stops.
    pub finish_within: Duration,
}

impl Limits {
    /// Limits for a listener about which nothing special is known.
    pub const USUAL: Self = Self {
        connections: 4096,
        unauthenticated: 1024,
        authenticate_within: Duration::from_secs(10),
        body_within: Some(Duration::from_secs(30)),
        finish_within: Duration::from_secs(10),
    };
}

/// When a client is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// With its first request: there is nothing else to know it by. Between two requests it makes room for others when there is none.
    ByRequest,
    /// When the service calls [`Peer::is_known`] on the `Peer` among the extensions of a request.
    ByService,
}

/// Returns whether a client that showed these certificates is let in.
pub type ClientCheck = dyn Fn(Option<&[CertificateDer<'_>]>) -> bool + Send + Sync;

/// TLS for one connection. A client whose certificate was verified is known.
#[derive(Clone)]
pub struct Tls {
    /// The certificate to present, and the client certificates to request.
    pub config: Arc<ServerConfig>,
    /// Whether a client with these certificates may go on; that they are genuine was checked before.
    pub admits: Arc<ClientCheck>,
}

/// Among the extensions of a request: its client showed a certificate that was verified and admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedClient;

/// How a listener is set up.
#[derive(Clone)]
pub struct Settings {
    /// How much is held at most.
    pub limits: Limits,
    /// When a client is known.
    pub known: Known,
    /// Returns TLS as it is for a connection made now; without it, requests are in plain text.
    pub tls: Option<Arc<dyn Fn() -> Tls + Send + Sync>>,
}

/// Answers requests until `stop` happens, and then completes those in progress.
pub async fn serve<S, B>(
    listener: TcpListener,
    settings: Settings,
    service: S,
    stop: impl Future<Output = ()>,
) where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Default + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let mut stop = std::pin::pin!(stop);
    let connections = Connections::new(settings.limits);
    let (stopping, is_stopping) = watch::channel(false);
    let mut tasks = JoinSet::new();
    // One that was accepted may have to wait for its place.
    let mut waiting = None;
    loop {
        let stream = tokio::select! {
            accepted = listener.accept(), if waiting.is_none() => {
                match accepted {
                    Ok((stream, _)) => waiting = Some(stream),
                    Err(err) => {
                        // Out of file descriptors, most likely: wait until some are back.
                        tracing::warn!(error = %crate::log::chain(&err), "could not accept a connection");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
                continue;
            }
            () = connections.has_room(), if waiting.is_some() => waiting.take(),
            Some(_) = tasks.join_next() => continue,
            () = &mut stop => break,
        };
        let Some(stream) = stream else { continue };
        // Small answers should not wait for company.
        let _ = stream.set_nodelay(true);
        let place = connections.add();
        let (peer, stream) = (place.peer(), Held::new(stream, place));
        let connection = Connection {
            peer: peer.clone(),
            settings: settings.clone(),
            service: service.clone(),
            stopping: is_stopping.clone(),
        };
        let authenticate_within = settings.limits.authenticate_within;
        tasks.spawn(async move {
            tokio::select! {
                () = connection.serve(stream) => {}
                () = peer.closed(authenticate_within) => {}
            }
        });
    }
    drop(listener);
    stopping.send_replace(true);
    let finished = async { while tasks.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(settings.limits.finish_within, finished).await;
}

/// The context of one connection.
struct Connection<S> {
    peer: Peer,
    settings: Settings,
    service: S,
    stopping: watch::Receiver<bool>,
}

impl<S, B> Connection<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Default + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    async fn serve(self, stream: Held) {
        let Some(tls) = self.settings.tls.as_ref().map(|tls| tls()) else {
            return self.answer(stream, None).await;
        };
        let stream = match TlsAcceptor::from(Arc::clone(&tls.config)).accept(stream).await {
            Ok(stream) => stream,
            Err(err) => {
                tracing::debug!(error = %crate::log::chain(&err), "a TLS handshake failed");
                return;
            }
        };
        let certificates = stream.get_ref().1.peer_certificates();
        if !(tls.admits)(certificates) {
            tracing::debug!("the name of a client certificate is not allowed");
            return;
        }
        let verified = certificates.map(|_| VerifiedClient);
        if verified.is_some() {
            self.peer.is_known();
        }
        self.answer(stream, verified).await;
    }

    async fn answer(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        verified: Option<VerifiedClient>,
    ) {
        let Self { peer, settings, service, mut stopping } = self;
        let service = {
            let peer = peer.clone();
            service_fn(move |mut request: Request<Incoming>| {
                if let Some(verified) = verified {
                    request.extensions_mut().insert(verified);
                }
                answer(peer.clone(), settings.clone(), service.clone(), request)
            })
        };
        let server = http();
        let mut connection =
            std::pin::pin!(server.serve_connection_with_upgrades(TokioIo::new(stream), service));
        loop {
            tokio::select! {
                ended = &mut connection => {
                    if let Err(err) = ended {
                        tracing::debug!(error = %crate::log::chain(&*err), "a connection broke");
                    }
                    break;
                }
                Ok(()) = stopping.changed() => connection.as_mut().graceful_shutdown(),
            }
        }
        peer.make_permanent();
    }
}

fn http() -> auto::Builder<TokioExecutor> {
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(IDLE_FOR);
    server
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .max_header_list_size(HEADER_LIST_SIZE)
        .max_pending_accept_reset_streams(RESETS_WAITING)
        .max_local_error_reset_streams(ERRORS_PER_CONNECTION)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_EVERY);
    server
}

/// Answers one request. If the service panics, the response is 500 and the connection stays open.
async fn answer<S, B>(
    peer: Peer,
    settings: Settings,
    service: S,
    request: Request<Incoming>,
) -> Result<Response<ResponseBody<B>>, Infallible>
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible>,
    B: Body<Data = Bytes> + Default + Unpin,
{
    let under_way = peer.begin_request(settings.known);
    let within = settings.limits.body_within;
    let mut request = request.map(|body| RequestBody::new(body, within));
    let path = request.uri().path().to_owned();
    request.extensions_mut().insert(peer);
    // State that a panic leaves behind is behind locks, and visible to others with or without this.
    let answered = AssertUnwindSafe(async { service.call(request).await }).catch_unwind().await;
    let response = match answered {
        Ok(Ok(response)) => response,
        Err(_) => {
            tracing::error!(path, "the handler of a request panicked; it was answered with 500");
            let mut response = Response::new(B::default());
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response
        }
    };
    Ok(response.map(|body| ResponseBody::new(body, under_way)))
}

#[cfg(test)]
mod tests;
