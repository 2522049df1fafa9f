//! `/exec`, `/attach` and `/portForward`: connections of clients to containers, over websockets.
//!
//! A request is checked first; its answer is `101 Switching Protocols`, or a refusal. The session then runs in a task of its
//! own until one of its ends is gone: the client, the command, the container, or the kubelet.

mod attach;
mod channels;
mod idle;
mod port_forward;
mod request;
mod spdy;
mod websocket;

use std::sync::Arc;
use std::time::Duration;

use cluster::Key;
use http::{Request, Response};
use hyper::upgrade::OnUpgrade;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::machine::Machine;
use crate::pods::{PodEntry, PodIndex};
use crate::running::{RunningContainer, RunningContainers};
use crate::status::containers;
use crate::streams::Streams;
use channels::Channels;
use idle::Idle;
use request::{StreamKind, StreamRequest};
use websocket::Handshake;

/// How many sessions there are at the same time.
const SESSIONS: usize = 256;
/// How long a session may carry no data, as with Kubernetes' kubelet.
const IDLE_FOR: Duration = Duration::from_secs(4 * 60 * 60);
/// How long a client may take to switch to the protocol of its session.
const UPGRADE_WITHIN: Duration = Duration::from_secs(30);

/// Why a session was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StreamRefused {
    /// The HTTP status code.
    pub code: u16,
    /// The error message.
    pub message: String,
}

