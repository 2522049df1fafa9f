//! Applies an option to the simulation, so that the next round includes its nodes and pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::option::{ExpansionOption, node_template};
use super::{Placement, Planning};
use crate::nodes::balance::share;
use crate::nodes::packing::{self, Profiles, Run};
use crate::nodes::snapshot::ClassId;
use crate::nodes::{PodId, Refusal, pending};

/// From this many nodes on another attempt to need fewer is made, unless the result is this close to the lower bound.
const WORTH_IT: u32 = 20;
const GOOD: f64 = 1.03;

impl Planning<'_, '_> {
    /// Places pending pods that fit on the nodes added so far.
    pub(super) fn place_pending(&mut self) {
        if self.round == 0 || self.waiting.is_empty() {
            return;
        }
        let waiting: Vec<PodId> =
            std::mem::take(&mut self.waiting).into_values().flatten().collect();
        let tried = pending::place_what_fits(&mut self.evaluation.snapshot, waiting);
        self.steps.push(Vec::new());
        for pod in tried.placed {
            let node = self.evaluation.snapshot.node_of(pod).expect("the pod was placed");
            self.note(pod, node);
        }
        for pod in tried.left {
            self.waiting.entry(self.evaluation.snapshot.classes.of_pod(pod)).or_default().push(pod);
        }
    }

    fn note(&mut self, pod: PodId, node: usize) {
        let place = match self.stands_for.get(&node) {
            Some(&(group, at)) => {
                self.added[group][at].push(pod);
                Placement::New { group, at }
            }
            None => {
                self.on_existing.push((pod, node));
                Placement::There(node)
            }
        };
        self.step(pod, place);
    }

    fn step(&mut self, pod: PodId, place: Placement) {
        self.steps.last_mut().expect("a step was started").push((pod, place));
    }

    /// Adds the nodes of an option, within the limits of the cluster.
    pub(super) fn apply(&mut self, option: ExpansionOption) {
        let group = option.choice.group;
        let node = self.evaluation.node_templates[group]
            .as_ref()
            .map(|node_template| Arc::clone(&node_template.node));
        let node = node.expect("a candidate has a template");
        let mut option = self.improve(option);
        let mut shares = self.share_out(&option);
        let mut limit = None;
        loop {
            let allowed = self.allowed(&shares);
            if allowed >= option.packed.nodes() {
                break;
            }
            limit = limit.or_else(|| self.limit(&shares));
            option = self.crop(option, allowed);
            shares = self.share_out(&option);
        }
        if option.packed.nodes() == 0 {
            self.spent[group] = Some(limit.unwrap_or(Refusal::NotPlanned));
            return;
        }
        self.put_in_order(&option, &shares);
        // Without pending pods, the simulation is not evaluated again.
        let waiting: usize = self.waiting.values().map(Vec::len).sum();
        let is_last =
            option.packed.pods() as usize == waiting && option.packed.on_existing.is_empty();
        self.steps.push(Vec::with_capacity(option.packed.pods() as usize));
        for (run, group) in shares {
            self.add(&run, group, is_last);
        }
        for (class, node) in &option.packed.on_existing {
            if let Some(pod) = self.next(*class) {
                self.evaluation.snapshot.place(pod, *node);
                self.note(pod, *node);
            }
        }
        self.order_step(&option);
        self.waiting.retain(|_, pods| !pods.is_empty());
        if self.evaluation.cluster.groups[group].all_or_nothing {
            let more = self.evaluation.cluster.groups[group].max - self.sizes[group];
            self.quota.take(&node, more);
            self.sizes[group] += more;
            self.added[group].extend(std::iter::repeat_n(Vec::new(), more as usize));
        }
    }

    /// Returns how many of these nodes the limits of the cluster allow.
    fn allowed(&self, shares: &[(Run, usize)]) -> u32 {
        let mut quota = self.quota.clone();
        let mut allowed = 0;
        for (run, group) in shares {
            let Some(node_template) = &self.evaluation.node_templates[*group] else { continue };
            let some = run.nodes.min(quota.allows(&node_template.node));
            quota.take(&node_template.node, some);
            allowed += some;
        }
        allowed
    }

