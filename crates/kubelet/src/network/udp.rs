//! UDP packets into the network of a pod, and back to who sent them.
//!
//! Each client has a socket of its own inside, so that the program there can tell them apart and its answers find their
//! way. Clients that are silent are forgotten; there is room for so many, and then the most silent one goes.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::spawner::Spawner;

/// How many clients one host port has at the same time.
const CLIENTS: usize = 1024;
/// A client that is silent for so long is forgotten.
const SILENT_FOR: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_secs(15);
/// The largest packet there is.
const PACKET: usize = 65_536;

struct Client {
    inner: Arc<UdpSocket>,
    heard: Arc<Mutex<Instant>>,
    _answers: AbortOnDropHandle<()>,
}

/// Carries every packet to a port inside, and every answer back.
pub(super) async fn forward(outer: UdpSocket, inside: Spawner, port: u16) {
    let outer = Arc::new(outer);
    let mut clients: HashMap<SocketAddr, Client> = HashMap::new();
    let mut look = tokio::time::interval(LOOK_EVERY);
    let mut packet = vec![0; PACKET];
    loop {
        let received = tokio::select! {
            received = outer.recv_from(&mut packet) => received,
            _ = look.tick() => {
                clients.retain(|_, client| heard(client).elapsed() < SILENT_FOR);
                continue;
            }
        };
        // An answer that did not reach its client is reported here, and is not our business.
        let Ok((length, from)) = received else { continue };
        if !clients.contains_key(&from) {
            make_room(&mut clients);
            let Ok(client) = open(&outer, &inside, port, from).await else { continue };
            clients.insert(from, client);
        }
        if let Some(client) = clients.get(&from) {
            *client.heard.lock().expect("no one panics while holding it") = Instant::now();
            let _ = client.inner.send(&packet[..length]).await;
        }
    }
}

fn heard(client: &Client) -> Instant {
    *client.heard.lock().expect("no one panics while holding it")
}

fn make_room(clients: &mut HashMap<SocketAddr, Client>) {
    if clients.len() >= CLIENTS {
        let most_silent =
            clients.iter().min_by_key(|(_, client)| heard(client)).map(|(from, _)| *from);
        most_silent.and_then(|from| clients.remove(&from));
    }
}

/// Opens a socket inside for a client, and sends back what comes to it.
async fn open(
    outer: &Arc<UdpSocket>,
    inside: &Spawner,
    port: u16,
    client: SocketAddr,
) -> io::Result<Client> {
    let inner = inside.run(move || {
        let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect((Ipv4Addr::LOCALHOST, port))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    });
    let inner = Arc::new(UdpSocket::from_std(inner.await?)?);
    let heard = Arc::new(Mutex::new(Instant::now()));
    let answers = answer(Arc::clone(&inner), Arc::clone(outer), client, Arc::clone(&heard));
    Ok(Client { inner, heard, _answers: AbortOnDropHandle::new(tokio::spawn(answers)) })
}

async fn answer(
    inner: Arc<UdpSocket>,
    outer: Arc<UdpSocket>,
    client: SocketAddr,
    heard: Arc<Mutex<Instant>>,
) {
    let mut packet = vec![0; PACKET];
    loop {
        // Nobody listens inside yet: the packet is lost, as packets are.
        let Ok(length) = inner.recv(&mut packet).await else { continue };
        *heard.lock().expect("no one panics while holding it") = Instant::now();
        let _ = outer.send_to(&packet[..length], client).await;
    }
}
