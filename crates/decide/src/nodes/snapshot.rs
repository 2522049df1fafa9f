//! A cluster in a compact form that answers quickly whether a pod fits on a node, and reverts simulated changes cheaply.
//!
//! Pods are grouped into classes with equal scheduling constraints, nodes into shapes that those constraints cannot distinguish.
//! Affinity and spread are counted per topology domain whenever a pod is added or removed, so that a check costs as much as the
//! pod has terms, however many pods there are. Every change is logged and undone by its inverse.

mod classes;
mod counters;
mod filters;
mod hash;
mod index;
mod matchers;
mod ports;
mod predicates;
mod terms;
mod topology;
mod undo;
mod volumes;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Cluster, HOSTNAME_LABEL, Node, Pod, Refusal, Scheduling};

use classes::Classes;
use filters::Filters;
use hash::{Distinct, hash};
use index::{Index, Room};
use ports::Ports;
pub(super) use predicates::Check;
use terms::Counters;
pub(super) use terms::{Anti, SpreadRule};
pub(super) use topology::NO_DOMAIN;
use topology::Topologies;
pub use undo::Mark;
use undo::Op;
use volumes::Volumes;

/// A pod, by its index in [`Cluster::pods`].
pub type PodId = usize;
/// A node: first those of the cluster, sorted by name, then added ones. [`Snapshot::node`] finds it.
pub type NodeId = usize;
/// A class of pods with equal specs.
pub(super) type ClassId = usize;

/// A cluster, ready for simulation.
pub struct Snapshot<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) classes: Classes,
    filters: Filters,
    pub(super) topologies: Topologies,
    pub(super) counters: Counters,
    ports: Ports,
    volumes: Volumes,
    nodes: Vec<NodeState<'a>>,
    /// The free amount of each resource, `classes.width()` numbers per node.
    free: Vec<i64>,
    /// The nodes of the cluster by name, and added ones.
    given: Distinct,
    made: BTreeMap<Box<str>, NodeId>,
    index: Index,
    pods_on: Vec<Vec<PodId>>,
    /// The current node of each pod.
    node_of: Vec<Option<NodeId>>,
    log: Vec<Op>,
}

/// The mutable state of a node, and its source.
struct NodeState<'a> {
    source: NodeSource<'a>,
    shape: usize,
    /// Whether it is in the cluster; a removed node keeps its id.
    is_there: bool,
    /// Closed to new pods, though its domains still exist.
    is_closed: bool,
    /// How many more pods it takes.
    slots: i64,
    ports: Vec<u32>,
    /// Attached volumes and how many pods use each.
    volumes: Vec<(u32, u32)>,
}

/// The source of a node's spec.
#[derive(Clone)]
enum NodeSource<'a> {
    Existing(&'a Node),
    /// A copy of a template with its own name.
    Template(Arc<Node>, Box<str>),
}

impl NodeSource<'_> {
    fn node(&self) -> &Node {
        match self {
            Self::Existing(node) => node,
            Self::Template(node, _) => node,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Existing(node) => &node.name,
            Self::Template(_, name) => name,
        }
    }

    /// Returns a label's value; a node from a template has its own hostname.
    fn label(&self, key: &str) -> Option<&str> {
        match self {
            Self::Template(_, name) if key == HOSTNAME_LABEL => Some(name),
            Self::Existing(_) | Self::Template(..) => self.node().labels.get(key),
        }
    }
}

impl<'a> Snapshot<'a> {
    /// Creates a snapshot of all nodes and of all pods that use resources on them.
    ///
    /// Pods for which `is_there` returns false (such as expendable ones) are left out; nominated pods count on their node.
    pub fn new(cluster: &'a Cluster, is_there: impl Fn(&Pod) -> bool) -> Self {
        let mut all = Self::empty(cluster);
        // Sorted by name, so that the result does not depend on the input order.
        let mut nodes: Vec<&Node> = cluster.nodes.iter().collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        for node in nodes {
            all.append(NodeSource::Existing(node));
        }
        for (id, pod) in cluster.pods.iter().enumerate() {
            let name = match &pod.scheduling {
                Scheduling::On(name) | Scheduling::Nominated(name) => name,
                Scheduling::Unschedulable | Scheduling::Unprocessed | Scheduling::Other => continue,
            };
            let node = all.given(name);
            let Some(node) = node.filter(|_| !pod.drain.is_finished && is_there(pod)) else {
                continue;
            };
            all.put(all.classes.of_pod(id), node);
            all.pods_on[node].push(id);
            all.node_of[id] = Some(node);
        }
        let mut index = Index::default();
        index.rebuild(all.nodes.len(), |node| all.room(node));
        all.index = index;
        all
    }