impl StreamRefused {
    fn new(code: u16, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// Connects clients to the containers of a kubelet.
#[derive(Clone)]
pub struct Streaming {
    running: Arc<RunningContainers>,
    pods: Arc<PodIndex>,
    /// Cancelled when the kubelet stops.
    stopping: CancellationToken,
    sessions: Arc<Semaphore>,
}

impl Streaming {
    pub(crate) fn new(machine: &Machine) -> Self {
        Self {
            running: Arc::clone(&machine.running),
            pods: Arc::clone(&machine.pods),
            stopping: machine.stopping.clone(),
            sessions: Arc::new(Semaphore::new(SESSIONS)),
        }
    }

    /// Whether a path is one of those that [`Streaming::answer`] serves.
    pub(crate) fn serves(path: &str) -> bool {
        ["/exec/", "/attach/", "/portForward/"].iter().any(|prefix| path.starts_with(prefix))
    }

    /// Opens the session that a request asks for, and returns the response after which the client switches to the protocol of
    /// the session. The connection is among the extensions of the request, where hyper puts it.
    pub async fn answer(&self, mut request: Request<()>) -> Result<Response<()>, StreamRefused> {
        let upgrade = request.extensions_mut().remove::<OnUpgrade>();
        let asked = StreamRequest::parse(request.uri())?;
        let pod = self.pods.get(&Key::new(asked.namespace.as_str(), asked.pod.as_str()));
        let pod =
            pod.ok_or_else(|| StreamRefused::new(404, format!("pod {:?} not found", asked.pod)))?;
        // The reason is returned before the protocol is chosen, so that a client does not try another one.
        let container = self.find(&pod, &asked)?;
        let permit = Arc::clone(&self.sessions).try_acquire_owned().map_err(|_| {
            let why = format!("too many sessions: {SESSIONS} are open; close one and try again");
            StreamRefused::new(429, why)
        })?;
        let handshake = Handshake::check(request.headers(), asked.kind.subprotocols())?;
        let upgrade =
            upgrade.ok_or_else(|| StreamRefused::new(400, "this connection cannot be upgraded"))?;
        let session = open(&container, asked, &handshake).await?;
        drop(container);
        let stopping = self.stopping.clone();
        let response = handshake.response();
        tokio::spawn(async move {
            let running = run(session, upgrade, stopping, permit);
            if let Err(cause) = process::catch_panic(running).await {
                tracing::error!(cause, "the task of a session panicked; the session has ended");
            }
        });
        Ok(response)
    }

    /// Finds the container that a request is about; for a port forward, any of its pod.
    fn find(
        &self,
        pod: &PodEntry,
        asked: &StreamRequest,
    ) -> Result<Arc<RunningContainer>, StreamRefused> {
        let name = asked.container.as_str();
        if asked.kind == StreamKind::PortForward {
            return self.running.any_of(&pod.uid).ok_or_else(|| not_running(pod, None));
        }
        if !containers(&pod.latest()).any(|(_, container)| container.name == name) {
            let why = format!("container {name:?} not found in pod {:?}", &*pod.key.name);
            return Err(StreamRefused::new(404, why));
        }
        let found = self.running.find(&pod.uid, name);
        let found = found.ok_or_else(|| not_running(pod, Some(name)))?;
        match asked.kind {
            StreamKind::Exec(_) if found.is_program => Err(in_process(pod, name)),
            StreamKind::Attach if asked.io.stdin && !found.has_stdin() => {
                let why = format!("container {name:?} has no input: set its `stdin` to true");
                Err(StreamRefused::new(400, why))
            }
            StreamKind::Exec(_) | StreamKind::Attach | StreamKind::PortForward => Ok(found),
        }
    }
}

/// Starts what a request asks for.
async fn open(
    container: &RunningContainer,
    asked: StreamRequest,
    handshake: &Handshake,
) -> Result<Session, StreamRefused> {
    let (io, target) = (asked.io, &container.target);
    let channels = Channels::new(io, handshake.subprotocol());
    // The output that is left when a container has ended is still sent.
    let never = CancellationToken::new();
    match asked.kind {
        StreamKind::PortForward => {
            let (pod, ended) = (Arc::downgrade(&target.pod), target.pod.ended.clone());
            Ok(Session { carried: SessionContent::Ports(pod), ended })
        }
        StreamKind::Exec(command) => {
            let started = target.start_command(command, io.stdin, io.tty).await;
            let started = started.unwrap_or_else(Streams::failed);
            let started = started.ending_with(container.ended.clone());
            Ok(Session { carried: SessionContent::Channels(started, channels), ended: never })
        }
        StreamKind::Attach => {
            let attached = attach::attach(container, io).await?;
            Ok(Session { carried: SessionContent::Channels(attached, channels), ended: never })
        }
    }
}

/// Returns why a client cannot be connected to a container, or to any container of a pod.
fn not_running(pod: &PodEntry, container: Option<&str>) -> StreamRefused {
    let latest = pod.latest();
    let name = &pod.key.name;
    let phase = latest.status.as_ref().and_then(|status| status.phase.as_deref());
    let is_simulated = phase == Some("Running") && {
        let statuses = latest.status.as_ref().and_then(|s| s.container_statuses.as_deref());
        let mut ids = statuses.unwrap_or_default().iter().filter_map(|s| s.container_id.as_deref());
        ids.any(|id| id.starts_with("simulated://"))
    };
    if is_simulated {
        return StreamRefused::new(
            400,
            format!("pod {name:?} is simulated: it has no process to connect to"),
        );
    }
    let why = match container {
        Some(container) => format!("container {container:?} in pod {name:?} is not running"),
        None => format!("pod {name:?} is not running"),
    };
    StreamRefused::new(400, why)
}

fn in_process(pod: &PodEntry, container: &str) -> StreamRefused {
    let why = format!(
        "container {container:?} in pod {:?} is a program inside Plimsoll: no command can run in it",
        pod.key.name
    );
    StreamRefused::new(400, why)
}

/// A session that was opened.
struct Session {
    carried: SessionContent,
    /// Cancelled when what the client is connected to has ended.
    ended: CancellationToken,
}

/// The content of a session.
enum SessionContent {
    /// The input and output of a command or a container.
    Channels(Streams, Channels),
    /// Connections to ports of a pod.
    Ports(std::sync::Weak<crate::pod::PodRun>),
}

/// Runs a session until one of its ends is gone.
async fn run(
    session: Session,
    upgrade: OnUpgrade,
    stopping: CancellationToken,
    _permit: OwnedSemaphorePermit,
) {
    let upgraded = match tokio::time::timeout(UPGRADE_WITHIN, upgrade).await {
        Ok(Ok(upgraded)) => upgraded,
        Ok(Err(error)) => {
            tracing::debug!(error = %process::log::chain(&error), "a client did not switch protocols");
            return;
        }
        Err(_) => return,
    };
    let socket = websocket::accept(upgraded).await;
    let idle = Idle::new(IDLE_FOR);
    let Session { carried, ended } = session;
    let carry = async {
        match carried {
            SessionContent::Channels(streams, channels) => {
                channels.carry(socket, streams, &idle).await
            }
            SessionContent::Ports(pod) => port_forward::carry(socket, pod, &idle).await,
        }
    };
    tokio::select! {
        () = carry => {}
        () = ended.cancelled() => {}
        () = stopping.cancelled() => {}
        () = idle.expired() => tracing::debug!("a session was closed: it carried no data for 4 h"),
    }
}
