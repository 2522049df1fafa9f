//! How do calls come in over the network?
//!
//! Everything a stranger can make us hold is bounded: how many connections there are, and how long a handshake and the head
//! of a request may take.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::tls::Certificates;

const CONNECTIONS: usize = 4096;
const STREAMS_PER_CONNECTION: u32 = 1000;
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
const PING_EVERY: Duration = Duration::from_secs(30);

/// How long the head of the next request may take. Clients let go of an idle connection after 90 s, as Go's and hyper's do: it must not
/// be closed before that, or a request that is on its way is lost.
const HEAD_WITHIN: Duration = Duration::from_secs(120);

/// How long calls under way have once it is over.
const FINISH_WITHIN: Duration = Duration::from_secs(10);

/// Answers calls until `stop` happens, and then lets those under way finish. Without certificates calls are in plain text.
pub async fn serve(
    listener: TcpListener,
    certificates: Option<Certificates>,
    router: Router,
    stop: impl Future<Output = ()>,
) {
    let mut stop = std::pin::pin!(stop);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let (stopping, is_stopping) = watch::channel(false);
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, stream) = tokio::select! {
            (place, accepted) = next => match accepted {
                Ok((stream, _)) => (place, stream),
                Err(err) => {
                    // Out of file descriptors, most likely: wait until some are back.
                    tracing::warn!(error = &err as &dyn std::error::Error, "could not accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            Some(_) = connections.join_next() => continue,
            () = &mut stop => break,
        };
        let (certificates, router) = (certificates.clone(), router.clone());
        let is_stopping = is_stopping.clone();
        connections.spawn(async move {
            connection(stream, certificates, router, is_stopping).await;
            drop(place);
        });
    }
    drop(listener);
    stopping.send_replace(true);
    let finished = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(FINISH_WITHIN, finished).await;
}

async fn connection(
    stream: TcpStream,
    certificates: Option<Certificates>,
    router: Router,
    stopping: watch::Receiver<bool>,
) {
    // Small answers should not wait for company.
    let _ = stream.set_nodelay(true);
    let Some(certificates) = certificates else { return answer(stream, router, stopping).await };
    let tls = certificates.now();
    let accepted = TlsAcceptor::from(Arc::clone(&tls.config)).accept(stream);
    match tokio::time::timeout(HANDSHAKE_WITHIN, accepted).await {
        Ok(Ok(stream)) if tls.admits(stream.get_ref().1.peer_certificates()) => {
            answer(stream, router, stopping).await;
        }
        Ok(Ok(_)) => tracing::debug!("a caller has a name that may not call"),
        Ok(Err(err)) => {
            tracing::debug!(error = &err as &dyn std::error::Error, "a caller gave up on TLS");
        }
        Err(_) => {}
    }
}

async fn answer<S>(stream: S, router: Router, mut stopping: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN);
    server
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_EVERY)
        .max_header_list_size(64 << 10);
    let service = TowerToHyperService::new(router);
    let mut connection =
        std::pin::pin!(server.serve_connection_with_upgrades(TokioIo::new(stream), service));
    loop {
        tokio::select! {
            ended = &mut connection => {
                if let Err(err) = ended {
                    tracing::debug!(error = &*err, "a connection broke");
                }
                return;
            }
            Ok(()) = stopping.changed() => connection.as_mut().graceful_shutdown(),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_kept_for_as_long_as_clients_keep_it_idle() {
        let (mut client, server) = tokio::io::duplex(64 << 10);
        let router = Router::new().route("/", get(|| async { "here" }));
        let (_stopping, is_stopping) = watch::channel(false);
        let answering = tokio::spawn(answer(server, router, is_stopping));
        for _ in 0..2 {
            client.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
            let mut answer = [0; 1024];
            let length = client.read(&mut answer).await.unwrap();
            assert!(answer[..length].ends_with(b"here"), "{answer:?}");
            tokio::time::sleep(Duration::from_secs(90)).await;
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(answering.is_finished(), "and not for ever");
    }
}