    fn empty(cluster: &'a Cluster) -> Self {
        let mut classes = Classes::new(cluster);
        let mut topologies = Topologies::default();
        let filters = Filters::new(&mut classes);
        let ports = Ports::new(&mut classes);
        let volumes = Volumes::new(&mut classes);
        let counters = Counters::new(&mut classes, &mut topologies, &cluster.namespaces);
        Self {
            cluster,
            classes,
            filters,
            topologies,
            counters,
            ports,
            volumes,
            nodes: Vec::with_capacity(cluster.nodes.len()),
            free: Vec::new(),
            given: Distinct::default(),
            made: BTreeMap::new(),
            index: Index::default(),
            pods_on: Vec::with_capacity(cluster.nodes.len()),
            node_of: vec![None; cluster.pods.len()],
            log: Vec::new(),
        }
    }

    /// Adds a node like `node` with the name `name`, without pods.
    pub fn add_node(&mut self, node: &Arc<Node>, name: &str) -> NodeId {
        let id = self.append(NodeSource::Template(Arc::clone(node), name.into()));
        self.index.set(id, self.room(id));
        self.log.push(Op::AddNode);
        id
    }

    /// Adds a node with its daemon pods.
    pub(super) fn add_with_daemons(
        &mut self,
        node: &Arc<Node>,
        name: &str,
        daemons: &[ClassId],
    ) -> NodeId {
        let id = self.add_node(node, name);
        daemons.iter().for_each(|class| self.put_class(*class, id));
        id
    }

    /// Adds a model: a node that can be checked, but does not exist.
    pub(super) fn add_model(&mut self, node: &Arc<Node>) -> NodeId {
        let id = self.append(NodeSource::Template(Arc::clone(node), node.name.clone()));
        self.set_there(id, false);
        id
    }

    /// Occupies resources of a model with a pod of a class, without counting it anywhere.
    pub(super) fn occupy(&mut self, class: ClassId, model: NodeId) {
        let (class, node) = (&self.classes[class], &mut self.nodes[model]);
        node.slots -= 1;
        node.ports.extend(&class.ports);
        let width = class.request.len();
        let free = &mut self.free[model * width..(model + 1) * width];
        free.iter_mut().zip(&class.request).for_each(|(free, asked)| *free -= asked);
    }

    /// Returns whether the node selector and affinity of a class match a node.
    pub(super) fn selects(&self, class: ClassId, node: NodeId) -> bool {
        let node = &self.nodes[node];
        self.filters.selects(self.classes[class].selector, node.shape, &node.source)
    }

    /// Places a pod on a node. The pod must be unplaced; no rules are checked: see [`Self::why_not`].
    pub fn place(&mut self, pod: PodId, node: NodeId) {
        debug_assert!(self.node_of[pod].is_none(), "the pod is unplaced");
        self.put_class(self.classes.of_pod(pod), node);
        self.pods_on[node].push(pod);
        self.node_of[pod] = Some(node);
        self.log.push(Op::Listed { pod });
    }

    /// Removes a pod from its node, if it is on one.
    pub fn remove(&mut self, pod: PodId) {
        let Some(node) = self.node_of[pod].take() else { return };
        let at = self.pods_on[node].iter().position(|p| *p == pod).expect("a placed pod is listed");
        self.pods_on[node].remove(at);
        self.log.push(Op::Unlisted { pod, node, at });
        let class = self.classes.of_pod(pod);
        self.take(class, node);
        self.log.push(Op::Take { class, node });
    }

    /// Closes a node to new pods, like one that is being removed. Its domains still exist.
    pub fn close(&mut self, node: NodeId) {
        if !self.nodes[node].is_closed {
            self.set_closed(node, true);
            self.log.push(Op::Closed { node });
        }
    }

