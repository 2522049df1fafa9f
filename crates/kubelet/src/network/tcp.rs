//! TCP connections into the network of a pod.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::forward::SocketBackoff;
use crate::spawner::Spawner;

/// How many connections one host port carries at the same time.
const CONNECTIONS: usize = 1024;

/// Connects to a port inside.
pub(super) async fn connect(inside: &Spawner, port: u16) -> io::Result<TcpStream> {
    let socket = inside.run(TcpSocket::new_v4).await?;
    socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await
}

/// Carries every connection to a port inside.
pub(super) async fn forward(listener: Arc<TcpListener>, inside: Spawner, port: u16) {
    let accept = || {
        let listener = Arc::clone(&listener);
        async move { listener.accept().await.map(|(outer, _)| outer) }
    };
    accept_all(accept, port, |outer, client| carry(outer, client, inside.clone(), port)).await;
}

/// Clients that have sent nothing yet, oldest first. When a port has no room, the oldest one makes room. Once a client has sent
/// something, it may be silent for as long as it likes, as players are.
#[derive(Default)]
struct SilentClients {
    by_number: Mutex<BTreeMap<u64, CancellationToken>>,
}

impl SilentClients {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, CancellationToken>> {
        self.by_number.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close_oldest(&self) {
        if let Some((_, closed)) = self.all().pop_first() {
            closed.cancel();
        }
    }
}

/// The client of a connection, which is silent until it is known to have sent something.
pub(crate) struct AcceptedClient {
    silent: Arc<SilentClients>,
    number: u64,
}

impl AcceptedClient {
    /// Marks that the client has sent something.
    fn has_sent(&self) {
        self.silent.all().remove(&self.number);
    }
}

impl Drop for AcceptedClient {
    fn drop(&mut self) {
        self.has_sent();
    }
}

/// Accepts connections without end, and runs a task for each. A failure to accept one is logged and retried with backoff.
pub(crate) async fn accept_all<S, Accept, Carry>(
    accept: impl Fn() -> Accept,
    port: u16,
    carry: impl Fn(S, AcceptedClient) -> Carry,
) where
    Accept: Future<Output = io::Result<S>>,
    Carry: Future<Output = io::Result<()>> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let silent = Arc::<SilentClients>::default();
    let mut backoff = SocketBackoff::default();
    // Connections end with the task that accepts them.
    let mut connections = JoinSet::new();
    for number in 0_u64.. {
        while connections.try_join_next().is_some() {}
        match accept().await {
            Ok(outer) => {
                backoff.reset();
                if room.available_permits() == 0 {
                    silent.close_oldest();
                }
                let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
                let closed = CancellationToken::new();
                silent.all().insert(number, closed.clone());
                let carrying = carry(outer, AcceptedClient { silent: Arc::clone(&silent), number });
                connections.spawn(async move {
                    let _permit = permit;
                    let _ = closed.run_until_cancelled(carrying).await;
                });
            }
            // The client has given up; the next one may already be waiting.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => backoff.wait("accept a connection", port, &error).await,
        }
    }
}

async fn carry(
    outer: TcpStream,
    client: AcceptedClient,
    inside: Spawner,
    port: u16,
) -> io::Result<()> {
    let inner = connect(&inside, port).await?;
    copy_both(outer, inner, &client).await
}

/// Copies in both directions until both have ended.
pub(crate) async fn copy_both(
    mut outer: TcpStream,
    mut inner: TcpStream,
    client: &AcceptedClient,
) -> io::Result<()> {
    outer.set_nodelay(true)?;
    inner.set_nodelay(true)?;
    let (mut from_client, mut to_client) = outer.split();
    let (mut from_server, mut to_server) = inner.split();
    let inwards = async {
        if from_client.peek(&mut [0]).await? > 0 {
            client.has_sent();
        }
        tokio::io::copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    let outwards = async {
        tokio::io::copy(&mut from_server, &mut to_client).await?;
        to_client.shutdown().await
    };
    tokio::try_join!(inwards, outwards).map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use process::Supervisor;
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn connections_are_accepted_again_after_a_panic_and_after_errors() {
        let supervisor = Supervisor::new();
        let accepts = Arc::new(AtomicUsize::new(0));
        let (carried, mut connections) = mpsc::unbounded_channel();
        let forward = move || {
            let (accepts, carried) = (Arc::clone(&accepts), carried.clone());
            async move {
                let accept = || {
                    let number = accepts.fetch_add(1, Ordering::Relaxed);
                    async move {
                        match number {
                            0 => panic!("on purpose"),
                            1..4 => Err(io::Error::other("too many open files")),
                            4..6 => Ok(number),
                            _ => std::future::pending().await,
                        }
                    }
                };
                let carry = |number, _| {
                    let carried = carried.clone();
                    async move { carried.send(number).map_err(io::Error::other) }
                };
                accept_all(accept, 7000, carry).await;
            }
        };
        let _task = supervisor.spawn("host port 7000/TCP of pod n/a", forward);
        assert_eq!((connections.recv().await, connections.recv().await), (Some(4), Some(5)));
        let problems = supervisor.problems();
        assert_eq!(problems, ["host port 7000/TCP of pod n/a was started again a moment ago"]);
    }

    /// Reports its number when it is dropped.
    struct Guard(usize, mpsc::UnboundedSender<usize>);

    impl Drop for Guard {
        fn drop(&mut self) {
            let _ = self.1.send(self.0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_client_that_never_sent_anything_makes_room() {
        let (carried, mut connections) = mpsc::unbounded_channel();
        let (closed, mut ended) = mpsc::unbounded_channel();
        let accepts = AtomicUsize::new(0);
        let accept = || {
            let number = accepts.fetch_add(1, Ordering::Relaxed);
            async move {
                match number {
                    0..=CONNECTIONS => Ok(number),
                    _ => std::future::pending().await,
                }
            }
        };
        let carry = |number: usize, client: AcceptedClient| {
            let (carried, guard) = (carried.clone(), Guard(number, closed.clone()));
            async move {
                let _guard = guard;
                if number == 0 {
                    client.has_sent();
                }
                carried.send(number).map_err(io::Error::other)?;
                // It is silent from now on.
                std::future::pending().await
            }
        };
        let accepting = accept_all(accept, 7000, carry);
        let newest_is_carried = async { while connections.recv().await != Some(CONNECTIONS) {} };
        tokio::select! {
            () = accepting => panic!("it accepts without end"),
            () = newest_is_carried => {}
        }
        assert_eq!(ended.try_recv(), Ok(1), "the first one has sent something");
    }
}
