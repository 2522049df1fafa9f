//! Decides which groups grow, by how much, and for which pods.
//!
//! A plan is made in rounds, each like one iteration of Cluster Autoscaler: every group computes what it could do for the pending
//! pods, the expanders choose one, its nodes are added to the simulation, and the next round evaluates again. So an evaluation
//! right after the plan would add nothing more.

mod apply;
mod equivalence;
mod option;
mod question;
mod why;

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::limits::Quota;
use super::packing::{self, Bound, Demand, Profiles};
use super::snapshot::ClassId;
use super::{Evaluation, NodeId, PodId, Refusal, expander};

use expander::Pick;
pub use question::{Answer, Question, QuestionOption};
pub use why::{GroupRefusal, Unschedulable};

/// The plan of additions.
#[derive(Clone, Debug, Default)]
pub struct ScaleUp {
    /// The groups that grow, sorted by name.
    pub resizes: Vec<Resize>,
    /// Pending pods that fit on existing or upcoming nodes once the others are placed.
    pub on_existing: Vec<(PodId, NodeId)>,
    /// Pending pods that no group helps, sorted by name.
    pub unschedulable: Vec<Unschedulable>,
    /// The order of placements: the nodes of a step are added, and then its pods are placed, each as soon as others made it
    /// possible.
    pub steps: Vec<Vec<(PodId, Placement)>>,
    /// What another process has to be asked before the plan can go on; it is complete without one.
    pub question: Option<Question>,
}

/// The node of a pending pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// A node of the snapshot.
    There(NodeId),
    /// A new node: its group, and its index in [`Resize::nodes`].
    New { group: usize, at: usize },
}

/// A group that grows.
#[derive(Clone, Debug)]
pub struct Resize {
    /// Its index in the cluster's groups.
    pub group: usize,
    pub from: u32,
    pub to: u32,
    /// The pods that each new node is for. Nodes that only fill the group up have none.
    pub nodes: Vec<Vec<PodId>>,
}

impl Evaluation<'_> {
    /// Plans additions. The snapshot is unchanged afterwards.
    pub fn scale_up(&mut self) -> ScaleUp {
        self.scale_up_answered(&[])
    }

    /// Plans additions with the answers of another process to the questions of this plan so far, in their order.
    pub fn scale_up_answered(&mut self, answers: &[Answer]) -> ScaleUp {
        let mark = self.snapshot.mark();
        let mut planning = Planning::new(self, answers);
        if planning.evaluation.is_healthy {
            while planning.round() {}
            planning.enforce_min_size();
        }
        let plan = planning.finish();
        self.snapshot.undo_to(mark);
        plan
    }

    /// Returns the minimum number of new nodes of a group that could take every pending pod, or `None` without a template.
    pub fn bound(&self, group: usize) -> Option<Bound> {
        let model = self.node_templates[group].as_ref()?.model;
        let mut counts: BTreeMap<ClassId, u32> = BTreeMap::new();
        for pod in &self.pending {
            *counts.entry(self.snapshot.classes.of_pod(*pod)).or_default() += 1;
        }
        let profiles = Profiles::new(&self.snapshot, counts.keys().copied(), &[]);
        let demand: Vec<Demand> =
            counts.into_iter().map(|(class, count)| Demand { class, count }).collect();
        Some(packing::bound(&self.snapshot, &profiles, &demand, model))
    }
}

/// The state of planning.
struct Planning<'p, 'a> {
    evaluation: &'p mut Evaluation<'a>,
    /// Unplaced pods, by class.
    waiting: BTreeMap<ClassId, Vec<PodId>>,
    /// The size of each group including additions.
    sizes: Vec<u32>,
    added: Vec<Vec<Vec<PodId>>>,
    /// The new node that a simulated node stands for: its group, and its index among the additions there.
    stands_for: BTreeMap<NodeId, (usize, usize)>,
    on_existing: Vec<(PodId, NodeId)>,
    steps: Vec<Vec<(PodId, Placement)>>,
    quota: Quota,
    /// The limit that each group reached, if it did.
    spent: Vec<Option<Refusal>>,
    round: u64,
    /// The first pod of a class by name, computed on demand in this round.
    firsts: RefCell<BTreeMap<ClassId, PodId>>,
    /// The average price of one core and one byte, for the expander `price`.
    unit_prices: (f64, f64),
    /// The number of nodes without the plan.
    cluster_nodes: usize,
    /// The answers of another process that have not been used yet.
    answers: &'p [Answer],
    question: Option<Question>,
}

