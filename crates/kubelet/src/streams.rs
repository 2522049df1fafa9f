//! The input and output of a command or a container that a client is connected to.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, Stream, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::process::ChildStdin;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::terminal::{Terminal, TerminalSize};

/// How much output is read at once, in bytes.
const CHUNK: usize = 32 << 10;
/// The character that ends the input of a terminal.
const END_OF_INPUT: u8 = 4;
/// The exit code of a command that was killed.
const KILLED: i32 = 137;

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Stdout(Bytes),
    Stderr(Bytes),
}

/// A running command or container, as a client is connected to it. Dropping it ends a command.
pub(crate) struct Streams {
    /// The input; `None`: there is none.
    pub(crate) stdin: Option<Stdin>,
    pub(crate) output: BoxStream<'static, Output>,
    /// Changes the size of the terminal; `None`: there is none.
    pub(crate) resize: Option<Resizer>,
    /// The exit code, once the command has ended.
    pub(crate) exit: BoxFuture<'static, Result<i32, String>>,
}

impl Streams {
    /// Returns the streams of a command that could not be started.
    pub(crate) fn failed(why: String) -> Self {
        let exit = std::future::ready(Err(why)).boxed();
        Self { stdin: None, output: futures::stream::empty().boxed(), resize: None, exit }
    }

    /// Ends a command when its container has ended, as if it was killed with it.
    pub(crate) fn ending_with(self, container_ended: CancellationToken) -> Self {
        let Self { exit, .. } = self;
        let exit = async move {
            tokio::select! {
                biased;
                code = exit => code,
                () = container_ended.cancelled() => Ok(KILLED),
            }
        };
        Self { exit: exit.boxed(), ..self }
    }
}

/// The input of a command or a container.
pub(crate) enum Stdin {
    Pipe(ChildStdin),
    Terminal(Terminal),
    Docker {
        input: Pin<Box<dyn AsyncWrite + Send>>,
        /// Whether the input ends with the client.
        is_once: bool,
    },
    /// The input of a container, which further clients may be connected to.
    Shared {
        stdin: SharedStdin,
        /// Whether it is closed when the first client disconnects.
        is_once: bool,
    },
}

/// The input of a process that is not closed when a client disconnects; empty once it is closed.
pub(crate) type SharedStdin = Arc<Mutex<Option<Box<Stdin>>>>;

impl Stdin {
    /// Writes some input, and waits until it was taken.
    pub(crate) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Pipe(pipe) => pipe.write_all(bytes).await,
            Self::Terminal(terminal) => terminal.write_all(bytes).await,
            Self::Docker { input, .. } => {
                input.write_all(bytes).await?;
                input.flush().await
            }
            Self::Shared { stdin, .. } => match &mut *stdin.lock().await {
                Some(stdin) => Box::pin(stdin.write_all(bytes)).await,
                None => Err(io::ErrorKind::BrokenPipe.into()),
            },
        }
    }

    /// Ends the input. That of a container remains open for other clients, unless it is for one client only.
    pub(crate) async fn close(self) {
        match self {
            Self::Pipe(pipe) => drop(pipe),
            Self::Terminal(terminal) => drop(terminal.write_all(&[END_OF_INPUT]).await),
            Self::Docker { mut input, is_once } => {
                // Docker closes the output together with an input that stays open for other clients.
                if is_once {
                    let _ = input.shutdown().await;
                }
            }
            Self::Shared { stdin, is_once } => {
                if is_once && let Some(stdin) = stdin.lock().await.take() {
                    Box::pin(stdin.close()).await;
                }
            }
        }
    }
}

/// Changes the size of a terminal.
pub(crate) type Resizer =
    Box<dyn Fn(TerminalSize) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Changes the size of a terminal of this machine.
pub(crate) fn resize_terminal(terminal: Terminal) -> Resizer {
    Box::new(move |size| {
        let resized = terminal.resize(size).map_err(|err| err.to_string());
        std::future::ready(resized).boxed()
    })
}

/// Reads a pipe to its end.
pub(crate) fn read_pipe(
    pipe: impl AsyncRead + Send + Unpin + 'static,
    kind: fn(Bytes) -> Output,
) -> impl Stream<Item = Output> + Send {
    futures::stream::unfold(pipe, move |mut pipe| async move {
        let mut chunk = BytesMut::with_capacity(CHUNK);
        match pipe.read_buf(&mut chunk).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some((kind(chunk.freeze()), pipe)),
        }
    })
}

/// Reads a terminal to its end.
pub(crate) fn read_terminal(terminal: Terminal) -> BoxStream<'static, Output> {
    futures::stream::unfold(terminal, |terminal| async move {
        let mut chunk = vec![0; CHUNK];
        match terminal.read(&mut chunk).await {
            Ok(0) | Err(_) => None,
            Ok(count) => {
                chunk.truncate(count);
                Some((Output::Stdout(chunk.into()), terminal))
            }
        }
    })
    .boxed()
}
