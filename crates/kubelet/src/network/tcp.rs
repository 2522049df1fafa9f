//! TCP connections into the network of a pod.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::spawner::Spawner;

/// How many connections one host port carries at the same time.
const CONNECTIONS: usize = 1024;
/// How long to wait when no connection can be accepted.
const AFTER_TROUBLE: Duration = Duration::from_millis(100);

/// Connects to a port inside.
pub(super) async fn connect(inside: &Spawner, port: u16) -> io::Result<TcpStream> {
    let socket = inside.run(TcpSocket::new_v4).await?;
    socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await
}

/// Carries every connection to a port inside.
pub(super) async fn forward(listener: TcpListener, inside: Spawner, port: u16) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    // Connections end with the task that accepts them.
    let mut connections = JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((outer, _)) => {
                let inside = inside.clone();
                connections.spawn(async move {
                    let _permit = permit;
                    carry(outer, &inside, port).await
                });
            }
            Err(_) => tokio::time::sleep(AFTER_TROUBLE).await,
        }
    }
}

async fn carry(mut outer: TcpStream, inside: &Spawner, port: u16) -> io::Result<()> {
    let mut inner = connect(inside, port).await?;
    outer.set_nodelay(true)?;
    inner.set_nodelay(true)?;
    tokio::io::copy_bidirectional(&mut outer, &mut inner).await?;
    Ok(())
}
