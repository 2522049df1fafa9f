//! Which pods run here, and what is wanted of each?
//!
//! One task sees every change of pods and nodes. A pod that is bound to a node of ours gets a task of its own, which is
//! told when the pod is to stop and when it is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::nodes::SIMULATED_LABEL;
use super::{LOCAL_NODE, Machine, recover, simulate};
use crate::core::Core;
use crate::rest::internal::PodRef;
use crate::store::{Change, Object};

/// How often the node of this machine says that it is there.
const HEARTBEAT: Duration = Duration::from_secs(300);

/// How many pods of an earlier run are ended at the same time.
const AT_ONCE: usize = 256;

/// What is wanted of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Run,
    /// The pod is deleted: it may take this long to end, and then its object goes.
    Stop(Duration),
    /// Its object is gone: it ends at once.
    Gone,
    /// Plimsoll stops: it may take this long to end, and its object stays as it is.
    Leave(Duration),
}

/// A pod to be run.
#[derive(Clone)]
pub(super) struct Task {
    pub(super) object: PodRef,
    pub(super) pod: Arc<Pod>,
    pub(super) wish: watch::Receiver<Wish>,
}

impl Task {
    /// Waits until something else than running is wanted.
    pub(super) async fn until_unwanted(&mut self) -> Wish {
        match self.wish.wait_for(|wish| *wish != Wish::Run).await {
            Ok(wish) => *wish,
            Err(_) => Wish::Leave(Duration::ZERO),
        }
    }
}

/// Runs what is bound to our nodes.
pub(super) struct Dispatcher {
    core: Arc<Core>,
    machine: Arc<Machine>,
    simulated: BTreeSet<Arc<str>>,
    /// By uid.
    running: BTreeMap<Box<str>, Running>,
    tasks: TaskTracker,
}

struct Running {
    key: Arc<str>,
    node: Box<str>,
    wish: watch::Sender<Wish>,
}

