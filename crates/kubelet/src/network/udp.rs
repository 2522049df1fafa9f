//! UDP packets into the network of a pod, and the replies back to their clients.
//!
//! Each client has a socket of its own inside, so that the program can distinguish clients and its replies reach the right one.
//! A client that is silent for a while is removed, and so is the one that was silent longest when there are too many.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::forward::SocketBackoff;
use crate::spawner::Spawner;

/// How many clients one host port has at the same time.
const CLIENTS: usize = 1024;
/// How long a client may be silent before it is removed.
const SILENT_FOR: Duration = Duration::from_secs(120);
/// How often silent clients are removed.
const EXPIRE_EVERY: Duration = Duration::from_secs(15);
/// The size of the largest packet.
const PACKET: usize = 65_536;

struct Client {
    inner: Arc<UdpSocket>,
    /// When a packet last came or went.
    active_at: Arc<Mutex<Instant>>,
    replies: AbortOnDropHandle<()>,
    is_current: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Client {
    fn is_served(&self) -> bool {
        !self.replies.is_finished() && (self.is_current)()
    }
}

/// A socket that is connected to the program that serves a client.
pub(crate) struct Upstream {
    pub(crate) socket: UdpSocket,
    /// Whether the program still serves; the client's next packet goes to another one otherwise.
    pub(crate) is_current: Box<dyn Fn() -> bool + Send + Sync>,
}

/// Opens a socket that is connected to a port inside.
pub(crate) async fn connect(inside: &Spawner, port: u16) -> io::Result<UdpSocket> {
    let socket = inside.run(move || {
        let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect((Ipv4Addr::LOCALHOST, port))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    });
    UdpSocket::from_std(socket.await?)
}

/// Carries every packet to a port inside, and every reply back.
pub(super) async fn forward_inside(outer: Arc<UdpSocket>, inside: Spawner, port: u16) {
    let open = || async {
        let socket = connect(&inside, port).await?;
        Ok(Upstream { socket, is_current: Box::new(|| true) })
    };
    forward(outer, port, open).await;
}

/// Carries every packet to the program that `open` connects to, one for each client, and every reply back.
pub(crate) async fn forward<Opening>(outer: Arc<UdpSocket>, port: u16, open: impl Fn() -> Opening)
where
    Opening: Future<Output = io::Result<Upstream>>,
{
    let mut backoff = SocketBackoff::default();
    let mut clients: HashMap<SocketAddr, Client> = HashMap::new();
    let mut expiry = tokio::time::interval(EXPIRE_EVERY);
    let mut packet = vec![0; PACKET];
    loop {
        let received = tokio::select! {
            received = outer.recv_from(&mut packet) => received,
            _ = expiry.tick() => {
                clients.retain(|_, client| active_at(client).elapsed() < SILENT_FOR);
                continue;
            }
        };
        let (length, from) = match received {
            Ok(packet) => packet,
            // An earlier reply did not reach its client.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(error) => {
                backoff.wait("receive a packet", port, &error).await;
                continue;
            }
        };
        backoff.reset();
        if !clients.get(&from).is_some_and(Client::is_served) {
            clients.remove(&from);
            make_room(&mut clients);
            let Ok(upstream) = open().await else { continue };
            clients.insert(from, serve(&outer, upstream, from));
        }
        if let Some(client) = clients.get(&from) {
            *client.active_at.lock().expect("no code panics while holding it") = Instant::now();
            let _ = client.inner.send(&packet[..length]).await;
        }
    }
}

fn active_at(client: &Client) -> Instant {
    *client.active_at.lock().expect("no code panics while holding it")
}

fn make_room(clients: &mut HashMap<SocketAddr, Client>) {
    if clients.len() >= CLIENTS {
        let most_silent =
            clients.iter().min_by_key(|(_, client)| active_at(client)).map(|(from, _)| *from);
        most_silent.and_then(|from| clients.remove(&from));
    }
}

/// Sends back to a client the replies that its socket receives.
fn serve(outer: &Arc<UdpSocket>, upstream: Upstream, client: SocketAddr) -> Client {
    let inner = Arc::new(upstream.socket);
    let active_at = Arc::new(Mutex::new(Instant::now()));
    let replies = reply(Arc::clone(&inner), Arc::clone(outer), client, Arc::clone(&active_at));
    let replies = AbortOnDropHandle::new(tokio::spawn(replies));
    Client { inner, active_at, replies, is_current: upstream.is_current }
}

/// Sends replies back to a client, until the socket inside fails; the client's next packet opens another.
async fn reply(
    inner: Arc<UdpSocket>,
    outer: Arc<UdpSocket>,
    client: SocketAddr,
    active_at: Arc<Mutex<Instant>>,
) {
    let mut packet = vec![0; PACKET];
    loop {
        let length = match inner.recv(&mut packet).await {
            Ok(length) => length,
            // The program does not listen yet: the packet is lost, as UDP packets may be.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(error) => {
                tracing::debug!(%client, %error, "could not receive replies to a client");
                return;
            }
        };
        *active_at.lock().expect("no code panics while holding it") = Instant::now();
        let _ = outer.send_to(&packet[..length], client).await;
    }
}