    /// Removes a node and its domains. Its pods must have been removed.
    pub fn remove_node(&mut self, node: NodeId) {
        debug_assert!(self.nodes[node].is_there, "a node is removed once");
        self.set_there(node, false);
        self.log.push(Op::RemovedNode { node });
    }

    /// Sets the order in which nodes are tried; other nodes are not tried any more.
    pub(super) fn prefer(&mut self, order: &[NodeId]) {
        let mut index = std::mem::take(&mut self.index);
        index.reorder(order, |node| self.room(node));
        self.index = index;
    }

    /// Returns the first node from `from` on on which the pod fits, among those that `may` allows.
    pub fn first_fit(
        &self,
        pod: PodId,
        from: NodeId,
        may: impl Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        self.first_fit_of(self.classes.of_pod(pod), from, may)
    }

    /// Returns why a pod does not fit on a node, or `None` if it does.
    pub fn why_not(&self, pod: PodId, node: NodeId) -> Option<Refusal> {
        let class = self.classes.of_pod(pod);
        self.check(class, node).map(|check| self.refusal(class, node, check))
    }

    /// Returns the pods on a node.
    pub fn pods_on(&self, node: NodeId) -> &[PodId] {
        &self.pods_on[node]
    }

    /// Returns the node of a pod.
    pub fn node_of(&self, pod: PodId) -> Option<NodeId> {
        self.node_of[pod]
    }