    /// Returns the first limit of the cluster that does not allow these nodes.
    fn limit(&self, shares: &[(Run, usize)]) -> Option<Refusal> {
        let mut quota = self.quota.clone();
        shares.iter().find_map(|(run, group)| {
            let node = &self.evaluation.node_templates[*group].as_ref()?.node;
            let limit = quota.refusal(node, run.nodes);
            quota.take(node, run.nodes);
            limit
        })
    }

    /// Packs node by node where first fit did badly, and keeps the better result.
    fn improve(&mut self, mut option: ExpansionOption) -> ExpansionOption {
        let model = self.evaluation.node_templates[option.choice.group]
            .as_ref()
            .map(|node_template| node_template.model);
        let is_worth_it = option.packed.nodes() >= WORTH_IT;
        let Some(model) = model.filter(|_| is_worth_it) else { return option };
        let profiles = self.profiles(&option);
        let max_nodes = self.quota.plan_left().min(self.quota.nodes_left());
        let room = self.room_of(option.choice.group, &option.similar, &option.demand, &profiles);
        let better = self.anti_affinity_first(&option, room, &profiles, max_nodes);
        if let Some((packed, demand)) = better {
            (option.packed, option.demand) = (packed, demand);
        }
        let nodes = option.packed.nodes();
        let bound =
            packing::bound(&self.evaluation.snapshot, &profiles, &option.demand, model).nodes;
        let is_good = f64::from(nodes) <= f64::from(bound) * GOOD;
        if is_good || !packing::is_affordable(&profiles, &option.demand) {
            return option;
        }
        let packed = self.pack_by_node(&option, &profiles);
        if packed.is_better_than(&option.packed) {
            ExpansionOption { packed, ..option }
        } else {
            option
        }
    }

    fn profiles(&self, option: &ExpansionOption) -> Profiles {
        let models: Vec<usize> = self
            .candidates()
            .iter()
            .filter_map(|group| self.evaluation.node_templates[*group].as_ref())
            .map(|node_template| node_template.model)
            .collect();
        Profiles::new(&self.evaluation.snapshot, option.demand.iter().map(|d| d.class), &models)
    }

    /// Packs again into as many nodes as are allowed, to find out which pods they are for.
    fn crop(&mut self, option: ExpansionOption, allowed: u32) -> ExpansionOption {
        let profiles = self.profiles(&option);
        let room = self.room_of(option.choice.group, &option.similar, &option.demand, &profiles);
        let packed = self.pack(&option.offers, room, &option.demand, &profiles, allowed);
        ExpansionOption { packed, ..option }
    }

    /// Returns the group of each run; nodes that any similar group could have are distributed.
    fn share_out(&mut self, option: &ExpansionOption) -> Vec<(Run, usize)> {
        if option.similar.is_empty() {
            let group = |run: &Run| option.offers[run.offer];
            return option.packed.runs.iter().map(|run| (run.clone(), group(run))).collect();
        }
        let profiles = self.profiles(option);
        let (mut all, mut free) = (Vec::new(), Vec::new());
        for run in &option.packed.runs {
            let bound = |(class, _): &(ClassId, u32)| profiles[*class].is_bound_to_domains();
            let is_bound = run.offer != 0 || run.pods.iter().any(bound);
            if is_bound {
                all.push((run.clone(), option.offers[run.offer]));
            } else {
                free.push(run);
            }
        }
        let model = |group: &usize| node_template(self.evaluation, *group).model;
        let models: Vec<usize> = option.offers.iter().map(model).collect();
        let packed = &option.packed;
        let suits =
            |g: &&usize| !packed.is_invalidated_by(&self.evaluation.snapshot, &models, model(g));
        let mut sharers: Vec<usize> = option.similar.iter().filter(suits).copied().collect();
        sharers.push(option.choice.group);
        // The smallest comes first where all have grown equally.
        let groups = &self.evaluation.cluster.groups;
        sharers.sort_by(|a, b| {
            let rank = |group: usize| (self.sizes[group], &groups[group].name);
            rank(*a).cmp(&rank(*b))
        });
        let size = |group: usize| {
            let bound = all.iter().filter(|(_, g)| *g == group).map(|(run, _)| run.nodes);
            (self.sizes[group] + bound.sum::<u32>(), groups[group].max)
        };
        let sizes: Vec<(u32, u32)> = sharers.iter().map(|group| size(*group)).collect();
        let mut shares = share(&sizes, free.iter().map(|run| run.nodes).sum());
        for run in free {
            let mut nodes = run.nodes;
            for (group, share) in sharers.iter().zip(&mut shares) {
                let some = nodes.min(*share);
                if some > 0 {
                    all.push((run.some(some), *group));
                    (nodes, *share) = (nodes - some, *share - some);
                }
            }
        }
        all
    }

