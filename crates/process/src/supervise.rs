//! Supervision of long-lived tasks.
//!
//! A task that is meant to run for as long as the process does may panic, or end too early. It is logged with its name and its
//! cause; then the task is restarted after a pause, or, where that is not safe, the process is stopped.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long the first pause before a new start is; each further one in a row is twice as long, up to the second.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// How long a task runs after a new start until it counts as well again.
const STEADY_AFTER: Duration = Duration::from_secs(10);

/// A task that ended and is not restarted.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{task} ended unexpectedly: {cause}")]
pub struct TaskEnded {
    /// The name of the task.
    pub task: String,
    /// Why it ended.
    pub cause: String,
}

/// Watches over tasks that should run for as long as the process does. Every clone watches over the same ones.
#[derive(Clone)]
pub struct Supervisor {
    shared: Arc<Shared>,
}

struct Shared {
    tasks: Mutex<Tasks>,
    ended: watch::Sender<Option<TaskEnded>>,
}

#[derive(Default)]
struct Tasks {
    /// Tasks are being stopped.
    is_stopping: bool,
    last_number: u64,
    by_number: BTreeMap<u64, Task>,
}

struct Task {
    name: String,
    failures: u32,
    state: TaskState,
}

enum TaskState {
    Running { since: Instant },
    Ended { cause: String },
}

/// A task that is watched over, until this is dropped.
#[must_use = "a task ends when this is dropped"]
pub struct Supervised {
    shared: Arc<Shared>,
    number: u64,
    task: Option<tokio::task::JoinHandle<()>>,
}

impl Supervisor {
    /// Watches over nothing yet.
    pub fn new() -> Self {
        let ended = watch::Sender::new(None);
        Self { shared: Arc::new(Shared { tasks: Mutex::default(), ended }) }
    }

    /// Runs what `work` returns, and again whenever it ends. Each start has to read its state again.
    pub fn spawn<F, Fut>(&self, name: impl Into<String>, work: F) -> Supervised
    where
        F: FnMut() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let number = self.shared.add(name.into());
        let task = tokio::spawn(run(Arc::clone(&self.shared), number, work));
        Supervised { shared: Arc::clone(&self.shared), number, task: Some(task) }
    }

    /// Runs `work`. What it knows is lost when it ends, and then the process has to end.
    pub fn spawn_critical(
        &self,
        name: impl Into<String>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Supervised {
        let number = self.shared.add(name.into());
        let shared = Arc::clone(&self.shared);
        let task = tokio::spawn(async move {
            let cause = outcome(work).await;
            shared.end(number, &cause);
        });
        Supervised { shared: Arc::clone(&self.shared), number, task: Some(task) }
    }

    /// Runs what `work` returns until it once ends without a panic.
    pub async fn complete<F, Fut>(&self, name: impl Into<String>, mut work: F)
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = ()>,
    {
        let number = self.shared.add(name.into());
        let _added = Supervised { shared: Arc::clone(&self.shared), number, task: None };
        // Also the making of the future may panic.
        while let Err(cause) = catch_panic(async { work().await }).await {
            let Some(pause) = self.shared.fail(number, &cause) else { return };
            tokio::time::sleep(pause).await;
            self.shared.restart(number);
        }
    }

    /// Runs `work` on a thread of its own; the process ends if it panics.
    pub fn spawn_thread(
        &self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<std::thread::JoinHandle<()>> {
        let number = self.shared.add(name.to_owned());
        let shared = Arc::clone(&self.shared);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            match std::panic::catch_unwind(AssertUnwindSafe(work)) {
                Ok(()) => shared.remove(number),
                Err(panic) => shared.end(number, &panic_text(&*panic)),
            }
        })
    }

    /// Marks the shutdown: from now on the end of a task is expected.
    pub fn stop(&self) {
        self.shared.tasks().is_stopping = true;
    }

    /// Returns the problems: tasks that are not running, or that were restarted a moment ago.
    pub fn problems(&self) -> Vec<String> {
        let tasks = self.shared.tasks();
        tasks.by_number.values().filter_map(Task::problem).collect()
    }

    /// Waits until a task ends that is not restarted.
    pub async fn ended(&self) -> TaskEnded {
        let mut ended = self.shared.ended.subscribe();
        loop {
            if let Some(ended) = ended.borrow_and_update().clone() {
                return ended;
            }
            // The sender is in `self`.
            let _ = ended.changed().await;
        }
    }
}

