//! Threads that start child processes and open sockets in the networks of pods.
//!
//! Each lives as long as what it starts: the kernel kills a child when the thread that started it ends, and children and
//! sockets are in the network of their thread. One thread is in the host's network; each pod with a network of its own has
//! another, which never leaves it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::sched::{CloneFlags, unshare};
use tokio::sync::{mpsc, oneshot};

type Job = Box<dyn FnOnce() + Send>;

/// How many jobs may be queued.
const QUEUE: usize = 64;
/// The stack of a thread, in bytes: jobs are small.
const STACK: usize = 256 << 10;

/// Sends jobs to a thread, which ends when the last clone of this is dropped.
#[derive(Clone)]
pub(crate) struct Spawner {
    jobs: mpsc::Sender<Job>,
}

impl Spawner {
    /// Starts a thread in the host's network.
    pub(crate) async fn on_host() -> io::Result<Self> {
        Self::start("plimsoll-host", || Ok(())).await
    }

    /// Starts a thread in a new network, where no interface is up yet.
    pub(crate) async fn in_new_network() -> io::Result<Self> {
        Self::start("plimsoll-pod", || Ok(unshare(CloneFlags::CLONE_NEWNET)?)).await
    }

    async fn start(name: &str, enter: fn() -> io::Result<()>) -> io::Result<Self> {
        let handle = tokio::runtime::Handle::current();
        let (jobs, mut queue) = mpsc::channel::<Job>(QUEUE);
        let (ready, is_ready) = oneshot::channel();
        let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK);
        thread.spawn(move || {
            // Children and sockets are registered with the runtime that waits for them.
            let _inside = handle.enter();
            let entered = enter();
            let is_inside = entered.is_ok();
            let _ = ready.send(entered);
            while is_inside && let Some(job) = queue.blocking_recv() {
                // The children of this thread would be killed with it, so it outlives a panic. The caller of `run` gets an error.
                let _ = catch_unwind(AssertUnwindSafe(job));
            }
        })?;
        is_ready.await.map_err(|_| io::Error::other("the thread ended"))??;
        Ok(Self { jobs })
    }

    /// Runs a job on the thread.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (done, result) = oneshot::channel();
        let job: Job = Box::new(move || drop(done.send(job())));
        let ended = |_| io::Error::other("the thread that starts processes has ended");
        self.jobs.send(job).await.map_err(ended)?;
        result.await.map_err(|_| io::Error::other("starting it panicked"))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_thread_outlives_a_job_that_panics() {
        let spawner = Spawner::on_host().await.unwrap();
        let refused = spawner.run::<()>(|| panic!("on purpose")).await.unwrap_err();
        assert_eq!(refused.to_string(), "starting it panicked");
        let done_by = spawner.run(|| Ok(std::thread::current().name().map(str::to_owned))).await;
        assert_eq!(done_by.unwrap().as_deref(), Some("plimsoll-host"));
    }
}
