//! Which groups grow, by how much, and for which pods.
//!
//! A plan is made in rounds, each as Cluster Autoscaler makes one turn: every group says what it could do for the pods
//! that wait, the expanders choose one, its nodes join the what-if, and the next round looks again. So the plan ends
//! where a second look would want nothing more.

mod apply;
mod option;
mod twins;
mod why;

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::limits::Quota;
use super::packing::{self, Bound, Demand, Profiles};
use super::snapshot::ClassId;
use super::{NodeId, PodId, Refusal, Turn, expander};

pub use why::{Unschedulable, Why};

/// What to add, and why not more.
#[derive(Clone, Debug, Default)]
pub struct ScaleUp {
    /// The groups that grow, in the order of their names.
    pub resizes: Vec<Resize>,
    /// Waiting pods that nodes already there, or on their way, take once the others have their place.
    pub elsewhere: Vec<(PodId, NodeId)>,
    /// Waiting pods that nothing helps, in the order of their names.
    pub unschedulable: Vec<Unschedulable>,
    /// How the pods find their places: the nodes of a step join, and then its pods are let in, one as soon as another
    /// made it possible.
    pub steps: Vec<Vec<(PodId, Place)>>,
}

/// Where a waiting pod goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// To a node of the snapshot.
    There(NodeId),
    /// To a new node: its group, and its place in [`Resize::nodes`].
    New { group: usize, at: usize },
}

/// A group that grows.
#[derive(Clone, Debug)]
pub struct Resize {
    /// Its place in the cluster's groups.
    pub group: usize,
    pub from: u32,
    pub to: u32,
    /// The pods that each new node is for. Nodes that only fill the group up have none.
    pub nodes: Vec<Vec<PodId>>,
}

impl Turn<'_> {
    /// Plans what to add. The snapshot is as before afterwards.
    pub fn scale_up(&mut self) -> ScaleUp {
        let mark = self.snapshot.mark();
        let mut planning = Planning::new(self);
        if planning.turn.is_healthy {
            while planning.round() {}
            planning.enforce_min_size();
        }
        let plan = planning.finish();
        self.snapshot.undo_to(mark);
        plan
    }

    /// Gives the fewest new nodes of a group that could take every pod which waits, or None without a template.
    pub fn bound(&self, group: usize) -> Option<Bound> {
        let model = self.moulds[group].as_ref()?.model;
        let mut counts: BTreeMap<ClassId, u32> = BTreeMap::new();
        for pod in &self.pending {
            *counts.entry(self.snapshot.classes.of_pod(*pod)).or_default() += 1;
        }
        let profiles = Profiles::of(&self.snapshot, counts.keys().copied(), &[]);
        let demand: Vec<Demand> =
            counts.into_iter().map(|(class, count)| Demand { class, count }).collect();
        Some(packing::bound(&self.snapshot, &profiles, &demand, model))
    }
}

/// A plan in the making.
struct Planning<'p, 'a> {
    turn: &'p mut Turn<'a>,
    /// Pods without a place, by kind.
    waiting: BTreeMap<ClassId, Vec<PodId>>,
    /// How large each group is with what was added.
    sizes: Vec<u32>,
    added: Vec<Vec<Vec<PodId>>>,
    /// Which new node a node of the what-if stands for: its group, and its place among what was added there.
    stands_for: BTreeMap<NodeId, (usize, usize)>,
    elsewhere: Vec<(PodId, NodeId)>,
    steps: Vec<Vec<(PodId, Place)>>,
    quota: Quota,
    /// Groups that turned out to have no room under the limits.
    spent: Vec<bool>,
    round: u64,
    /// The first pod of a kind by name, where that was asked for in this round.
    firsts: RefCell<BTreeMap<ClassId, PodId>>,
    /// What one core and one byte cost on average, for the expander `price`.
    unit_prices: (f64, f64),
    /// How many nodes the cluster has without the plan.
    cluster_nodes: usize,
}