    /// Finds a node by its name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        let found = self.given(name).or_else(|| self.made.get(name).copied());
        found.filter(|id| self.nodes[*id].is_there)
    }

    /// Returns a node's name.
    pub fn name(&self, node: NodeId) -> &str {
        self.nodes[node].source.name()
    }

    /// Returns a node's spec (of an added one, its template's).
    pub fn node_spec(&self, node: NodeId) -> &Node {
        self.nodes[node].source.node()
    }

    /// Iterates over the existing nodes.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..self.nodes.len()).filter(|id| self.nodes[*id].is_there)
    }

    /// Returns the number of existing nodes.
    pub fn node_count(&self) -> usize {
        self.nodes().count()
    }

    /// Returns whether two pods are of one class, so that the same rules apply to both.
    pub fn same_kind(&self, a: PodId, b: PodId) -> bool {
        self.classes.of_pod(a) == self.classes.of_pod(b)
    }

    /// Returns whether a pod that fits nowhere could fit after other pods were placed, because it has affinity or spread
    /// constraints.
    pub fn may_change(&self, pod: PodId) -> bool {
        self.classes[self.classes.of_pod(pod)].depends_on_others()
    }

    fn append(&mut self, source: NodeSource<'a>) -> NodeId {
        let id = self.nodes.len();
        let shape = self.filters.shape_of(source.node());
        self.topologies.push_node(|key| source.label(key));
        self.free.extend(self.classes.dense(&source.node().allocatable));
        match &source {
            NodeSource::Existing(node) => {
                let is_same = |n: usize| self.nodes[n].source.name() == &*node.name;
                self.given.number(hash(&node.name), is_same);
            }
            NodeSource::Template(_, name) => drop(self.made.insert(name.clone(), id)),
        }
        self.counters.push_node(id, &self.topologies, |selector, tolerations| {
            selector.is_none_or(|s| self.filters.selects(s, shape, &source))
                && tolerations.is_none_or(|t| self.filters.untolerated(t, shape).is_none())
        });
        self.pods_on.push(Vec::new());
        let slots = source.node().allocatable.pods;
        let (ports, volumes) = (Vec::new(), Vec::new());
        self.nodes.push(NodeState {
            source,
            shape,
            is_there: true,
            is_closed: false,
            slots,
            ports,
            volumes,
        });
        id
    }

    fn given(&self, name: &str) -> Option<NodeId> {
        self.given.find(hash(&name), |n| self.nodes[n].source.name() == name)
    }

    fn remove_newest_node(&mut self) {
        let Some(node) = self.nodes.pop() else { return };
        self.index.set(self.nodes.len(), Room::NONE);
        self.free.truncate(self.free.len() - self.classes.width());
        self.made.remove(node.source.name());
        self.pods_on.pop();
        self.counters.pop_node();
        self.topologies.pop_node();
    }

    /// Places a pod of a class on a node, as a change that can be undone.
    pub(super) fn put_class(&mut self, class: ClassId, node: NodeId) {
        self.put(class, node);
        self.log.push(Op::Put { class, node });
    }

    fn put(&mut self, class: ClassId, id: NodeId) {
        let (class, node) = (&self.classes[class], &mut self.nodes[id]);
        node.slots -= 1;
        node.ports.extend(&class.ports);
        self.volumes.attach(&class.volumes, &mut node.volumes);
        self.counters.count(&class.terms, id, &self.topologies, 1);
        let width = class.request.len();
        let free = &mut self.free[id * width..(id + 1) * width];
        free.iter_mut().zip(&class.request).for_each(|(free, asked)| *free -= asked);
        self.index_room(id);
    }

    fn take(&mut self, class: ClassId, id: NodeId) {
        let (class, node) = (&self.classes[class], &mut self.nodes[id]);
        node.slots += 1;
        for port in &class.ports {
            let at = node.ports.iter().position(|p| p == port).expect("it was taken");
            node.ports.swap_remove(at);
        }
        self.volumes.detach(&class.volumes, &mut node.volumes);
        self.counters.count(&class.terms, id, &self.topologies, -1);
        let width = class.request.len();
        let free = &mut self.free[id * width..(id + 1) * width];
        free.iter_mut().zip(&class.request).for_each(|(free, asked)| *free += asked);
        self.index_room(id);
    }

    fn set_closed(&mut self, node: NodeId, is_closed: bool) {
        self.nodes[node].is_closed = is_closed;
        self.index_room(node);
    }

    fn set_there(&mut self, node: NodeId, is_there: bool) {
        self.nodes[node].is_there = is_there;
        self.counters.node_there(node, if is_there { 1 } else { -1 });
        self.index_room(node);
    }

    pub(super) fn ports_of(&self, class: ClassId) -> &[u32] {
        &self.classes[class].ports
    }

    pub(super) fn volumes_of(&self, class: ClassId) -> &[u32] {
        &self.classes[class].volumes
    }

    pub(super) fn ports_on(&self, node: NodeId) -> &[u32] {
        &self.nodes[node].ports
    }

    pub(super) fn ports_clash(&self, wanted: &[u32], taken: &[u32]) -> bool {
        self.ports.clash(wanted, taken).is_some()
    }

    /// Returns whether a node like `node` with these attached volumes can attach the wanted ones.
    pub(super) fn takes_volumes(&self, wanted: &[u32], node: NodeId, attached: &[u32]) -> bool {
        let attached: Vec<(u32, u32)> = attached.iter().map(|volume| (*volume, 1)).collect();
        self.volumes.problem(wanted, &self.nodes[node].source, &attached).is_none()
    }

    /// Returns how many more pods may use these volumes at the same time.
    pub(super) fn exclusive_takes(&self, volumes: &[u32]) -> u32 {
        self.volumes.exclusive_takes(volumes)
    }

    /// Returns whether a region's domains are single nodes.
    pub(super) fn is_host_region(&self, region: usize) -> bool {
        self.topologies.is_hostname(self.counters.regions[region].scope.topology)
    }

    /// Returns how many more pods a node takes.
    pub(super) fn slots(&self, node: NodeId) -> i64 {
        self.nodes[node].slots
    }

    /// Returns the free resources of a node.
    pub(super) fn free(&self, node: NodeId) -> &[i64] {
        let width = self.classes.width();
        &self.free[node * width..(node + 1) * width]
    }

    fn room(&self, id: NodeId) -> Room {
        let (node, free) = (&self.nodes[id], self.free(id));
        // Whatever a pod tolerates, a cordoned node is not used.
        let takes = node.is_there && !node.is_closed && !node.source.node().unschedulable;
        if takes { Room { cpu: free[0], memory: free[1], slots: node.slots } } else { Room::NONE }
    }

    /// While the snapshot is built there is no index yet: one pass at the end is cheaper.
    fn index_room(&mut self, node: NodeId) {
        if self.index.is_built() {
            self.index.set(node, self.room(node));
        }
    }
}
