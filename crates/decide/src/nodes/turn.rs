//! One look at the cluster: how its groups stand, which nodes are on their way, which pods wait.
//!
//! Adding and removing nodes both start from here, so that what one of them counts on the other leaves alone.

use std::sync::Arc;

use jiff::Timestamp;

use super::health::{self, Readiness, Standing};
use super::pending;
use super::templates::{self, Mould};
use super::{Cluster, NodeId, PodId, Settings, Snapshot};

/// One look at the cluster.
pub struct Turn<'a> {
    pub cluster: &'a Cluster,
    pub settings: &'a Settings,
    pub now: Timestamp,
    /// The nodes that are there and those on their way, with the pods on them and the waiting ones that fit.
    pub snapshot: Snapshot<'a>,
    /// How each group of the cluster stands, in their order.
    pub standings: Vec<Standing>,
    /// The nodes of each group, by name, without those that are on their way.
    pub members: Vec<Vec<NodeId>>,
    /// Whether the cluster is healthy enough to be touched.
    pub is_healthy: bool,
    /// Waiting pods that fit the nodes of the snapshot after all, in the order in which they were let in.
    pub fitting: Vec<PodId>,
    /// Pods that fit nowhere and may ask for a node.
    pub pending: Vec<PodId>,
    /// Groups in the order of their names.
    pub(super) by_name: Vec<usize>,
    pub(super) moulds: Vec<Option<Mould>>,
}

impl<'a> Turn<'a> {
    /// Looks at the cluster.
    pub fn new(cluster: &'a Cluster, settings: &'a Settings, now: Timestamp) -> Self {
        let snapshot = Snapshot::new(cluster, |pod| !pending::is_expendable(pod, settings));
        let mut by_name: Vec<usize> = (0..cluster.groups.len()).collect();
        by_name.sort_by(|a, b| cluster.groups[*a].name.cmp(&cluster.groups[*b].name));
        let mut turn = Self {
            cluster,
            settings,
            now,
            snapshot,
            standings: Vec::new(),
            members: Vec::new(),
            is_healthy: health::is_cluster_healthy(cluster, settings, now),
            fitting: Vec::new(),
            pending: Vec::new(),
            by_name,
            moulds: Vec::new(),
        };
        turn.look_at_groups();
        turn.add_upcoming();
        let waiting = pending::waiting(cluster, settings);
        let tried = pending::place_what_fits(&mut turn.snapshot, waiting);
        let may_ask = |pod: &PodId| pending::may_ask(&cluster.pods[*pod], settings, now);
        turn.fitting = tried.placed;
        turn.pending = tried.left.into_iter().filter(may_ask).collect();
        turn
    }

    fn look_at_groups(&mut self) {
        let groups = &self.cluster.groups;
        self.members = vec![Vec::new(); groups.len()];
        for node in self.snapshot.nodes() {
            let Some(name) = &self.snapshot.looks(node).group else { continue };
            let found = self.by_name.binary_search_by(|at| groups[*at].name.cmp(name));
            if let Ok(at) = found {
                self.members[self.by_name[at]].push(node);
            }
        }
        for (group, members) in groups.iter().zip(&self.members) {
            let nodes = members.iter().map(|node| self.snapshot.looks(*node));
            self.standings.push(health::standing(group, nodes, self.settings, self.now));
        }
        for (group, members) in groups.iter().zip(&self.members) {
            let mould =
                templates::mould(&mut self.snapshot, group, members, self.settings, self.now);
            self.moulds.push(mould);
        }
    }

    /// Stands nodes that look like new ones in for those on their way; what has registered of them makes room.
    fn add_upcoming(&mut self) {
        for group in self.by_name.clone() {
            let (Some(mould), upcoming) = (&self.moulds[group], self.standings[group].upcoming)
            else {
                continue;
            };
            let (node, daemons) = (Arc::clone(&mould.node), mould.daemons.clone());
            for n in 0..upcoming {
                let name = format!("{}-upcoming-{n}", self.cluster.groups[group].name);
                self.snapshot.add_with_daemons(&node, &name, &daemons);
            }
            if upcoming > 0 {
                self.remove_starting(group);
            }
        }
    }

    fn remove_starting(&mut self, group: usize) {
        let (settings, now) = (self.settings, self.now);
        let members = std::mem::take(&mut self.members[group]);
        for node in members {
            let looks = self.snapshot.looks(node);
            if health::readiness(looks, settings, now) == Readiness::Starting {
                for pod in self.snapshot.pods_on(node).to_vec() {
                    self.snapshot.remove(pod);
                }
                self.snapshot.remove_node(node);
            } else {
                self.members[group].push(node);
            }
        }
    }
}