impl<'p, 'a> Planning<'p, 'a> {
    fn new(turn: &'p mut Turn<'a>) -> Self {
        let mut lists: Vec<Vec<PodId>> = vec![Vec::new(); turn.snapshot.classes.len()];
        for pod in &turn.pending {
            lists[turn.snapshot.classes.of_pod(*pod)].push(*pod);
        }
        let waiting = lists.into_iter().enumerate().filter(|(_, list)| !list.is_empty()).collect();
        let groups = turn.cluster.groups.len();
        let nodes = turn.snapshot.nodes().map(|node| turn.snapshot.looks(node));
        let quota = Quota::of(turn.settings, nodes);
        Self {
            waiting,
            sizes: turn.standings.iter().map(|standing| standing.target).collect(),
            added: vec![Vec::new(); groups],
            stands_for: BTreeMap::new(),
            elsewhere: Vec::new(),
            steps: Vec::new(),
            quota,
            spent: vec![false; groups],
            round: 0,
            firsts: RefCell::default(),
            unit_prices: unit_prices(turn),
            cluster_nodes: turn.snapshot.node_count(),
            turn,
        }
    }

    /// Adds the nodes of one group, if any helps; tells whether it is worth another look.
    fn round(&mut self) -> bool {
        self.settle();
        self.firsts.take();
        let candidates = self.candidates();
        if self.waiting.is_empty() || candidates.is_empty() {
            return false;
        }
        let options = self.options(&candidates);
        let choices: Vec<_> = options.iter().map(|option| option.choice.clone()).collect();
        let picked = expander::pick(self.turn.settings, &choices, self.round);
        self.round += 1;
        let Some(picked) = picked else { return false };
        let option = options.into_iter().nth(picked).expect("it was picked among them");
        self.carry_out(option);
        true
    }

    /// Lists the groups that may grow, by name.
    fn candidates(&self) -> Vec<usize> {
        let may = |group: &usize| self.refusal(*group).is_none();
        self.turn.by_name.iter().copied().filter(may).collect()
    }

    /// Says why a group may not grow, whoever asks.
    fn refusal(&self, group: usize) -> Option<Refusal> {
        let of = &self.turn.cluster.groups[group];
        if let Some(refusal) = &self.turn.standings[group].refusal {
            return Some(refusal.clone());
        }
        if self.sizes[group] >= of.max {
            return Some(Refusal::AtMaxSize(of.max));
        }
        let Some(mould) = &self.turn.moulds[group] else { return Some(Refusal::NoTemplate) };
        let wanted = if of.all_or_nothing { of.max - self.sizes[group] } else { 1 };
        if self.spent[group] || self.quota.allows(&mould.node) < wanted {
            let limit = self.quota.refusal(&mould.node);
            return Some(limit.unwrap_or(Refusal::LimitReached("nodes".into())));
        }
        None
    }

    /// Raises groups below their smallest size, if that is asked for.
    fn enforce_min_size(&mut self) {
        if !self.turn.settings.scale_up.enforce_min_size {
            return;
        }
        for group in self.turn.by_name.clone() {
            let of = &self.turn.cluster.groups[group];
            let short = of.min.saturating_sub(self.sizes[group]);
            if short == 0 || self.turn.standings[group].refusal == Some(Refusal::Unhealthy) {
                continue;
            }
            let node = self.turn.moulds[group].as_ref().map(|mould| &mould.node);
            let more = node.map_or(short, |node| short.min(self.quota.allows(node)));
            if let Some(node) = node {
                self.quota.take(node, more);
            }
            self.sizes[group] += more;
            self.added[group].extend(std::iter::repeat_n(Vec::new(), more as usize));
        }
    }

    fn finish(self) -> ScaleUp {
        let unschedulable = self.unschedulable();
        let mut resizes = Vec::new();
        for group in &self.turn.by_name {
            let (to, from) = (self.sizes[*group], self.turn.standings[*group].target);
            if to > from {
                let nodes = self.added[*group].clone();
                resizes.push(Resize { group: *group, from, to, nodes });
            }
        }
        ScaleUp { resizes, elsewhere: self.elsewhere, unschedulable, steps: self.steps }
    }
}

/// Half of what a node costs is taken to be for its cores, half for its memory.
fn unit_prices(turn: &Turn<'_>) -> (f64, f64) {
    let (mut core, mut byte, mut groups) = (0.0, 0.0, 0.0);
    for (group, mould) in turn.cluster.groups.iter().zip(&turn.moulds) {
        let (Some(price), Some(mould)) = (group.price, mould) else { continue };
        let has = &mould.node.capacity;
        if has.cpu > 0 && has.memory > 0 {
            core += price / 2.0 / (has.cpu as f64 / 1000.0);
            byte += price / 2.0 / has.memory as f64;
            groups += 1.0;
        }
    }
    if groups > 0.0 { (core / groups, byte / groups) } else { (0.0, 0.0) }
}
