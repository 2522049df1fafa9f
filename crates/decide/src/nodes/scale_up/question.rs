//! What another process is asked where the expander `grpc` is part of the chain: which of several groups it prefers.
//!
//! A plan that needs an answer ends there, with the question. It is made again with the answers so far, and comes to the same point.

use std::collections::{BTreeMap, BTreeSet};

use super::Planning;
use super::option::{ExpansionOption, node_template};
use crate::nodes::snapshot::ClassId;
use crate::nodes::{PodId, Template};

/// The names of the groups that another process prefers. Without one that was asked about, all are kept.
pub type Answer = Vec<Box<str>>;

/// Which of several groups is preferred?
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// The groups, sorted by name.
    pub options: Vec<QuestionOption>,
}

/// What one group could do.
#[derive(Clone, Debug, Default)]
pub struct QuestionOption {
    /// Its index in the cluster's groups.
    pub group: usize,
    /// The number of its new nodes.
    pub nodes: u32,
    /// The shape of a new node.
    pub template: Template,
    /// The pods that would fit on the new nodes.
    pub pods: Vec<PodId>,
}

impl Planning<'_, '_> {
    /// Returns the groups that an answer names.
    pub(super) fn preferred(&self, answer: &Answer) -> BTreeSet<usize> {
        let groups = self.evaluation.cluster.groups.iter().enumerate();
        groups.filter(|(_, group)| answer.contains(&group.name)).map(|(at, _)| at).collect()
    }

    /// Returns the question which of the options that are left is preferred.
    pub(super) fn question(&self, options: &[ExpansionOption], left: &[usize]) -> Question {
        let options = left.iter().map(|at| &options[*at]);
        Question { options: options.map(|option| self.question_option(option)).collect() }
    }

    fn question_option(&self, option: &ExpansionOption) -> QuestionOption {
        let group = option.choice.group;
        let node = &node_template(self.evaluation, group).node;
        let mut counts: BTreeMap<ClassId, u32> = BTreeMap::new();
        for (demand, placed) in option.demand.iter().zip(&option.packed.placed) {
            counts.insert(demand.class, *placed);
        }
        let pods = counts.iter().flat_map(|(class, count)| {
            self.waiting.get(class).into_iter().flatten().take(*count as usize)
        });
        QuestionOption {
            group,
            nodes: option.choice.nodes,
            template: Template {
                labels: node.labels.clone(),
                taints: node.taints.clone(),
                capacity: node.capacity.clone(),
                allocatable: node.allocatable.clone(),
            },
            pods: pods.copied().collect(),
        }
    }
}
