//! A cluster in a compact form that answers "would this pod fit there?" at once, and takes what-ifs back cheaply.
//!
//! Pods are grouped into classes by what scheduling can see of them, nodes into shapes by what those classes can see.
//! Affinity and spread are counted per topology domain whenever a pod comes or goes, so that asking costs as much as
//! the pod has terms, however many pods there are. Every change is logged and undone by doing its opposite.

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

/// A pod, by its place in [`Cluster::pods`].
pub type PodId = usize;
/// A node: first those of the cluster in the order of their names, then those added. [`Snapshot::node`] finds it.
pub type NodeId = usize;
/// A kind of pods.
pub(super) type ClassId = usize;

/// A cluster, ready for what-ifs.
pub struct Snapshot<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) classes: Classes,
    filters: Filters,
    pub(super) topologies: Topologies,
    pub(super) counters: Counters,
    ports: Ports,
    volumes: Volumes,
    nodes: Vec<NodeState<'a>>,
    /// What is left of each resource, `classes.width()` numbers for each node.
    free: Vec<i64>,
    /// The nodes of the cluster by name, and those added.
    given: Distinct,
    made: BTreeMap<Box<str>, NodeId>,
    index: Index,
    pods_on: Vec<Vec<PodId>>,
    /// Where each pod of the cluster is now.
    node_of: Vec<Option<NodeId>>,
    log: Vec<Op>,
}

/// What changes about a node, and what it was made from.
struct NodeState<'a> {
    like: Like<'a>,
    shape: usize,
    /// In the cluster; a removed node keeps its number.
    is_there: bool,
    /// Takes no pods, though its domains still exist.
    is_closed: bool,
    /// How many more pods it takes.
    slots: i64,
    ports: Vec<u32>,
    /// Attached volumes and how many pods use each.
    volumes: Vec<(u32, u32)>,
}

/// What a node looks like.
#[derive(Clone)]
enum Like<'a> {
    Given(&'a Node),
    /// A copy of a template under a name of its own.
    Made(Arc<Node>, Box<str>),
}

impl Like<'_> {
    fn node(&self) -> &Node {
        match self {
            Self::Given(node) => node,
            Self::Made(node, _) => node,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Given(node) => &node.name,
            Self::Made(_, name) => name,
        }
    }

    /// Gives a label's value; a made node's hostname is its own.
    fn label(&self, key: &str) -> Option<&str> {
        match self {
            Self::Made(_, name) if key == HOSTNAME_LABEL => Some(name),
            Self::Given(_) | Self::Made(..) => self.node().labels.get(key),
        }
    }
}

