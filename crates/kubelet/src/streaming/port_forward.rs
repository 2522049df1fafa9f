//! Carries connections to the ports of a pod: SPDY/3.1 inside the messages of a websocket.
//!
//! The client opens two streams for each connection: one for its data, and one that carries an error.

mod connection;

use std::collections::{BTreeMap, HashMap};
use std::sync::Weak;

use bytes::Bytes;
use futures::stream::SplitSink;
use futures::{SinkExt as _, StreamExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

use super::idle::Idle;
use super::spdy::{self, Decoder, Frame, HeaderEncoder, Headers, ProtocolError, Status};
use super::websocket::{self, Socket};
use crate::pod::PodRun;
use connection::Connection;

/// The known subprotocols.
pub(super) const SUBPROTOCOLS: &[&str] = &["SPDY/3.1+portforward.k8s.io"];

/// How many connections a client may have open.
const CONNECTIONS: usize = 256;
/// How many frames to the client are queued.
const QUEUED_FRAMES: usize = 16;
/// How many chunks of data from the client are queued for each connection.
const QUEUED_CHUNKS: usize = 8;

/// Carries connections until the client has disconnected.
pub(super) async fn carry(socket: Socket, pod: Weak<PodRun>, idle: &Idle) {
    let (sink, mut source) = socket.split();
    let (frames, queued) = mpsc::channel(QUEUED_FRAMES);
    let encoder = match HeaderEncoder::new() {
        Ok(encoder) => encoder,
        Err(error) => return tracing::warn!(%error, "a port forward was ended"),
    };
    let mut forward = PortForward {
        pod,
        frames,
        encoder,
        waiting: BTreeMap::new(),
        open: HashMap::new(),
        connections: JoinSet::new(),
    };
    let receiving = async {
        let mut decoder = Decoder::default();
        while let Some(Ok(message)) = source.next().await {
            match message {
                Message::Binary(bytes) => decoder.push(&bytes),
                Message::Close(_) => return,
                Message::Text(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {
                    continue;
                }
            }
            idle.reset();
            if let Err(error) = forward.handle_all(&mut decoder).await {
                tracing::debug!(%error, "a port forward was ended: its client violated the protocol");
                return;
            }
        }
    };
    tokio::select! {
        () = receiving => {}
        () = send(sink, queued, idle) => {}
    }
}

/// Sends frames to the client, until it has disconnected.
async fn send(
    mut sink: SplitSink<Socket, Message>,
    mut queued: mpsc::Receiver<Bytes>,
    idle: &Idle,
) {
    let mut ping = websocket::pings();
    loop {
        let message = tokio::select! {
            frame = queued.recv() => match frame {
                Some(frame) => Message::Binary(frame),
                None => return,
            },
            _ = ping.tick() => Message::Ping(Bytes::new()),
        };
        if message.is_binary() {
            idle.reset();
        }
        if sink.send(message).await.is_err() {
            return;
        }
    }
}

/// The connections of a client.
struct PortForward {
    pod: Weak<PodRun>,
    frames: mpsc::Sender<Bytes>,
    encoder: HeaderEncoder,
    /// Connections of which only one stream is open, by the ID that the client gave them.
    waiting: BTreeMap<String, PendingConnection>,
    /// The data streams that are open.
    open: HashMap<u32, DataStream>,
    /// The tasks of connections, which return the ID of their data stream.
    connections: JoinSet<u32>,
}

/// A connection whose streams are being opened.
#[derive(Default)]
struct PendingConnection {
    error_stream: Option<u32>,
    data: Option<(u32, mpsc::Receiver<Bytes>, CancellationToken)>,
}

/// A data stream, as the client writes to it.
struct DataStream {
    /// Dropped when the client has sent all of its data.
    input: Option<mpsc::Sender<Bytes>>,
    /// Cancelled when the client aborts the stream.
    reset: CancellationToken,
}

impl PortForward {
    /// Handles all frames that have arrived completely.
    async fn handle_all(&mut self, decoder: &mut Decoder) -> Result<(), ProtocolError> {
        while let Some(frame) = decoder.next()? {
            self.handle(frame).await;
        }
        Ok(())
    }

    async fn handle(&mut self, frame: Frame) {
        match frame {
            Frame::Open { stream, headers, is_last } => {
                let reply = self.open(stream, &headers, is_last);
                self.send(reply).await;
            }
            Frame::Data { stream, data, is_last } => self.write(stream, data, is_last).await,
            Frame::Reset { stream } => {
                if let Some(data) = self.open.remove(&stream) {
                    data.reset.cancel();
                }
            }
            Frame::Ping { id } => self.send(spdy::ping(id)).await,
            Frame::GoAway => {}
        }
    }

    /// Sends a frame. An error means that the client has disconnected, which ends everything else as well.
    async fn send(&self, frame: Bytes) {
        let _ = self.frames.send(frame).await;
    }

    /// Opens a stream, and returns the reply.
    fn open(&mut self, stream: u32, headers: &Headers, is_last: bool) -> Bytes {
        while let Some(finished) = self.connections.try_join_next() {
            if let Ok(stream) = finished {
                self.open.remove(&stream);
            }
        }
        if self.connections.len() + self.waiting.len() >= CONNECTIONS {
            return spdy::reset(stream, Status::Refused);
        }
        let header = |name: &str| headers.get(name).map(String::as_str).unwrap_or_default();
        let (id, kind) = (header("requestid"), header("streamtype"));
        let (Ok(port), false) = (header("port").parse::<u16>(), id.is_empty()) else {
            return spdy::reset(stream, Status::Protocol);
        };
        let waiting = self.waiting.entry(id.to_owned()).or_default();
        match kind {
            "error" => waiting.error_stream = Some(stream),
            "data" => {
                let (input, data) = mpsc::channel(QUEUED_CHUNKS);
                let reset = CancellationToken::new();
                waiting.data = Some((stream, data, reset.clone()));
                self.open.insert(stream, DataStream { input: Some(input), reset });
            }
            _ => return spdy::reset(stream, Status::Protocol),
        }
        if is_last && let Some(open) = self.open.get_mut(&stream) {
            open.input = None;
        }
        if let PendingConnection { error_stream: Some(error_stream), data: data @ Some(_) } =
            waiting
            && let Some((data_stream, input, reset)) = data.take()
        {
            let (pod, frames) = (self.pod.clone(), self.frames.clone());
            let connection =
                Connection { pod, port, data_stream, error_stream: *error_stream, frames };
            self.waiting.remove(id);
            self.connections.spawn(connection.carry(input, reset));
        }
        spdy::accept(stream, &mut self.encoder)
    }

    /// Passes data to a connection. Those for one that has ended are dropped.
    async fn write(&mut self, stream: u32, data: Bytes, is_last: bool) {
        let Some(open) = self.open.get_mut(&stream) else { return };
        if let Some(input) = &open.input
            && !data.is_empty()
        {
            let _ = input.send(data).await;
        }
        if is_last {
            open.input = None;
        }
    }
}