impl Default for Supervisor {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks = self.shared.tasks();
        f.debug_list().entries(tasks.by_number.values().map(|task| &task.name)).finish()
    }
}

async fn run<F, Fut>(shared: Arc<Shared>, number: u64, mut work: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = ()>,
{
    loop {
        // Also the making of the future may panic.
        let cause = outcome(async { work().await }).await;
        let Some(pause) = shared.fail(number, &cause) else { return };
        tokio::time::sleep(pause).await;
        shared.restart(number);
    }
}

/// Runs a task, and returns why it ended.
async fn outcome(work: impl Future<Output = ()>) -> String {
    match catch_panic(work).await {
        Ok(()) => "it returned".to_owned(),
        Err(cause) => cause,
    }
}

/// Runs `work`, and returns the message of a panic in it. Whatever `work` shares with others has to bear that it breaks off anywhere.
pub async fn catch_panic<T>(work: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| panic_text(&*panic))
}

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.map_or_else(|| "it panicked".to_owned(), |text| format!("it panicked: {text}"))
}

impl Shared {
    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, name: String) -> u64 {
        let mut tasks = self.tasks();
        tasks.last_number += 1;
        let number = tasks.last_number;
        let state = TaskState::Running { since: Instant::now() };
        tasks.by_number.insert(number, Task { name, failures: 0, state });
        number
    }

    fn remove(&self, number: u64) {
        self.tasks().by_number.remove(&number);
    }

    /// Records that a task ended for good.
    fn end(&self, number: u64, cause: &str) {
        let mut tasks = self.tasks();
        let Some(task) = tasks.unexpected(number) else { return };
        let ended = TaskEnded { task: task.name.clone(), cause: cause.to_owned() };
        task.state = TaskState::Ended { cause: cause.to_owned() };
        drop(tasks);
        tracing::error!(task = ended.task, cause, "a task ended that the process needs");
        self.ended.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(ended);
            is_first
        });
    }

    /// Records that a task ended, and returns the delay before its restart; `None` during shutdown.
    fn fail(&self, number: u64, cause: &str) -> Option<Duration> {
        let mut tasks = self.tasks();
        let task = tasks.unexpected(number)?;
        if let TaskState::Running { since } = task.state
            && since.elapsed() >= PAUSE.1
        {
            task.failures = 0;
        }
        let pause = PAUSE.0.saturating_mul(1 << task.failures.min(16)).min(PAUSE.1);
        task.failures = task.failures.saturating_add(1);
        task.state = TaskState::Ended { cause: cause.to_owned() };
        tracing::error!(
            task = task.name,
            cause,
            restart_after_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
            "a task ended unexpectedly; it is started again"
        );
        Some(pause)
    }

    fn restart(&self, number: u64) {
        if let Some(task) = self.tasks().by_number.get_mut(&number) {
            task.state = TaskState::Running { since: Instant::now() };
        }
    }
}

impl Tasks {
    /// Returns a task that ended unexpectedly.
    fn unexpected(&mut self, number: u64) -> Option<&mut Task> {
        if self.is_stopping {
            self.by_number.remove(&number);
        }
        self.by_number.get_mut(&number)
    }
}

impl Task {
    fn problem(&self) -> Option<String> {
        match &self.state {
            TaskState::Ended { cause } => {
                Some(format!("{} ended unexpectedly: {cause}", self.name))
            }
            TaskState::Running { since } if self.failures > 0 && since.elapsed() < STEADY_AFTER => {
                Some(format!("{} was started again a moment ago", self.name))
            }
            TaskState::Running { .. } => None,
        }
    }
}

impl Supervised {
    /// Ends the task, and waits until it has ended.
    pub async fn stop(mut self) {
        if let Some(task) = self.release() {
            task.abort();
            let _ = task.await;
        }
    }

    /// Waits until the task has ended, after its own stop signal.
    pub async fn finished(mut self) {
        if let Some(task) = self.release() {
            // A panic while it stops was logged, and the task is not needed any more.
            let _ = task.await;
        }
    }

    /// Stops supervising the task, which has a stop signal of its own.
    pub fn detach(mut self) {
        self.release();
    }

    fn release(&mut self) -> Option<tokio::task::JoinHandle<()>> {
        self.shared.remove(self.number);
        self.task.take()
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        if let Some(task) = self.release() {
            task.abort();
        }
    }
}

impl fmt::Debug for Supervised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervised").field("number", &self.number).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