#[derive(Deserialize)]
struct Head {
    metadata: HeadMeta,
    #[serde(default)]
    spec: HeadSpec,
    #[serde(default)]
    status: HeadStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadMeta {
    #[serde(default)]
    uid: Box<str>,
    deletion_timestamp: Option<Box<str>>,
    #[serde(default)]
    deletion_grace_period_seconds: u64,
    #[serde(default)]
    labels: BTreeMap<Box<str>, Box<str>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HeadSpec {
    node_name: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct HeadStatus {
    phase: Box<str>,
}

/// Waits until the runtime is to stop, and gives how long pods may take.
async fn asked(stop: &mut watch::Receiver<Option<Duration>>) -> Duration {
    stop.wait_for(Option::is_some).await.ok().and_then(|grace| *grace).unwrap_or_default()
}

/// Runs a pod until it is gone. One whose task panics has failed: what it ran ended with the task.
async fn run_or_fail<Fut>(
    machine: Arc<Machine>,
    task: Task,
    run: impl FnOnce(Arc<Machine>, Task) -> Fut,
) where
    Fut: Future<Output = ()>,
{
    let (core, failed) = (Arc::clone(&machine.core), task.clone());
    let Err(cause) = process::catch_panic(run(machine, task)).await else { return };
    let (namespace, name) = (&*failed.object.namespace, &*failed.object.name);
    tracing::error!(namespace, pod = name, cause, "the task of a pod ended; the pod has failed");
    let message = format!("the task that ran the pod ended: {cause}");
    let ending = format!("end of pod {namespace}/{name}");
    core.supervisor.complete(ending, || fail(&core, failed.clone(), &message)).await;
}

/// Lets a pod fail that nothing runs any more, and removes it when it is deleted.
async fn fail(core: &Core, mut task: Task, message: &str) {
    if *task.wish.borrow() == Wish::Run {
        recover::fail(core, &task.object, "TaskPanicked", message).await;
    }
    let wish = task.until_unwanted().await;
    core.logs.forget(&task.object.uid);
    if let Wish::Stop(_) = wish {
        task.object.remove().await;
    }
}

fn tell(whom: &watch::Sender<Wish>, wish: Wish) {
    whom.send_if_modified(|now| std::mem::replace(now, wish) != wish);
}

impl Dispatcher {
    pub(super) fn new(core: &Arc<Core>, machine: &Arc<Machine>) -> Self {
        Self {
            core: Arc::clone(core),
            machine: Arc::clone(machine),
            simulated: BTreeSet::new(),
            running: BTreeMap::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Ends what an earlier run left, and starts what it did not come to.
    pub(super) async fn take_over(&mut self) {
        let (mut nodes, mut pods) = (Vec::new(), Vec::new());
        self.core
            .store
            .each_of("nodes", |key, object| nodes.push((Arc::clone(key), object.clone())));
        nodes.iter().for_each(|(key, object)| self.node(key, Some(object)));
        self.core.store.each_of("pods", |key, object| pods.push((Arc::clone(key), object.clone())));
        let mut lost = Vec::new();
        for (key, object) in pods {
            let Ok(head) = serde_json::from_slice::<Head>(&object.body()) else { continue };
            if !self.is_ours(&head.spec.node_name) {
                continue;
            }
            let is_going = head.metadata.deletion_timestamp.is_some();
            if is_going || &*head.status.phase == "Running" {
                lost.push((PodRef::new(&self.core, &key, &head.metadata.uid), is_going));
            } else {
                self.pod(&key, &object);
            }
        }
        let core = &self.core;
        let ending = lost.iter().map(|(pod, is_going)| async move {
            if *is_going { pod.remove().await } else { recover::restarted(core, pod).await }
        });
        futures::stream::iter(ending).buffer_unordered(AT_ONCE).for_each(|()| async {}).await;
    }

    /// Follows every change until it is told to stop; then ends every pod, and waits for them.
    pub(super) async fn run(
        mut self,
        mut feed: UnboundedReceiver<Arc<Change>>,
        mut stop: watch::Receiver<Option<Duration>>,
    ) {
        let mut stopping = self.core.stopping();
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        let grace = loop {
            let change = tokio::select! {
                change = feed.recv() => change,
                _ = stopping.changed() => break Duration::ZERO,
                _ = heartbeat.tick(), if self.machine.has_local => {
                    self.machine.register().await;
                    continue;
                }
                grace = asked(&mut stop) => break grace,
            };
            let Some(change) = change else { break Duration::ZERO };
            match (&*change.collection, change.deleted) {
                ("pods", false) => self.pod(&change.key, &change.object),
                ("pods", true) => self.gone(&change.object),
                ("nodes", true) if &*change.key == LOCAL_NODE => self.machine.register().await,
                ("nodes", deleted) => self.node(&change.key, (!deleted).then_some(&change.object)),
                _ => {}
            }
        };
        self.running.values().for_each(|running| tell(&running.wish, Wish::Leave(grace)));
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn is_ours(&self, node: &str) -> bool {
        self.simulated.contains(node) || (self.machine.has_local && node == LOCAL_NODE)
    }

    /// A simulated node is whatever says so. One that is gone takes its pods with it, as a machine does.
    fn node(&mut self, key: &Arc<str>, object: Option<&Object>) {
        let head = object.and_then(|o| serde_json::from_slice::<Head>(&o.body()).ok());
        if head.is_some_and(|head| {
            head.metadata.labels.get(SIMULATED_LABEL).is_some_and(|v| &**v == "true")
        }) {
            if self.simulated.insert(Arc::clone(key)) {
                self.bound_before(key);
            }
        } else if self.simulated.remove(key) {
            let on_it = self.running.values().filter(|running| *running.node == **key);
            on_it.for_each(|running| tell(&running.wish, Wish::Stop(Duration::ZERO)));
        }
    }

    /// Starts pods that were bound to a node before we saw it.
    fn bound_before(&mut self, node: &str) {
        let mut pods = Vec::new();
        self.core.store.each_of("pods", |key, object| {
            if object.mentions(node.as_bytes()) {
                pods.push((Arc::clone(key), object.clone()));
            }
        });
        pods.iter().for_each(|(key, object)| self.pod(key, object));
    }

    fn pod(&mut self, key: &Arc<str>, object: &Object) {
        let Ok(head) = serde_json::from_slice::<Head>(&object.body()) else { return };
        let is_going = head.metadata.deletion_timestamp.is_some();
        let grace = Duration::from_secs(head.metadata.deletion_grace_period_seconds);
        if let Some(running) = self.running.get(&head.metadata.uid) {
            if is_going {
                tell(&running.wish, Wish::Stop(grace));
            }
            return;
        }
        let is_over = matches!(&*head.status.phase, "Succeeded" | "Failed");
        // One whose name lives on under another uid is not there any more.
        if head.spec.node_name.is_empty() || is_over || !self.is_ours(&head.spec.node_name) {
            return;
        }
        let Ok(pod) = serde_json::from_slice::<Pod>(&object.body()) else { return };
        let (wish, wanted) = watch::channel(if is_going { Wish::Stop(grace) } else { Wish::Run });
        let object = PodRef::new(&self.core, key, &head.metadata.uid);
        let task = Task { object, pod: Arc::new(pod), wish: wanted };
        let machine = Arc::clone(&self.machine);
        if self.simulated.contains(&*head.spec.node_name) {
            self.tasks.spawn(run_or_fail(machine, task, simulate::run));
        } else {
            self.tasks.spawn(run_or_fail(machine, task, super::pod::run));
        }
        let running = Running { key: Arc::clone(key), node: head.spec.node_name, wish };
        self.running.insert(head.metadata.uid, running);
    }

    fn gone(&mut self, object: &Object) {
        let Ok(head) = serde_json::from_slice::<Head>(&object.body()) else { return };
        if let Some(running) = self.running.remove(&head.metadata.uid) {
            tracing::trace!(key = &*running.key, "a pod is gone");
            tell(&running.wish, Wish::Gone);
        }
    }
}
