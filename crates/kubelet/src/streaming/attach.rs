//! Connects a client to the process of a container.

use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::broadcast::error::RecvError;

use super::StreamRefused;
use super::request::StreamIo;
use crate::running::RunningContainer;
use crate::streams::{Output, Stdin, Streams, resize_terminal};

/// Connects to the output of a container from now on, and to its input if it has one.
pub(super) async fn attach(
    running: &RunningContainer,
    io: StreamIo,
) -> Result<Streams, StreamRefused> {
    let container = &running.target.container;
    let has_stdin = io.stdin && running.has_stdin();
    let is_once = container.stdin_once == Some(true);
    if let Some(docker) = &running.target.docker {
        let has_terminal = container.tty == Some(true);
        let attached = docker.attach(has_stdin, has_terminal, is_once).await;
        return attached.map_err(|why| StreamRefused::new(500, why));
    }
    let ended = || {
        let why = format!("container {:?} is not running", container.name);
        StreamRefused::new(400, why)
    };
    let live = running.log.as_ref().and_then(|log| log.attach()).ok_or_else(ended)?;
    let output = futures::stream::unfold(live, |mut live| async move {
        match live.recv().await {
            Ok(output) => Some((output, live)),
            Err(RecvError::Lagged(_)) => {
                let note = "(some output was skipped: it was not read in time)\r\n";
                Some((Output::Stderr(note.into()), live))
            }
            Err(RecvError::Closed) => None,
        }
    });
    let stdin = running.stdin.clone().filter(|_| has_stdin);
    let stdin = stdin.map(|stdin| Stdin::Shared { stdin, is_once });
    let exit = running.ended.clone().cancelled_owned().map(|()| Ok(0));
    let resize = running.terminal.clone().map(resize_terminal);
    Ok(Streams { stdin, output: output.boxed(), resize, exit: exit.boxed() })
}
