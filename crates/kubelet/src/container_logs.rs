//! Reads container logs, with the options of `pods/log`.

use std::sync::Arc;

use api::PodLogOptions;
use bytes::Bytes;
use cluster::Key;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use process::Clock;
use tokio::sync::watch;

use crate::logs::{Line, Log, Logs};
use crate::pods::PodIndex;
use crate::status::containers;

/// The output of a container, as it is or as it grows.
pub type LogStream = BoxStream<'static, Bytes>;

/// Why a log cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerLogError {
    /// The kubelet has no such pod or container.
    #[error("{0}")]
    NotFound(String),
    /// The container has no such log.
    #[error("{0}")]
    NotAvailable(String),
}

/// The logs of the containers of a kubelet's pods.
#[derive(Clone)]
pub struct ContainerLogs {
    logs: Arc<Logs>,
    pods: Arc<PodIndex>,
    clock: Clock,
}

impl ContainerLogs {
    pub(crate) fn new(logs: Arc<Logs>, pods: Arc<PodIndex>, clock: Clock) -> Self {
        Self { logs, pods, clock }
    }

    /// Reads the log of a container.
    pub fn read(
        &self,
        namespace: &str,
        name: &str,
        container: &str,
        options: &PodLogOptions,
    ) -> Result<LogStream, ContainerLogError> {
        let Some(pod) = self.pods.get(&Key::new(namespace, name)) else {
            return Err(ContainerLogError::NotFound(format!("pod {name:?} not found")));
        };
        match self.logs.find(&pod.uid, container, options.previous) {
            Some(log) => Ok(self.stream(log, options)),
            None => unavailable(&pod.latest(), name, container, options.previous),
        }
    }

    fn stream(&self, log: Arc<Log>, options: &PodLogOptions) -> LogStream {
        let ago = options.since_seconds.map(SignedDuration::from_secs);
        let ago = ago.and_then(|ago| self.clock.now().checked_sub(ago).ok());
        let reader = LogReader {
            grown: log.grown(),
            log,
            next: 0,
            follow: options.follow,
            timestamps: options.timestamps,
            since: ago.or(options.since_time),
            tail: options.tail_lines,
            bytes_left: options.limit_bytes.unwrap_or(usize::MAX),
            is_over: false,
        };
        let chunks = futures::stream::unfold(reader, |mut reader| async {
            let chunk = reader.next().await?;
            Some((chunk, reader))
        });
        chunks.fuse().boxed()
    }
}

/// Returns why a container has no log. A container that ended before this kubelet started has an empty one.
fn unavailable(
    pod: &Pod,
    name: &str,
    container: &str,
    previous: bool,
) -> Result<LogStream, ContainerLogError> {
    if !containers(pod).any(|(_, c)| c.name == container) {
        let why = format!("container {container:?} not found in pod {name:?}");
        return Err(ContainerLogError::NotFound(why));
    }
    if previous {
        let why = format!("previous terminated container {container:?} in pod {name:?} not found");
        return Err(ContainerLogError::NotAvailable(why));
    }
    let status = container_status(pod, container);
    let state = status.and_then(|status| status.state.as_ref());
    if state.is_some_and(|state| state.terminated.is_some()) {
        return Ok(futures::stream::empty().boxed());
    }
    let waiting = state.and_then(|state| state.waiting.as_ref()?.reason.as_deref());
    let reason = waiting.unwrap_or("ContainerCreating");
    let why = format!("container {container:?} in pod {name:?} is waiting to start: {reason}");
    Err(ContainerLogError::NotAvailable(why))
}

fn container_status<'p>(pod: &'p Pod, container: &str) -> Option<&'p ContainerStatus> {
    let status = pod.status.as_ref()?;
    let init = status.init_container_statuses.iter().flatten();
    let main = status.container_statuses.iter().flatten();
    main.chain(init).find(|status| status.name == container)
}

/// A position in a log, and what is to be read from there.
struct LogReader {
    log: Arc<Log>,
    grown: watch::Receiver<()>,
    next: u64,
    follow: bool,
    timestamps: bool,
    since: Option<Timestamp>,
    /// How many of the existing lines are read.
    tail: Option<usize>,
    /// How many bytes may still be returned.
    bytes_left: usize,
    is_over: bool,
}

impl LogReader {
    /// Returns the output that was not returned yet, and waits for more when following.
    async fn next(&mut self) -> Option<Bytes> {
        while !self.is_over && self.bytes_left > 0 {
            self.grown.borrow_and_update();
            let (lines, next, is_complete) = self.log.read(self.next);
            self.next = next;
            self.is_over = is_complete || !self.follow;
            let skip = self.tail.take().map_or(0, |tail| lines.len().saturating_sub(tail));
            let mut out = Vec::new();
            lines[skip..].iter().for_each(|line| self.append(line, &mut out));
            out.truncate(self.bytes_left);
            self.bytes_left -= out.len();
            if !out.is_empty() {
                return Some(out.into());
            }
            if !self.is_over {
                self.grown.changed().await.ok()?;
            }
        }
        None
    }

    fn append(&self, line: &Line, out: &mut Vec<u8>) {
        if self.since.is_some_and(|since| line.at < since) {
            return;
        }
        if self.timestamps {
            out.extend_from_slice(format!("{:.9} ", line.at).as_bytes());
        }
        out.extend_from_slice(&line.text);
    }
}
