//! Gives every pod of our nodes a task of its own, and tells it when the pod is deleted.
//!
//! One task follows the watches of pods and nodes. A node is ours if it is this machine, or if it is labelled as simulated.

mod nodes;
mod take_over;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cluster::{Key, Undecoded};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource as _};
use tokio::sync::{oneshot, watch};
use tokio_util::task::TaskTracker;

use crate::kubelet::Machine;
use crate::node;
use crate::simulate;

pub(crate) use tasks::{DesiredState, Task};

type Watch<K> = BoxStream<'static, Event<Undecoded<K>>>;

/// Runs the pods of our nodes.
pub(crate) struct Dispatcher {
    machine: Arc<Machine>,
    /// The simulated nodes.
    simulated: BTreeSet<String>,
    /// The pods that have a task, by uid.
    running: BTreeMap<Arc<str>, RunningPod>,
    /// Pods that are bound to a node that is not ours, and may become ours.
    elsewhere: BTreeMap<Key, Arc<Pod>>,
    /// The pods of the present initial list.
    listed: Vec<Undecoded<Pod>>,
    /// The nodes of the present initial list.
    listed_nodes: BTreeSet<String>,
    /// Told once the pods of the first list are taken over.
    ready: Option<oneshot::Sender<()>>,
    tasks: TaskTracker,
}

struct RunningPod {
    key: Key,
    node: String,
    desired: watch::Sender<DesiredState>,
}

/// Waits until the kubelet is to stop, and returns how long pods may take.
pub(crate) async fn stop_requested(stop: &mut watch::Receiver<Option<Duration>>) -> Duration {
    stop.wait_for(Option::is_some).await.ok().and_then(|grace| *grace).unwrap_or_default()
}

impl Dispatcher {
    /// Creates a dispatcher; `ready` is told once the pods of an earlier run are taken over.
    pub(crate) fn new(machine: &Arc<Machine>, ready: oneshot::Sender<()>) -> Self {
        Self {
            machine: Arc::clone(machine),
            simulated: BTreeSet::new(),
            running: BTreeMap::new(),
            elsewhere: BTreeMap::new(),
            listed: Vec::new(),
            listed_nodes: BTreeSet::new(),
            ready: Some(ready),
            tasks: TaskTracker::new(),
        }
    }

    /// Registers our nodes and follows the watches until it is told to stop; then ends every pod, and waits for them.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<Option<Duration>>) {
        let machine = Arc::clone(&self.machine);
        let grace = tokio::select! {
            biased;
            grace = stop_requested(&mut stop) => grace,
            never = self.follow(&machine) => match never {},
        };
        machine.stopping.cancel();
        for running in self.running.values() {
            tasks::set(&running.desired, DesiredState::Left(grace));
        }
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn follow(&mut self, machine: &Arc<Machine>) -> std::convert::Infallible {
        node::register_all(machine).await;
        let (mut nodes, mut pods) = (self.watch_nodes(), self.watch_pods());
        // Which pods are ours is known once the nodes are.
        let mut knows_nodes = false;
        let mut heartbeat = tokio::time::interval(node::HEARTBEAT);
        heartbeat.reset();
        loop {
            tokio::select! {
                biased;
                Some(event) = nodes.next() => {
                    knows_nodes |= matches!(event, Event::InitDone);
                    self.node_event(event);
                }
                Some(event) = pods.next(), if knows_nodes => self.pod_event(event),
                _ = heartbeat.tick(), if machine.local.is_some() => self.register_local(),
            }
        }
    }

    /// Whether pods of any node may be ours.
    fn watches_all(&self) -> bool {
        self.machine.watches_all
    }

    fn watch_nodes(&self) -> Watch<Node> {
        let mut config = watcher::Config::default();
        if let (Some(local), false) = (&self.machine.local, self.watches_all()) {
            config = config.fields(&format!("metadata.name={}", local.node));
        }
        let context = &self.machine.context;
        cluster::watch(Api::all(context.client.clone()), config, context.random.clone()).boxed()
    }

