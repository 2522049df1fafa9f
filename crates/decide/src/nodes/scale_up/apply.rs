//! Carries an option out in the what-if, so that the next round sees its nodes and pods.

use std::sync::Arc;

use super::Planning;
use super::option::Offered;
use crate::nodes::balance::share;
use crate::nodes::packing::{Profiles, Run};
use crate::nodes::snapshot::ClassId;
use crate::nodes::{PodId, pending};

impl Planning<'_, '_> {
    /// Gives waiting pods that fit what was added so far a place there.
    pub(super) fn settle(&mut self) {
        if self.round == 0 || self.waiting.is_empty() {
            return;
        }
        let waiting: Vec<PodId> =
            std::mem::take(&mut self.waiting).into_values().flatten().collect();
        let left = pending::place_what_fits(&mut self.turn.snapshot, waiting.clone());
        for pod in waiting {
            if let Some(node) = self.turn.snapshot.node_of(pod) {
                self.note(pod, node);
            }
        }
        for pod in left {
            self.waiting.entry(self.turn.snapshot.classes.of_pod(pod)).or_default().push(pod);
        }
        let pods = &self.turn.cluster.pods;
        for list in self.waiting.values_mut() {
            list.sort_by(|a, b| pods[*b].name.cmp(&pods[*a].name));
        }
    }

    fn note(&mut self, pod: PodId, node: usize) {
        match self.stands_for.get(&node) {
            Some((group, at)) => self.added[*group][*at].push(pod),
            None => self.elsewhere.push((pod, node)),
        }
    }

    /// Adds the nodes of an option, as far as the limits of the cluster let it.
    pub(super) fn carry_out(&mut self, option: Offered) {
        let group = option.choice.group;
        let node = self.turn.moulds[group].as_ref().map(|mould| Arc::clone(&mould.node));
        let node = node.expect("a candidate has a mould");
        let allowed = self.quota.allows(&node);
        let option =
            if option.packed.nodes() > allowed { self.crop(option, allowed) } else { option };
        if option.packed.nodes() == 0 {
            self.spent[group] = true;
            return;
        }
        let groups = self.share_out(&option);
        for (run, group) in groups {
            self.add(run, group);
        }
        for (class, node) in &option.packed.elsewhere {
            if let Some(pod) = self.next(*class) {
                self.turn.snapshot.place(pod, *node);
                self.note(pod, *node);
            }
        }
        self.waiting.retain(|_, pods| !pods.is_empty());
        if self.turn.cluster.groups[group].all_or_nothing {
            let more = self.turn.cluster.groups[group].max - self.sizes[group];
            self.quota.take(&node, more);
            self.sizes[group] += more;
            self.added[group].extend(std::iter::repeat_n(Vec::new(), more as usize));
        }
    }

    /// Packs again into as many nodes as are allowed, to know which pods they are for.
    fn crop(&mut self, option: Offered, allowed: u32) -> Offered {
        let models: Vec<usize> = self
            .candidates()
            .iter()
            .filter_map(|group| self.turn.moulds[*group].as_ref())
            .map(|mould| mould.model)
            .collect();
        let classes = option.demand.iter().map(|d| d.class);
        let profiles = Profiles::of(&self.turn.snapshot, classes, &models);
        let packed = self.pack(&option.offers, allowed, &option.demand, &profiles, allowed);
        Offered { packed, ..option }
    }

    /// Says for each run which group its nodes go to; nodes that any similar group could have are shared out.
    fn share_out(&mut self, option: &Offered) -> Vec<(Run, usize)> {
        let (mut all, mut free) = (Vec::new(), Vec::new());
        for run in &option.packed.runs {
            let is_bound = run.offer != 0 || option.similar.is_empty() || self.is_bound(run);
            if is_bound {
                all.push((run.clone(), option.offers[run.offer]));
            } else {
                free.push(run);
            }
        }
        let mut sharers = option.similar.clone();
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

    /// Tells whether a zone has a say in where the pods of a run are.
    fn is_bound(&self, run: &Run) -> bool {
        let snapshot = &self.turn.snapshot;
        let by_host = |topology| snapshot.topologies.is_hostname(topology);
        run.pods.iter().any(|(class, _)| {
            let terms = &snapshot.classes[*class].terms;
            let anti = terms.anti.iter().map(|anti| &anti.counter);
            let mut plain = terms.counts_for.iter().chain(&terms.affinity).chain(anti);
            let mut spread = terms
                .spreads_for
                .iter()
                .copied()
                .chain(terms.spread.iter().map(|rule| rule.counter));
            plain.any(|c| !by_host(snapshot.counters.plain[*c].topology))
                || spread.any(|c| !snapshot.is_host_region(snapshot.counters.spread[c].region))
        })
    }

    /// Adds the nodes of a run to a group, with their pods.
    fn add(&mut self, run: Run, group: usize) {
        let mould = self.turn.moulds[group].as_ref().expect("a candidate has a mould");
        let (node, daemons) = (Arc::clone(&mould.node), mould.daemons.clone());
        self.quota.take(&node, run.nodes);
        self.sizes[group] += run.nodes;
        for _ in 0..run.nodes {
            let at = self.added[group].len();
            let name = format!("{}-new-{at}", self.turn.cluster.groups[group].name);
            let id = self.turn.snapshot.add_with_daemons(&node, &name, &daemons);
            self.stands_for.insert(id, (group, at));
            let mut pods = Vec::new();
            for (class, count) in &run.pods {
                for _ in 0..*count {
                    let Some(pod) = self.next(*class) else { break };
                    self.turn.snapshot.place(pod, id);
                    pods.push(pod);
                }
            }
            self.added[group].push(pods);
        }
    }

    /// Takes the next waiting pod of a kind.
    fn next(&mut self, class: ClassId) -> Option<PodId> {
        self.waiting.get_mut(&class)?.pop()
    }
}
