//! One connection to a port of a pod.

use std::io;
use std::sync::Weak;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::spdy;
use crate::pod::PodRun;

/// How much is read from the pod at once, in bytes.
const CHUNK: usize = 32 << 10;

/// A connection whose two streams are open.
pub(super) struct Connection {
    pub(super) pod: Weak<PodRun>,
    pub(super) port: u16,
    pub(super) data_stream: u32,
    pub(super) error_stream: u32,
    /// Frames to the client.
    pub(super) frames: mpsc::Sender<Bytes>,
}

impl Connection {
    /// Carries the connection until the pod has closed it or the client has aborted it, and returns the ID of its data stream.
    pub(super) async fn carry(self, input: mpsc::Receiver<Bytes>, reset: CancellationToken) -> u32 {
        let carried = tokio::select! {
            carried = self.carry_data(input) => carried,
            () = reset.cancelled() => Ok(()),
        };
        // The client waits for the end of both streams.
        if !reset.is_cancelled() {
            self.send(spdy::data(self.data_stream, &[], true)).await;
        }
        let error = carried
            .err()
            .map(|why| format!("error forwarding port {} to the pod: {why}", self.port));
        let error = error.unwrap_or_default();
        self.send(spdy::data(self.error_stream, error.as_bytes(), true)).await;
        self.data_stream
    }

    /// An error means that the client has disconnected, and this task is ended as well.
    async fn send(&self, frame: Bytes) {
        let _ = self.frames.send(frame).await;
    }

    async fn carry_data(&self, input: mpsc::Receiver<Bytes>) -> io::Result<()> {
        let (from_pod, to_pod) = self.connect().await?.into_split();
        let mut writing = std::pin::pin!(write(input, to_pod));
        let mut reading = std::pin::pin!(self.read(from_pod));
        tokio::select! {
            read = &mut reading => read,
            // The pod may still send what it has to after it has got everything, and after it refuses to get more.
            _ = &mut writing => reading.await,
        }
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let gone = || io::Error::other("the pod has ended");
        // The network of the pod is freed when the pod ends, so it is held no longer than this takes.
        let pod = self.pod.upgrade().ok_or_else(gone)?;
        let stream = pod.network.connect_tcp(self.port).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    async fn read(&self, mut from_pod: OwnedReadHalf) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        loop {
            match from_pod.read(&mut chunk).await? {
                0 => return Ok(()),
                count => self.send(spdy::data(self.data_stream, &chunk[..count], false)).await,
            }
        }
    }
}

async fn write(mut input: mpsc::Receiver<Bytes>, mut to_pod: OwnedWriteHalf) -> io::Result<()> {
    while let Some(data) = input.recv().await {
        to_pod.write_all(&data).await?;
    }
    to_pod.shutdown().await
}
