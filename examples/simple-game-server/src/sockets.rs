//! Takes commands over UDP, one per packet, and over TCP, one per line.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;

use crate::Error;
use crate::commands::{Answer, Game};

/// The longest command.
const LONGEST: usize = 2048;

/// How many TCP connections are served at a time; further ones wait.
const CONNECTIONS: usize = 256;

pub(crate) struct Sockets {
    udp: Option<UdpSocket>,
    tcp: Option<TcpListener>,
}

impl Sockets {
    pub(crate) async fn open(address: SocketAddr, udp: bool, tcp: bool) -> Result<Self, Error> {
        let failed = |source| Error::Listen { address, source };
        let udp = if udp { Some(UdpSocket::bind(address).await.map_err(failed)?) } else { None };
        let tcp = if tcp { Some(TcpListener::bind(address).await.map_err(failed)?) } else { None };
        Ok(Self { udp, tcp })
    }

    /// Serves until a socket fails.
    pub(crate) async fn answer(self, game: Game) -> Result<(), Error> {
        let udp = async {
            match self.udp {
                Some(socket) => packets(&socket, game.clone()).await,
                None => std::future::pending().await,
            }
        };
        let tcp = async {
            match self.tcp {
                Some(listener) => connections(&listener, &game).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            failed = udp => Ok(failed?),
            failed = tcp => Ok(failed?),
        }
    }
}

async fn packets(socket: &UdpSocket, mut game: Game) -> io::Result<()> {
    let mut buffer = [0; LONGEST];
    loop {
        // The error concerns an earlier response that was not delivered, not the next packet.
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
        let text = String::from_utf8_lossy(&buffer[..length]).trim().to_owned();
        if let Some(reply) = reply(&mut game, &text, "ACK").await {
            let _ = socket.send_to(reply.as_bytes(), from).await;
        }
        game.settle().await;
    }
}

async fn connections(listener: &TcpListener, game: &Game) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
        let (stream, _) = listener.accept().await?;
        let game = game.clone();
        tokio::spawn(async move {
            let _place = place;
            // A client that disconnects is not an error.
            let _ = lines(stream, game).await;
        });
    }
}

async fn lines(stream: TcpStream, mut game: Game) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    loop {
        let mut line = Vec::new();
        (&mut read).take(LONGEST as u64).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        if let Some(reply) = reply(&mut game, &text, "ACK TCP").await {
            write.write_all(format!("{reply}\n").as_bytes()).await?;
        }
        game.settle().await;
    }
}

async fn reply(game: &mut Game, text: &str, ack: &str) -> Option<String> {
    eprintln!("received: {text}");
    match game.execute(text).await {
        Ok(Answer::Ack) => Some(format!("{ack}: {text}\n")),
        Ok(Answer::Text(text)) => Some(text),
        Ok(Answer::Silence) => None,
        Err(what) => {
            eprintln!("error: {what}");
            Some(format!("ERROR: {what}\n"))
        }
    }
}
