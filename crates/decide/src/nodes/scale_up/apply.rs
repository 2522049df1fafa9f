//! Carries an option out in the what-if, so that the next round sees its nodes and pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::option::{Offered, mould};
use super::{Place, Planning};
use crate::nodes::balance::share;
use crate::nodes::packing::{self, Profiles, Run};
use crate::nodes::snapshot::ClassId;
use crate::nodes::{PodId, pending};

/// From so many nodes on it is worth another try to need fewer, and so near to the fewest possible it is not.
const WORTH_IT: u32 = 20;
const GOOD: f64 = 1.03;

impl Planning<'_, '_> {
    /// Gives waiting pods that fit what was added so far a place there.
    pub(super) fn settle(&mut self) {
        if self.round == 0 || self.waiting.is_empty() {
            return;
        }
        let waiting: Vec<PodId> =
            std::mem::take(&mut self.waiting).into_values().flatten().collect();
        let tried = pending::place_what_fits(&mut self.turn.snapshot, waiting);
        self.steps.push(Vec::new());
        for pod in tried.placed {
            let node = self.turn.snapshot.node_of(pod).expect("it was placed");
            self.note(pod, node);
        }
        for pod in tried.left {
            self.waiting.entry(self.turn.snapshot.classes.of_pod(pod)).or_default().push(pod);
        }
    }

    fn note(&mut self, pod: PodId, node: usize) {
        let place = match self.stands_for.get(&node) {
            Some(&(group, at)) => {
                self.added[group][at].push(pod);
                Place::New { group, at }
            }
            None => {
                self.elsewhere.push((pod, node));
                Place::There(node)
            }
        };
        self.step(pod, place);
    }

    fn step(&mut self, pod: PodId, place: Place) {
        self.steps.last_mut().expect("a step was begun").push((pod, place));
    }

    /// Adds the nodes of an option, as far as the limits of the cluster let it.
    pub(super) fn carry_out(&mut self, option: Offered) {
        let group = option.choice.group;
        let node = self.turn.moulds[group].as_ref().map(|mould| Arc::clone(&mould.node));
        let node = node.expect("a candidate has a mould");
        let mut option = self.improve(option);
        let mut shares = self.share_out(&option);
        loop {
            let allowed = self.allowed(&shares);
            if allowed >= option.packed.nodes() {
                break;
            }
            option = self.crop(option, allowed);
            shares = self.share_out(&option);
        }
        if option.packed.nodes() == 0 {
            self.spent[group] = true;
            return;
        }
        self.put_in_order(&option, &shares);
        // Where nobody waits any more, nobody looks at the what-if again.
        let waiting: usize = self.waiting.values().map(Vec::len).sum();
        let is_last =
            option.packed.pods() as usize == waiting && option.packed.elsewhere.is_empty();
        self.steps.push(Vec::with_capacity(option.packed.pods() as usize));
        for (run, group) in shares {
            self.add(&run, group, is_last);
        }
        for (class, node) in &option.packed.elsewhere {
            if let Some(pod) = self.next(*class) {
                self.turn.snapshot.place(pod, *node);
                self.note(pod, *node);
            }
        }
        self.order_step(&option);
        self.waiting.retain(|_, pods| !pods.is_empty());
        if self.turn.cluster.groups[group].all_or_nothing {
            let more = self.turn.cluster.groups[group].max - self.sizes[group];
            self.quota.take(&node, more);
            self.sizes[group] += more;
            self.added[group].extend(std::iter::repeat_n(Vec::new(), more as usize));
        }
    }

    /// Gives how many of these nodes the limits of the cluster let in.
    fn allowed(&self, shares: &[(Run, usize)]) -> u32 {
        let mut quota = self.quota.clone();
        let mut allowed = 0;
        for (run, group) in shares {
            let Some(mould) = &self.turn.moulds[*group] else { continue };
            let some = run.nodes.min(quota.allows(&mould.node));
            quota.take(&mould.node, some);
            allowed += some;
        }
        allowed
    }