impl<'p, 'a> Planning<'p, 'a> {
    fn new(evaluation: &'p mut Evaluation<'a>, answers: &'p [Answer]) -> Self {
        let mut lists: Vec<Vec<PodId>> = vec![Vec::new(); evaluation.snapshot.classes.len()];
        for pod in &evaluation.pending {
            lists[evaluation.snapshot.classes.of_pod(*pod)].push(*pod);
        }
        let waiting = lists.into_iter().enumerate().filter(|(_, list)| !list.is_empty()).collect();
        let groups = evaluation.cluster.groups.len();
        let nodes = evaluation.snapshot.nodes().map(|node| evaluation.snapshot.node_spec(node));
        let quota = Quota::new(evaluation.settings, nodes);
        Self {
            waiting,
            sizes: evaluation.group_states.iter().map(|group_state| group_state.target).collect(),
            added: vec![Vec::new(); groups],
            stands_for: BTreeMap::new(),
            on_existing: Vec::new(),
            steps: Vec::new(),
            quota,
            spent: vec![None; groups],
            round: 0,
            firsts: RefCell::default(),
            unit_prices: unit_prices(evaluation),
            cluster_nodes: evaluation.snapshot.node_count(),
            answers,
            question: None,
            evaluation,
        }
    }

    /// Adds the nodes of one group, if any helps; returns whether another round may help.
    fn round(&mut self) -> bool {
        self.place_pending();
        self.firsts.take();
        let candidates = self.candidates();
        if self.waiting.is_empty() || candidates.is_empty() {
            return false;
        }
        let options = self.options(&candidates);
        let choices: Vec<_> = options.iter().map(|option| option.choice.clone()).collect();
        let answer = self.answers.first().map(|answer| self.preferred(answer));
        let settings = self.evaluation.settings;
        let picked = expander::pick(settings, &choices, self.round, answer.as_ref());
        self.round += 1;
        let picked = match picked {
            Some(Pick::One { at, is_answered }) => {
                self.answers = &self.answers[usize::from(is_answered)..];
                at
            }
            Some(Pick::Ask(left)) => {
                self.question = Some(self.question(&options, &left));
                return false;
            }
            None => return false,
        };
        let option = options.into_iter().nth(picked).expect("the index is from the same list");
        self.apply(option);
        true
    }

    /// Returns the groups that may grow, sorted by name.
    fn candidates(&self) -> Vec<usize> {
        let may = |group: &usize| self.refusal(*group).is_none();
        self.evaluation.by_name.iter().copied().filter(may).collect()
    }

    /// Returns why a group may not grow at all.
    fn refusal(&self, group: usize) -> Option<Refusal> {
        let of = &self.evaluation.cluster.groups[group];
        if let Some(refusal) = &self.evaluation.group_states[group].refusal {
            return Some(refusal.clone());
        }
        if self.sizes[group] >= of.max {
            return Some(Refusal::AtMaxSize(of.max));
        }
        let Some(node_template) = &self.evaluation.node_templates[group] else {
            return Some(Refusal::NoTemplate);
        };
        let wanted = if of.all_or_nothing { of.max - self.sizes[group] } else { 1 };
        let limit = self.quota.refusal(&node_template.node, wanted);
        limit.or_else(|| self.spent[group].clone())
    }

    /// Raises groups to their minimum, if `enforceMinSize` is set.
    fn enforce_min_size(&mut self) {
        if !self.evaluation.settings.scale_up.enforce_min_size {
            return;
        }
        for group in self.evaluation.by_name.clone() {
            let of = &self.evaluation.cluster.groups[group];
            let short = of.min.saturating_sub(self.sizes[group]);
            if short == 0 || self.evaluation.group_states[group].refusal == Some(Refusal::Unhealthy)
            {
                continue;
            }
            let node = self.evaluation.node_templates[group]
                .as_ref()
                .map(|node_template| &node_template.node);
            let more = node.map_or(short, |node| short.min(self.quota.allows(node)));
            if let Some(node) = node {
                self.quota.take(node, more);
            }
            self.sizes[group] += more;
            self.added[group].extend(std::iter::repeat_n(Vec::new(), more as usize));
        }
    }

    fn finish(mut self) -> ScaleUp {
        let unschedulable = self.unschedulable();
        let mut resizes = Vec::new();
        for group in &self.evaluation.by_name {
            let (to, from) = (self.sizes[*group], self.evaluation.group_states[*group].target);
            if to > from {
                let nodes = self.added[*group].clone();
                resizes.push(Resize { group: *group, from, to, nodes });
            }
        }
        let Self { on_existing, steps, question, .. } = self;
        ScaleUp { resizes, on_existing, unschedulable, steps, question }
    }
}

/// Returns unit prices: half of a node's price is attributed to its cores, half to its memory.
fn unit_prices(evaluation: &Evaluation<'_>) -> (f64, f64) {
    let (mut core, mut byte, mut groups) = (0.0, 0.0, 0.0);
    for (group, node_template) in evaluation.cluster.groups.iter().zip(&evaluation.node_templates) {
        let (Some(price), Some(node_template)) = (group.price, node_template) else { continue };
        let has = &node_template.node.capacity;
        if has.cpu > 0 && has.memory > 0 {
            core += price / 2.0 / (has.cpu as f64 / 1000.0);
            byte += price / 2.0 / has.memory as f64;
            groups += 1.0;
        }
    }
    if groups > 0.0 { (core / groups, byte / groups) } else { (0.0, 0.0) }
}
