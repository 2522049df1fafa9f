//! The reasons why no group helps a pod.

use std::sync::Arc;

use super::Planning;
use super::option::check_new;
use crate::nodes::packing::Profiles;
use crate::nodes::snapshot::ClassId;
use crate::nodes::{PodId, Refusal};

/// A pending pod that no group helps.
#[derive(Clone, Debug)]
pub struct Unschedulable {
    pub pod: PodId,
    /// The reason of every group, sorted by name. Pods of one class share it.
    pub why: Arc<[GroupRefusal]>,
}

/// The reason why a group does not help.
#[derive(Clone, Debug)]
pub struct GroupRefusal {
    /// The group's index in the cluster's groups.
    pub group: usize,
    pub refusal: Refusal,
}

impl Planning<'_, '_> {
    /// Returns the unplaced pods, sorted by name, with the reason of every group.
    pub(super) fn unschedulable(&mut self) -> Vec<Unschedulable> {
        let models: Vec<usize> = self
            .evaluation
            .by_name
            .iter()
            .filter(|group| self.refusal(**group).is_none())
            .filter_map(|group| self.evaluation.node_templates[*group].as_ref())
            .map(|node_template| node_template.model)
            .collect();
        let profiles =
            Profiles::new(&self.evaluation.snapshot, self.waiting.keys().copied(), &models);
        let mut all: Vec<Unschedulable> = Vec::new();
        let groups = self.evaluation.by_name.clone();
        for (class, pods) in std::mem::take(&mut self.waiting) {
            let why = groups.iter().map(|group| {
                let known = self.why(*group, class, &profiles);
                let refusal = known.unwrap_or_else(|| self.refusal_of_new_node(*group, class));
                GroupRefusal { group: *group, refusal }
            });
            let why: Arc<[GroupRefusal]> = why.collect();
            all.extend(pods.iter().map(|pod| Unschedulable { pod: *pod, why: Arc::clone(&why) }));
        }
        let pods = &self.evaluation.cluster.pods;
        let name = |id: PodId| (&pods[id].spec.namespace, &pods[id].name);
        all.sort_by(|a, b| name(a.pod).cmp(&name(b.pod)));
        all
    }

    /// Returns the reason of one group: first those that excluded the group from the start, then those of its nodes, then limits that
    /// the plan itself has reached.
    fn why(&self, group: usize, class: ClassId, profiles: &Profiles) -> Option<Refusal> {
        if let Some(refusal) = &self.evaluation.group_states[group].refusal {
            return Some(refusal.clone());
        }
        if !self.evaluation.is_healthy {
            return Some(Refusal::ClusterUnhealthy);
        }
        let Some(node_template) = &self.evaluation.node_templates[group] else {
            return Some(Refusal::NoTemplate);
        };
        if self.added[group].is_empty()
            && let Some(refusal) = self.refusal(group)
        {
            return Some(refusal);
        }
        let snapshot = &self.evaluation.snapshot;
        let check = check_new(snapshot, profiles, class, node_template);
        check
            .map(|check| snapshot.refusal(class, node_template.model, check))
            .or_else(|| self.refusal(group))
    }

    /// Returns the reason why a new node that nothing else excludes does not take a pod: each rule is checked on such a node.
    fn refusal_of_new_node(&mut self, group: usize, class: ClassId) -> Refusal {
        let Some(node_template) = &self.evaluation.node_templates[group] else {
            return Refusal::NoTemplate;
        };
        let snapshot = &mut self.evaluation.snapshot;
        let mark = snapshot.mark();
        let name = format!("{}-new", self.evaluation.cluster.groups[group].name);
        let node = snapshot.add_with_daemons(&node_template.node, &name, &node_template.daemons);
        let check = snapshot.check(class, node);
        let refusal = check.map(|check| snapshot.refusal(class, node, check));
        snapshot.undo_to(mark);
        refusal.unwrap_or(Refusal::NotPlanned)
    }
}
