//! Carries the input and output of a command over a websocket: `v4.channel.k8s.io` and `v5.channel.k8s.io`.
//!
//! The first byte of each message is the number of its channel. At the end a `Status` with the exit code is sent.

use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::idle::Idle;
use super::request::StreamIo;
use super::websocket::{self, Socket};
use crate::child::OUTPUT_WITHIN;
use crate::streams::{Output, Resizer, Stdin, Streams};

const V5: &str = "v5.channel.k8s.io";
const V4: &str = "v4.channel.k8s.io";
/// The known subprotocols, the best first.
pub(super) const SUBPROTOCOLS: &[&str] = &[V5, V4];

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// Closes the channel that the second byte names; since v5.
const CLOSE: u8 = 255;

/// How long a client may take to close its side after the command has ended.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// The channels of a session.
pub(super) struct Channels {
    io: StreamIo,
    can_close: bool,
}

impl Channels {
    pub(super) fn new(io: StreamIo, subprotocol: &str) -> Self {
        Self { io, can_close: subprotocol == V5 }
    }

    /// Carries data until the command has ended or the client has disconnected.
    pub(super) async fn carry(self, socket: Socket, streams: Streams, idle: &Idle) {
        let (sink, source) = socket.split();
        let Streams { mut stdin, output, resize, exit } = streams;
        let mut receiving = Receiving { channels: &self, stdin: &mut stdin, resize, idle };
        let sending = Sending { io: self.io, sink, idle };
        {
            let mut receiving = std::pin::pin!(receiving.run(source));
            tokio::select! {
                () = &mut receiving => {}
                _ = sending.run(output, exit) => {
                    // A connection that is closed before everything is read from it is reset, and the client may lose what
                    // it has not read yet.
                    let _ = tokio::time::timeout(CLOSE_WITHIN, receiving).await;
                }
            }
        }
        if let Some(stdin) = stdin.take() {
            stdin.close().await;
        }
    }
}

/// The direction from the client.
struct Receiving<'a> {
    channels: &'a Channels,
    stdin: &'a mut Option<Stdin>,
    resize: Option<Resizer>,
    idle: &'a Idle,
}

impl Receiving<'_> {
    /// Runs until the client has disconnected.
    async fn run(&mut self, mut source: SplitStream<Socket>) {
        while let Some(Ok(message)) = source.next().await {
            let data: Bytes = match message {
                Message::Binary(data) => data,
                Message::Text(text) => text.into(),
                Message::Close(_) => return,
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
            };
            self.idle.reset();
            match data.split_first() {
                Some((&STDIN, input)) => self.write(input).await,
                Some((&RESIZE, size)) => self.resize(size).await,
                Some((&CLOSE, [STDIN])) if self.channels.can_close => {
                    if let Some(stdin) = self.stdin.take() {
                        stdin.close().await;
                    }
                }
                Some(_) | None => {}
            }
        }
    }

    async fn write(&mut self, input: &[u8]) {
        if let Some(stdin) = self.stdin.as_mut()
            && stdin.write_all(input).await.is_err()
        {
            // The command reads no more, which is no error.
            *self.stdin = None;
        }
    }

    async fn resize(&mut self, size: &[u8]) {
        if let (Some(resize), Ok(size)) = (&self.resize, serde_json::from_slice(size))
            && let Err(error) = resize(size).await
        {
            tracing::debug!(error, "could not resize a terminal");
        }
    }
}

/// The direction to the client.
struct Sending<'a> {
    io: StreamIo,
    sink: SplitSink<Socket, Message>,
    idle: &'a Idle,
}

type SocketError = tokio_tungstenite::tungstenite::Error;

impl Sending<'_> {
    /// Sends all output and the exit code, and closes the websocket.
    async fn run(
        mut self,
        output: futures::stream::BoxStream<'static, Output>,
        mut exit: futures::future::BoxFuture<'static, Result<i32, String>>,
    ) -> Result<(), SocketError> {
        if self.io.stdout || self.io.stderr {
            // An empty message lets the client know that the command runs.
            let channel = if self.io.stdout { STDOUT } else { STDERR };
            self.send(channel, &[]).await?;
        }
        let mut ping = websocket::pings();
        let mut output = Some(output);
        let mut ended = None;
        // A process in the background may keep the output open after the command has ended.
        let mut output_until = None;
        let result = loop {
            let next = async {
                match &mut output {
                    Some(output) => output.next().await,
                    None => std::future::pending().await,
                }
            };
            let is_late = async {
                match output_until {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                chunk = next => match chunk {
                    Some(Output::Stdout(chunk)) if self.io.stdout => self.send(STDOUT, &chunk).await?,
                    Some(Output::Stderr(chunk)) if self.io.stderr => self.send(STDERR, &chunk).await?,
                    Some(_) => {}
                    None => output = None,
                },
                result = &mut exit, if ended.is_none() => {
                    ended = Some(result);
                    output_until = Some(Instant::now() + OUTPUT_WITHIN);
                }
                () = is_late => output = None,
                _ = ping.tick() => self.sink.send(Message::Ping(Bytes::new())).await?,
            }
            if output.is_none()
                && let Some(result) = ended.take()
            {
                break result;
            }
        };
        self.send(ERROR, status(&result).to_string().as_bytes()).await?;
        let close = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        self.sink.send(Message::Close(Some(close))).await?;
        self.sink.close().await
    }

    async fn send(&mut self, channel: u8, data: &[u8]) -> Result<(), SocketError> {
        let mut message = BytesMut::with_capacity(1 + data.len());
        message.put_u8(channel);
        message.extend_from_slice(data);
        self.sink.send(Message::Binary(message.freeze())).await?;
        self.idle.reset();
        Ok(())
    }
}

/// Returns the `Status` of a command that has ended.
fn status(result: &Result<i32, String>) -> Value {
    match result {
        Ok(0) => json!({"metadata": {}, "status": "Success"}),
        Ok(code) => json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Err(why) => json!({
            "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
            "message": format!("Internal error occurred: error executing command in container: {why}"),
            "details": {"causes": [{"message": why}]},
        }),
    }
}