impl<'a> Snapshot<'a> {
    /// Takes every node of the cluster and every pod that is on one of them and takes room there.
    ///
    /// Pods that `is_there` refuses (expendable ones, say) are left out; nominated pods count for their node.
    pub fn new(cluster: &'a Cluster, is_there: impl Fn(&Pod) -> bool) -> Self {
        let mut all = Self::empty(cluster);
        // By name, so that the order in which nodes were listed decides nothing.
        let mut nodes: Vec<&Node> = cluster.nodes.iter().collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        for node in nodes {
            all.append(Like::Given(node));
        }
        for (id, pod) in cluster.pods.iter().enumerate() {
            let name = match &pod.scheduling {
                Scheduling::On(name) | Scheduling::Nominated(name) => name,
                Scheduling::Unschedulable | Scheduling::Other => continue,
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
        let mut classes = Classes::of(cluster);
        let mut topologies = Topologies::default();
        let filters = Filters::of(&mut classes);
        let ports = Ports::of(&mut classes);
        let volumes = Volumes::of(&mut classes);
        let counters = Counters::of(&mut classes, &mut topologies, &cluster.namespaces);
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

    /// Adds a node that looks like `node`, under the name `name`; it has no pods.
    pub fn add_node(&mut self, node: &Arc<Node>, name: &str) -> NodeId {
        let id = self.append(Like::Made(Arc::clone(node), name.into()));
        self.index.set(id, self.room(id));
        self.log.push(Op::AddNode);
        id
    }

    /// Adds a node with the pods that come with it.
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

    /// Adds a node that can be asked about, but is not there.
    pub(super) fn add_model(&mut self, node: &Arc<Node>) -> NodeId {
        let id = self.append(Like::Made(Arc::clone(node), node.name.clone()));
        self.set_there(id, false);
        id
    }

    /// Lets a pod of a class take room on a model, without counting it anywhere.
    pub(super) fn occupy(&mut self, class: ClassId, model: NodeId) {
        let (class, node) = (&self.classes[class], &mut self.nodes[model]);
        node.slots -= 1;
        node.ports.extend(&class.ports);
        let width = class.request.len();
        let free = &mut self.free[model * width..(model + 1) * width];
        free.iter_mut().zip(&class.request).for_each(|(free, asked)| *free -= asked);
    }

    /// Tells whether the node selector and affinity of a class take a node.
    pub(super) fn selects(&self, class: ClassId, node: NodeId) -> bool {
        let node = &self.nodes[node];
        self.filters.selects(self.classes[class].selector, node.shape, &node.like)
    }

    /// Puts a pod on a node. The pod must not be on one; nothing is asked: see [`Self::why_not`].
    pub fn place(&mut self, pod: PodId, node: NodeId) {
        debug_assert!(self.node_of[pod].is_none(), "the pod is already somewhere");
        self.put_class(self.classes.of_pod(pod), node);
        self.pods_on[node].push(pod);
        self.node_of[pod] = Some(node);
        self.log.push(Op::Listed { pod });
    }

    /// Takes a pod off its node, if it is on one.
    pub fn remove(&mut self, pod: PodId) {
        let Some(node) = self.node_of[pod].take() else { return };
        let at = self.pods_on[node].iter().position(|p| *p == pod).expect("a placed pod is listed");
        self.pods_on[node].remove(at);
        self.log.push(Op::Unlisted { pod, node, at });
        let class = self.classes.of_pod(pod);
        self.take(class, node);
        self.log.push(Op::Take { class, node });
    }

    /// Lets a node take no more pods, as one that is being removed. Its domains still exist.
    pub fn close(&mut self, node: NodeId) {
        if !self.nodes[node].is_closed {
            self.set_closed(node, true);
            self.log.push(Op::Closed { node });
        }
    }

    /// Removes a node with its domains. Its pods must be gone.
    pub fn remove_node(&mut self, node: NodeId) {
        debug_assert!(self.nodes[node].is_there, "a node is removed once");
        self.set_there(node, false);
        self.log.push(Op::RemovedNode { node });
    }

    /// Lets nodes be tried in this order from now on; those that are not named are not tried any more.
    pub(super) fn prefer(&mut self, order: &[NodeId]) {
        let mut index = std::mem::take(&mut self.index);
        index.reorder(order, |node| self.room(node));
        self.index = index;
    }

    /// Finds the first node from `from` on that would take the pod, by number, among those that `may` allows.
    pub fn first_fit(
        &self,
        pod: PodId,
        from: NodeId,
        may: impl Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        self.first_fit_of(self.classes.of_pod(pod), from, may)
    }

    /// Says why a pod cannot be on a node, or None if it can.
    pub fn why_not(&self, pod: PodId, node: NodeId) -> Option<Refusal> {
        let class = self.classes.of_pod(pod);
        self.check(class, node).map(|check| self.refusal(class, node, check))
    }

    /// Lists the pods on a node.
    pub fn pods_on(&self, node: NodeId) -> &[PodId] {
        &self.pods_on[node]
    }

    /// Says where a pod is now.
    pub fn node_of(&self, pod: PodId) -> Option<NodeId> {
        self.node_of[pod]
    }

    /// Finds a node by its name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        let found = self.given(name).or_else(|| self.made.get(name).copied());
        found.filter(|id| self.nodes[*id].is_there)
    }

    /// Gives a node's name.
    pub fn name(&self, node: NodeId) -> &str {
        self.nodes[node].like.name()
    }

    /// Says what a node looks like (an added one as its template).
    pub fn looks(&self, node: NodeId) -> &Node {
        self.nodes[node].like.node()
    }

    /// Lists the nodes that are there, by number.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..self.nodes.len()).filter(|id| self.nodes[*id].is_there)
    }

    /// Counts the nodes that are there.
    pub fn node_count(&self) -> usize {
        self.nodes().count()
    }

    /// Tells whether two pods are of one kind, so that what holds for one holds for the other.
    pub fn same_kind(&self, a: PodId, b: PodId) -> bool {
        self.classes.of_pod(a) == self.classes.of_pod(b)
    }

    /// Tells whether a pod that was refused everywhere could be taken after other pods were placed: it has affinity or
    /// spread, which others may satisfy.
    pub fn may_change(&self, pod: PodId) -> bool {
        self.classes[self.classes.of_pod(pod)].depends_on_others()
    }

    fn append(&mut self, like: Like<'a>) -> NodeId {
        let id = self.nodes.len();
        let shape = self.filters.shape_of(like.node());
        self.topologies.push_node(|key| like.label(key));
        self.free.extend(self.classes.dense(&like.node().allocatable));
        match &like {
            Like::Given(node) => {
                let is_same = |n: usize| self.nodes[n].like.name() == &*node.name;
                self.given.number(hash(&node.name), is_same);
            }
            Like::Made(_, name) => drop(self.made.insert(name.clone(), id)),
        }
        self.counters.push_node(id, &self.topologies, |selector, tolerations| {
            selector.is_none_or(|s| self.filters.selects(s, shape, &like))
                && tolerations.is_none_or(|t| self.filters.untolerated(t, shape).is_none())
        });
        self.pods_on.push(Vec::new());
        let slots = like.node().allocatable.pods;
        let (ports, volumes) = (Vec::new(), Vec::new());
        self.nodes.push(NodeState {
            like,
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
        self.given.find(hash(&name), |n| self.nodes[n].like.name() == name)
    }

    fn forget_newest_node(&mut self) {
        let Some(node) = self.nodes.pop() else { return };
        self.index.set(self.nodes.len(), Room::NONE);
        self.free.truncate(self.free.len() - self.classes.width());
        self.made.remove(node.like.name());
        self.pods_on.pop();
        self.counters.pop_node();
        self.topologies.pop_node();
    }

    /// Puts a pod of a class on a node, as a change that can be undone.
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

    /// Tells whether a node that looks like `node` and has these volumes attached takes those.
    pub(super) fn takes_volumes(&self, wanted: &[u32], node: NodeId, attached: &[u32]) -> bool {
        let attached: Vec<(u32, u32)> = attached.iter().map(|volume| (*volume, 1)).collect();
        self.volumes.trouble(wanted, &self.nodes[node].like, &attached).is_none()
    }

    /// Gives how many more pods may use these volumes at the same time.
    pub(super) fn exclusive_takes(&self, volumes: &[u32]) -> u32 {
        self.volumes.exclusive_takes(volumes)
    }

    /// Tells whether a region's domains are single nodes.
    pub(super) fn is_host_region(&self, region: usize) -> bool {
        self.topologies.is_hostname(self.counters.regions[region].scope.topology)
    }

    /// Gives how many more pods a node takes.
    pub(super) fn slots(&self, node: NodeId) -> i64 {
        self.nodes[node].slots
    }

    /// Lists what is left of each resource on a node.
    pub(super) fn free(&self, node: NodeId) -> &[i64] {
        let width = self.classes.width();
        &self.free[node * width..(node + 1) * width]
    }

    fn room(&self, id: NodeId) -> Room {
        let (node, free) = (&self.nodes[id], self.free(id));
        // Whatever a pod tolerates, a cordoned node is not counted on.
        let takes = node.is_there && !node.is_closed && !node.like.node().unschedulable;
        if takes { Room { cpu: free[0], memory: free[1], slots: node.slots } } else { Room::NONE }
    }

    /// While the snapshot is built there is no index yet: one pass at the end is cheaper.
    fn index_room(&mut self, node: NodeId) {
        if self.index.is_built() {
            self.index.set(node, self.room(node));
        }
    }
}