    /// Sorts the newest step in the order in which its pods were packed, where that matters.
    fn order_step(&mut self, option: &ExpansionOption) {
        let classes = &self.evaluation.snapshot.classes;
        let matters = option.demand.iter().any(|d| classes[d.class].depends_on_others());
        if option.packed.is_by_node || !matters {
            return;
        }
        let rank: BTreeMap<ClassId, usize> =
            option.demand.iter().enumerate().map(|(at, d)| (d.class, at)).collect();
        if let Some(step) = self.steps.last_mut() {
            step.sort_by_key(|(pod, _)| rank.get(&classes.of_pod(*pod)).copied());
        }
    }

    /// Sorts the pods of classes that go to more than one group, so that names decide which goes where. Others need not be sorted,
    /// and there may be many.
    fn put_in_order(&mut self, option: &ExpansionOption, shares: &[(Run, usize)]) {
        let groups = shares.iter().map(|(_, group)| *group);
        let is_one = groups.clone().min() == groups.max() && option.packed.on_existing.is_empty();
        let pods = &self.evaluation.cluster.pods;
        for (demand, placed) in option.demand.iter().zip(&option.packed.placed) {
            let Some(list) = self.waiting.get_mut(&demand.class) else { continue };
            if !is_one || list.len() > *placed as usize {
                list.sort_by(|a, b| pods[*b].name.cmp(&pods[*a].name));
            }
        }
    }

    /// Adds the nodes of a run to a group, with their pods; also to the simulation, unless this is the last step.
    fn add(&mut self, run: &Run, group: usize, is_last: bool) {
        let node_template =
            self.evaluation.node_templates[group].as_ref().expect("a candidate has a template");
        let (node, daemons) = (Arc::clone(&node_template.node), node_template.daemons.clone());
        self.quota.take(&node, run.nodes);
        self.sizes[group] += run.nodes;
        for _ in 0..run.nodes {
            let at = self.added[group].len();
            let mut pods =
                Vec::with_capacity(run.pods.iter().map(|(_, count)| *count as usize).sum());
            for (class, count) in &run.pods {
                pods.extend((0..*count).map_while(|_| self.next(*class)));
            }
            if !is_last {
                let name = format!("{}-new-{at}", self.evaluation.cluster.groups[group].name);
                let id = self.evaluation.snapshot.add_with_daemons(&node, &name, &daemons);
                self.stands_for.insert(id, (group, at));
                pods.iter().for_each(|pod| self.evaluation.snapshot.place(*pod, id));
            }
            pods.iter().for_each(|pod| self.step(*pod, Placement::New { group, at }));
            self.added[group].push(pods);
        }
    }

    /// Takes the next pending pod of a class.
    fn next(&mut self, class: ClassId) -> Option<PodId> {
        self.waiting.get_mut(&class)?.pop()
    }
}
