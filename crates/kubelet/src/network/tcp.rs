//! TCP connections into the network of a pod.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

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
    accept_all(accept, port, |outer| carry(outer, inside.clone(), port)).await;
}

/// Accepts connections without end, and runs a task for each. A failure to accept one is logged and retried with backoff.
async fn accept_all<S, Accept, Carry>(
    accept: impl Fn() -> Accept,
    port: u16,
    carry: impl Fn(S) -> Carry,
) where
    Accept: Future<Output = io::Result<S>>,
    Carry: Future<Output = io::Result<()>> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut backoff = SocketBackoff::default();
    // Connections end with the task that accepts them.
    let mut connections = JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        match accept().await {
            Ok(outer) => {
                backoff.reset();
                let carrying = carry(outer);
                connections.spawn(async move {
                    let _permit = permit;
                    carrying.await
                });
            }
            // The client has given up; the next one may already be waiting.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => backoff.wait("accept a connection", port, &error).await,
        }
    }
}

async fn carry(mut outer: TcpStream, inside: Spawner, port: u16) -> io::Result<()> {
    let mut inner = connect(&inside, port).await?;
    outer.set_nodelay(true)?;
    inner.set_nodelay(true)?;
    tokio::io::copy_bidirectional(&mut outer, &mut inner).await?;
    Ok(())
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
                let carry = |number| {
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
}