    /// Packs node by node where first fit did badly, and keeps what is better.
    fn improve(&mut self, mut option: Offered) -> Offered {
        let model = self.turn.moulds[option.choice.group].as_ref().map(|mould| mould.model);
        let is_worth_it = option.packed.nodes() >= WORTH_IT;
        let Some(model) = model.filter(|_| is_worth_it) else { return option };
        let profiles = self.profiles(&option);
        let max_nodes = self.quota.plan_left().min(self.quota.nodes_left());
        let room = self.room_of(option.choice.group, &option.similar, &option.demand, &profiles);
        let better = self.apart_first(&option, room, &profiles, max_nodes);
        if let Some((packed, demand)) = better {
            (option.packed, option.demand) = (packed, demand);
        }
        let nodes = option.packed.nodes();
        let bound = packing::bound(&self.turn.snapshot, &profiles, &option.demand, model).nodes;
        let is_good = f64::from(nodes) <= f64::from(bound) * GOOD;
        if is_good || !packing::is_affordable(&profiles, &option.demand) {
            return option;
        }
        let packed = self.pack_by_node(&option, &profiles);
        if packed.is_better_than(&option.packed) { Offered { packed, ..option } } else { option }
    }

    fn profiles(&self, option: &Offered) -> Profiles {
        let models: Vec<usize> = self
            .candidates()
            .iter()
            .filter_map(|group| self.turn.moulds[*group].as_ref())
            .map(|mould| mould.model)
            .collect();
        Profiles::of(&self.turn.snapshot, option.demand.iter().map(|d| d.class), &models)
    }

    /// Packs again into as many nodes as are allowed, to know which pods they are for.
    fn crop(&mut self, option: Offered, allowed: u32) -> Offered {
        let profiles = self.profiles(&option);
        let room = self.room_of(option.choice.group, &option.similar, &option.demand, &profiles);
        let packed = self.pack(&option.offers, room, &option.demand, &profiles, allowed);
        Offered { packed, ..option }
    }

    /// Says for each run which group its nodes go to; nodes that any similar group could have are shared out.
    fn share_out(&mut self, option: &Offered) -> Vec<(Run, usize)> {
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
        let model = |group: &usize| mould(self.turn, *group).model;
        let models: Vec<usize> = option.offers.iter().map(model).collect();
        let packed = &option.packed;
        let suits = |g: &&usize| !packed.is_upset_by(&self.turn.snapshot, &models, model(g));
        let mut sharers: Vec<usize> = option.similar.iter().filter(suits).copied().collect();
        sharers.push(option.choice.group);
        // The smallest comes first where all have grown alike.
        let groups = &self.turn.cluster.groups;
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

    /// Puts the newest step into the order in which its pods were packed, where that matters.
    fn order_step(&mut self, option: &Offered) {
        let classes = &self.turn.snapshot.classes;
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

    /// Sorts the pods of kinds that do not all go to the same group, so that names decide which goes where. Others need
    /// not be sorted, and there may be many.
    fn put_in_order(&mut self, option: &Offered, shares: &[(Run, usize)]) {
        let groups = shares.iter().map(|(_, group)| *group);
        let is_one = groups.clone().min() == groups.max() && option.packed.elsewhere.is_empty();
        let pods = &self.turn.cluster.pods;
        for (demand, placed) in option.demand.iter().zip(&option.packed.placed) {
            let Some(list) = self.waiting.get_mut(&demand.class) else { continue };
            if !is_one || list.len() > *placed as usize {
                list.sort_by(|a, b| pods[*b].name.cmp(&pods[*a].name));
            }
        }
    }

    /// Adds the nodes of a run to a group, with their pods; to the what-if too, unless this is the last that is done.
    fn add(&mut self, run: &Run, group: usize, is_last: bool) {
        let mould = self.turn.moulds[group].as_ref().expect("a candidate has a mould");
        let (node, daemons) = (Arc::clone(&mould.node), mould.daemons.clone());
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
                let name = format!("{}-new-{at}", self.turn.cluster.groups[group].name);
                let id = self.turn.snapshot.add_with_daemons(&node, &name, &daemons);
                self.stands_for.insert(id, (group, at));
                pods.iter().for_each(|pod| self.turn.snapshot.place(*pod, id));
            }
            pods.iter().for_each(|pod| self.step(*pod, Place::New { group, at }));
            self.added[group].push(pods);
        }
    }

    /// Takes the next waiting pod of a kind.
    fn next(&mut self, class: ClassId) -> Option<PodId> {
        self.waiting.get_mut(&class)?.pop()
    }
}
