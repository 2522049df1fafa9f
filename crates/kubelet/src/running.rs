//! The containers that run, for clients that connect to them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::exec::Target;
use crate::logs::Log;
use crate::streams::SharedStdin;
use crate::terminal::Terminal;

/// One run of a container.
pub(crate) struct RunningContainer {
    pub(crate) target: Target,
    /// Whether it is a program in this process, which nothing can be executed in.
    pub(crate) is_program: bool,
    /// The input of a process, if it has one.
    pub(crate) stdin: Option<SharedStdin>,
    /// The terminal of a process, if it has one.
    pub(crate) terminal: Option<Terminal>,
    pub(crate) log: Option<Arc<Log>>,
    /// Cancelled when the run has ended.
    pub(crate) ended: CancellationToken,
}

impl RunningContainer {
    /// Whether clients can write to its input.
    pub(crate) fn has_stdin(&self) -> bool {
        let is_docker = self.target.docker.is_some();
        self.stdin.is_some() || is_docker && self.target.container.stdin == Some(true)
    }
}

type ContainerKey = (Arc<str>, String);

/// The running containers, by the UID of their pod and their name.
#[derive(Default)]
pub(crate) struct RunningContainers(Mutex<BTreeMap<ContainerKey, Arc<RunningContainer>>>);

impl RunningContainers {
    fn all(&self) -> MutexGuard<'_, BTreeMap<ContainerKey, Arc<RunningContainer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a container until the returned guard is dropped.
    pub(crate) fn insert(self: &Arc<Self>, container: RunningContainer) -> RunningGuard {
        let uid = Arc::clone(&container.target.pod.object.entry.uid);
        let key = (uid, container.target.container.name.clone());
        let ended = container.ended.clone();
        self.all().insert(key.clone(), Arc::new(container));
        RunningGuard { all: Arc::clone(self), key, ended }
    }

    /// Finds a container of a pod.
    pub(crate) fn find(&self, uid: &Arc<str>, container: &str) -> Option<Arc<RunningContainer>> {
        self.all().get(&(Arc::clone(uid), container.to_owned())).cloned()
    }

    /// Finds any container of a pod.
    pub(crate) fn any_of(&self, uid: &Arc<str>) -> Option<Arc<RunningContainer>> {
        let all = self.all();
        let mut after = all.range((Arc::clone(uid), String::new())..);
        after.next().filter(|((of, _), _)| of == uid).map(|(_, found)| Arc::clone(found))
    }
}

/// Removes a container from the running ones when it is dropped, and ends what clients do in it.
pub(crate) struct RunningGuard {
    all: Arc<RunningContainers>,
    key: ContainerKey,
    ended: CancellationToken,
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.all.all().remove(&self.key);
        self.ended.cancel();
    }
}
