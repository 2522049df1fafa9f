//! One evaluation of a cluster: the states of its groups, upcoming nodes, pending pods.
//!
//! Scale-up and scale-down both start from here, so that they do not rely on the same resources.

use std::sync::Arc;

use jiff::Timestamp;

use super::health::{self, GroupState, Readiness};
use super::pending;
use super::templates::{self, NodeTemplate};
use super::{Cluster, NodeId, PodId, Settings, Snapshot};

/// One evaluation of a cluster.
pub struct Evaluation<'a> {
    pub cluster: &'a Cluster,
    pub settings: &'a Settings,
    pub now: Timestamp,
    /// The existing and upcoming nodes, with the pods on them and the pending ones that fit.
    pub snapshot: Snapshot<'a>,
    /// The state of each group, in the cluster's order.
    pub group_states: Vec<GroupState>,
    /// The existing nodes of each group, sorted by name.
    pub members: Vec<Vec<NodeId>>,
    /// Whether the cluster is healthy enough to be scaled.
    pub is_healthy: bool,
    /// Pending pods that fit on the nodes of the snapshot, in the order in which they were placed.
    pub schedulable: Vec<PodId>,
    /// Pods that fit nowhere and may cause a scale-up.
    pub pending: Vec<PodId>,
    /// Groups, sorted by name.
    pub(super) by_name: Vec<usize>,
    pub(super) node_templates: Vec<Option<NodeTemplate>>,
}

impl<'a> Evaluation<'a> {
    /// Evaluates the cluster.
    pub fn new(cluster: &'a Cluster, settings: &'a Settings, now: Timestamp) -> Self {
        let snapshot = Snapshot::new(cluster, |pod| !pending::is_expendable(pod, settings));
        let mut by_name: Vec<usize> = (0..cluster.groups.len()).collect();
        by_name.sort_by(|a, b| cluster.groups[*a].name.cmp(&cluster.groups[*b].name));
        let mut evaluation = Self {
            cluster,
            settings,
            now,
            snapshot,
            group_states: Vec::new(),
            members: Vec::new(),
            is_healthy: health::is_cluster_healthy(cluster, settings, now),
            schedulable: Vec::new(),
            pending: Vec::new(),
            by_name,
            node_templates: Vec::new(),
        };
        evaluation.evaluate_groups();
        evaluation.add_upcoming();
        let waiting = pending::waiting(cluster, settings);
        let tried = pending::place_what_fits(&mut evaluation.snapshot, waiting);
        let may_ask = |pod: &PodId| pending::may_ask(&cluster.pods[*pod], settings, now);
        evaluation.schedulable = tried.placed;
        evaluation.pending = tried.left.into_iter().filter(may_ask).collect();
        evaluation
    }

    fn evaluate_groups(&mut self) {
        let groups = &self.cluster.groups;
        self.members = vec![Vec::new(); groups.len()];
        for node in self.snapshot.nodes() {
            let Some(name) = &self.snapshot.node_spec(node).group else { continue };
            let found = self.by_name.binary_search_by(|at| groups[*at].name.cmp(name));
            if let Ok(at) = found {
                self.members[self.by_name[at]].push(node);
            }
        }
        for (group, members) in groups.iter().zip(&self.members) {
            let nodes = members.iter().map(|node| self.snapshot.node_spec(*node));
            self.group_states.push(health::group_state(group, nodes, self.settings, self.now));
        }
        for (group, members) in groups.iter().zip(&self.members) {
            let node_template = templates::node_template(
                &mut self.snapshot,
                group,
                members,
                self.settings,
                self.now,
            );
            self.node_templates.push(node_template);
        }
    }

    /// Adds placeholders for upcoming nodes, replacing nodes that are registered but still starting.
    fn add_upcoming(&mut self) {
        for group in self.by_name.clone() {
            let (Some(node_template), upcoming) =
                (&self.node_templates[group], self.group_states[group].upcoming)
            else {
                continue;
            };
            let (node, daemons) = (Arc::clone(&node_template.node), node_template.daemons.clone());
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
            let spec = self.snapshot.node_spec(node);
            if health::readiness(spec, settings, now) == Readiness::Starting {
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