    fn watch_pods(&self) -> Watch<Pod> {
        let mut config = watcher::Config::default();
        if let (Some(local), false) = (&self.machine.local, self.watches_all()) {
            config = config.fields(&format!("spec.nodeName={}", local.node));
        }
        let context = &self.machine.context;
        cluster::watch(Api::all(context.client.clone()), config, context.random.clone()).boxed()
    }

    fn is_local(&self, node: &str) -> bool {
        self.machine.local.as_ref().is_some_and(|local| local.node == node)
    }

    fn is_ours(&self, node: &str) -> bool {
        self.simulated.contains(node) || self.is_local(node)
    }

    fn pod_event(&mut self, event: Event<Undecoded<Pod>>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(pod) => self.listed.push(pod),
            Event::InitDone => self.pods_listed(),
            Event::Apply(pod) => {
                if let Some(pod) = pod.decode() {
                    self.pod(Arc::new(pod));
                }
            }
            Event::Delete(pod) => {
                let meta = pod.meta();
                let key = Key::from_meta(meta);
                self.pod_gone(&key, meta.uid.as_deref().unwrap_or_default());
            }
        }
    }

    /// Notes the pods of a complete list: those that are not in it are gone.
    fn pods_listed(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        let uids: BTreeSet<String> =
            listed.iter().filter_map(|pod| pod.meta().uid.clone()).collect();
        let gone = self.running.iter().filter(|(uid, _)| !uids.contains(&***uid));
        let gone: Vec<_> = gone.map(|(uid, running)| (running.key.clone(), uid.clone())).collect();
        gone.iter().for_each(|(key, uid)| self.pod_gone(key, uid));
        self.machine.pods.retain(|uid| uids.contains(uid));
        self.elsewhere.retain(|_, pod| pod.metadata.uid.as_ref().is_some_and(|u| uids.contains(u)));
        let pods = listed.into_iter().filter_map(|pod| pod.decode()).map(Arc::new);
        match self.ready.take() {
            Some(ready) => self.take_over(pods.collect(), ready),
            None => pods.for_each(|pod| self.pod(pod)),
        }
    }

    /// Notes a version of a pod.
    fn pod(&mut self, pod: Arc<Pod>) {
        let key = Key::from_meta(&pod.metadata);
        let node = node_name(&pod).to_owned();
        if node.is_empty() || !self.is_ours(&node) {
            if self.watches_all() && !node.is_empty() {
                self.elsewhere.insert(key, pod);
            }
            return;
        }
        let entry = self.machine.pods.insert(Arc::clone(&pod));
        let deleted = deletion(&pod);
        if let Some(running) = self.running.get(&entry.uid) {
            if let Some(grace) = deleted {
                tasks::set(&running.desired, DesiredState::Deleted(grace));
            }
            return;
        }
        if has_ended(&pod) {
            // One that ended before this kubelet started has no task that would let it go.
            if deleted.is_some_and(|grace| !grace.is_zero()) {
                let object = self.machine.pod_client.pod(&entry);
                self.tasks.spawn(async move { object.remove().await });
            }
            return;
        }
        let desired = deleted.map_or(DesiredState::Running, DesiredState::Deleted);
        let (desired, receiver) = watch::channel(desired);
        let object = self.machine.pod_client.pod(&entry);
        let task = Task { object, pod, desired: receiver };
        let machine = Arc::clone(&self.machine);
        if self.simulated.contains(&node) {
            self.tasks.spawn(tasks::run_or_fail(machine, task, simulate::run));
        } else {
            self.tasks.spawn(tasks::run_or_fail(machine, task, crate::pod::run));
        }
        self.running.insert(Arc::clone(&entry.uid), RunningPod { key, node, desired });
    }

    fn pod_gone(&mut self, key: &Key, uid: &str) {
        self.machine.pods.remove(key, uid);
        self.elsewhere.remove(key);
        if let Some(running) = self.running.remove(uid) {
            tracing::trace!(%key, "a pod is gone");
            tasks::set(&running.desired, DesiredState::Gone);
        }
    }
}

/// Returns the node that a pod is bound to; empty: none.
fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// Returns how long a deleted pod may take to end; `None`: it is not deleted.
fn deletion(pod: &Pod) -> Option<Duration> {
    pod.metadata.deletion_timestamp.as_ref()?;
    let seconds = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
    Some(crate::deadline::seconds(seconds))
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}
