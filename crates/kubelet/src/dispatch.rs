//! Follows the watches of pods and nodes, and runs a task for each pod of the kubelet's nodes.
//!
//! A node belongs to the kubelet if it is this machine, or if it is labelled as simulated.

mod nodes;
mod pods;
mod take_over;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cluster::{Key, Undecoded};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::runtime::watcher::{self, Event};
use tokio::sync::{oneshot, watch};
use tokio_util::task::TaskTracker;

use crate::machine::Machine;
use crate::node;
use crate::pod_task::{DesiredState, set_desired};

type Watch<K> = BoxStream<'static, Event<Undecoded<K>>>;

/// Runs the pods of the kubelet's nodes.
pub(crate) struct Dispatcher {
    machine: Arc<Machine>,
    /// The simulated nodes.
    simulated: BTreeSet<String>,
    /// The pods that have a task, by uid.
    running: BTreeMap<Arc<str>, RunningPod>,
    /// Pods on other nodes, which may be labelled as simulated later.
    elsewhere: BTreeMap<Key, Arc<Pod>>,
    /// The pods of the list in progress.
    listed: Vec<Undecoded<Pod>>,
    /// The nodes of the list in progress.
    listed_nodes: BTreeSet<String>,
    /// Signalled once the pods of the first list are taken over.
    ready: Option<oneshot::Sender<()>>,
    tasks: TaskTracker,
}

struct RunningPod {
    key: Key,
    node: String,
    desired: watch::Sender<DesiredState>,
}

/// Waits until the kubelet is to stop, and returns the grace period of its pods.
async fn stop_requested(stop: &mut watch::Receiver<Option<Duration>>) -> Duration {
    stop.wait_for(Option::is_some).await.ok().and_then(|grace| *grace).unwrap_or_default()
}

impl Dispatcher {
    /// Creates a dispatcher; `ready` is signalled once the pods of an earlier run are taken over.
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

    /// Registers the nodes and follows the watches until the kubelet stops; then stops every pod, and waits for them.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<Option<Duration>>) {
        let machine = Arc::clone(&self.machine);
        let grace = tokio::select! {
            biased;
            grace = stop_requested(&mut stop) => grace,
            never = self.follow(&machine) => match never {},
        };
        machine.stopping.cancel();
        for running in self.running.values() {
            set_desired(&running.desired, DesiredState::Left(grace));
        }
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn follow(&mut self, machine: &Arc<Machine>) -> std::convert::Infallible {
        node::register_all(machine).await;
        let (mut nodes, mut pods) = (self.watch_nodes(), self.watch_pods());
        // Whether a pod belongs to this kubelet is known once the nodes are listed.
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

    /// Whether pods of all nodes are watched.
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

    /// Whether the kubelet runs the pods of a node.
    fn is_own_node(&self, node: &str) -> bool {
        self.simulated.contains(node) || self.is_local(node)
    }
}
