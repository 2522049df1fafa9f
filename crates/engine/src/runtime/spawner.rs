//! Where do child processes, and sockets in other networks, come from?
//!
//! From one thread that lives as long as the process: a child's death signal is sent when the thread that started it
//! ends, and the network that a thread is in is that of the sockets and children it makes.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::sync::{mpsc, oneshot};

/// A network namespace, there as long as someone holds it.
pub(super) type Namespace = Arc<OwnedFd>;

type Job = Box<dyn FnOnce() + Send>;

/// How many jobs may wait.
const QUEUE: usize = 256;

/// The way to the thread.
#[derive(Clone)]
pub(super) struct Spawner {
    jobs: mpsc::Sender<(Option<Namespace>, Job)>,
}

impl Spawner {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Self> {
        let home = std::fs::File::open("/proc/thread-self/ns/net").ok().map(OwnedFd::from);
        let handle = tokio::runtime::Handle::current();
        let (jobs, queue) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new().name("plimsoll-spawner".to_owned());
        thread.spawn(move || run(&handle, home.as_ref(), queue))?;
        Ok(Self { jobs })
    }

    /// Does something on the thread, in a network or in the host's.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        namespace: Option<&Namespace>,
        job: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (done, result) = oneshot::channel();
        let job: Job = Box::new(move || drop(done.send(job())));
        let ended = || io::Error::other("the thread that starts processes has ended");
        self.jobs.send((namespace.cloned(), job)).await.map_err(|_| ended())?;
        result.await.map_err(|_| io::Error::other("could not enter the network of the pod"))?
    }
}

fn run(
    handle: &tokio::runtime::Handle,
    home: Option<&OwnedFd>,
    mut queue: mpsc::Receiver<(Option<Namespace>, Job)>,
) {
    // Children and sockets are registered with the runtime that waits for them.
    let _inside = handle.enter();
    while let Some((namespace, job)) = queue.blocking_recv() {
        let Some(namespace) = namespace else {
            job();
            continue;
        };
        let network = Some(LinkNameSpaceType::Network);
        // A job that is dropped tells who waits for it.
        if move_into_link_name_space(namespace.as_fd(), network).is_err() {
            continue;
        }
        job();
        let back =
            home.is_some_and(|home| move_into_link_name_space(home.as_fd(), network).is_ok());
        if !back {
            // Whatever is started from here on would be in the wrong network.
            tracing::error!("the thread that starts processes cannot return to the host's network");
            return;
        }
    }
}
