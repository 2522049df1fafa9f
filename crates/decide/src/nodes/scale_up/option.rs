//! What each group could do for the pods that wait.

use std::collections::BTreeMap;

use super::Planning;
use crate::nodes::balance::{Likeness, is_similar};
use crate::nodes::expander::{self, Choice};
use crate::nodes::packing::{self, Demand, Offer, Packed, Profiles};
use crate::nodes::snapshot::{Check, ClassId, NO_DOMAIN};
use crate::nodes::templates::Mould;
use crate::nodes::{Expander, NodeId, PodId, Snapshot, Turn};

/// What one group could do.
pub(super) struct Offered {
    pub(super) choice: Choice,
    pub(super) packed: Packed,
    pub(super) demand: Vec<Demand>,
    /// The group of each offer that was packed into.
    pub(super) offers: Vec<usize>,
    /// Groups that may take nodes meant for the first offer.
    pub(super) similar: Vec<usize>,
}

/// Above this many kinds times groups, groups that cannot win are not packed.
const SMALL: usize = 20_000;

impl<'a> Planning<'_, 'a> {
    /// Packs the pods into each candidate, or at least into each that may be chosen. In the order of names.
    pub(super) fn options(&mut self, candidates: &[usize]) -> Vec<Offered> {
        let models: Vec<NodeId> =
            candidates.iter().map(|group| mould(self.turn, *group).model).collect();
        let profiles = Profiles::of(&self.turn.snapshot, self.waiting.keys().copied(), &models);
        let is_small = candidates.len() * self.waiting.len() <= SMALL;
        let mut ranked: Vec<(f64, usize, Vec<Demand>)> = Vec::new();
        let distinct =
            if is_small { candidates.to_vec() } else { self.without_twins(candidates, &profiles) };
        for group in &distinct {
            let demand = self.feasible(*group, &profiles);
            if !demand.is_empty() {
                let hope = if is_small { 0.0 } else { self.hope(*group, &demand, &profiles) };
                ranked.push((hope, *group, demand));
            }
        }
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        let first = self.turn.settings.expanders.first().copied();
        let mut best = f64::INFINITY;
        let mut options = Vec::new();
        for (hope, group, demand) in ranked {
            if !is_small && hope > best {
                break;
            }
            let Some(option) = self.option(group, demand, candidates, &profiles) else { continue };
            best = best.min(first.map_or(0.0, |first| expander::measure(first, &option.choice)));
            options.push(option);
        }
        let name = |option: &Offered| &self.turn.cluster.groups[option.choice.group].name;
        options.sort_by(|a, b| name(a).cmp(name(b)));
        options
    }

    /// Lists the kinds that a new node of the group would take, biggest first.
    fn feasible(&self, group: usize, profiles: &Profiles) -> Vec<Demand> {
        let (snapshot, mould) = (&self.turn.snapshot, mould(self.turn, group));
        let fits = |class: &ClassId| check_new(snapshot, profiles, *class, mould.model).is_none();
        let demand = |(class, pods): (&ClassId, &Vec<_>)| Demand {
            class: *class,
            count: u32::try_from(pods.len()).unwrap_or(u32::MAX),
        };
        self.waiting.iter().filter(|(class, _)| fits(class)).map(demand).collect()
    }

    /// Sorts kinds by the share of a node that they ask for; by their first pod's name where that is equal.
    fn sort(&self, group: usize, demand: &mut Vec<Demand>) {
        let snapshot = &self.turn.snapshot;
        let has = &mould(self.turn, group).node.allocatable;
        let share = |asked: i64, has: i64| if has > 0 { asked as f64 / has as f64 } else { 0.0 };
        let score = |class: ClassId| {
            let request = &snapshot.classes[class].request;
            share(request[0], has.cpu) + share(request[1], has.memory)
        };
        let pods = &self.turn.cluster.pods;
        let first = |d: &Demand| {
            let pod = &pods[self.first(d.class)];
            (&pod.spec.namespace, &pod.name)
        };
        let mut scored: Vec<(f64, Demand)> = demand.iter().map(|d| (score(d.class), *d)).collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| first(&a.1).cmp(&first(&b.1))));
        *demand = scored.into_iter().map(|(_, d)| d).collect();
    }

    /// Gives the first pod of a kind by name.
    fn first(&self, class: ClassId) -> PodId {
        let pods = &self.turn.cluster.pods;
        *self.firsts.borrow_mut().entry(class).or_insert_with(|| {
            let first = self.waiting[&class].iter().min_by_key(|pod| &pods[**pod].name);
            *first.expect("a kind that waits has pods")
        })
    }

    /// Gives the best that a group could reach by the first expander's measure, without packing.
    fn hope(&self, group: usize, demand: &[Demand], profiles: &Profiles) -> f64 {
        let first = self.turn.settings.expanders.first().copied();
        let model = mould(self.turn, group).model;
        let fewest = packing::bound(&self.turn.snapshot, profiles, demand, model).nodes;
        let is_limited = self.room(group) < fewest;
        match first {
            Some(Expander::Price | Expander::Random) | None => f64::NEG_INFINITY,
            Some(Expander::LeastWaste | Expander::LeastNodes) if is_limited => f64::NEG_INFINITY,
            Some(first) => {
                let pods = demand.iter().map(|d| d.count).sum();
                expander::measure(
                    first,
                    &self.choice(group, &[(group, fewest)], pods, demand, |d| d.count),
                )
            }
        }
    }

    fn room(&self, group: usize) -> u32 {
        self.turn.cluster.groups[group].max.saturating_sub(self.sizes[group])
    }

    fn option(
        &mut self,
        group: usize,
        mut demand: Vec<Demand>,
        candidates: &[usize],
        profiles: &Profiles,
    ) -> Option<Offered> {
        self.sort(group, &mut demand);
        let similar = self.similar(group, candidates, &demand, profiles);
        let partners = self.partners(group, candidates, &demand, profiles);
        let room = self.room_of(group, &similar, &demand, profiles);
        let max_nodes = self.quota.plan_left().min(self.quota.nodes_left());
        let offers: Vec<usize> = std::iter::once(group).chain(partners).collect();
        let packed = self.pack(&offers, room, &demand, profiles, max_nodes);
        if packed.pods() == 0 || packed.nodes() == 0 {
            return None;
        }
        let choice = Choice::default();
        let mut option = Offered { choice, packed, demand, offers, similar };
        option.choice.group = group;
        // In a large cluster only the option that is chosen gets a second try.
        if candidates.len() * self.waiting.len() <= SMALL
            && let Some((packed, demand)) = self.apart_first(&option, room, profiles, max_nodes)
        {
            (option.packed, option.demand) = (packed, demand);
        }
        option.choice = self.judge(&option);
        Some(option)
    }

    fn judge(&self, option: &Offered) -> Choice {
        let group = option.choice.group;
        let mut nodes: Vec<(usize, u32)> = option.offers.iter().map(|group| (*group, 0)).collect();
        option.packed.runs.iter().for_each(|run| nodes[run.offer].1 += run.nodes);
        if self.turn.cluster.groups[group].all_or_nothing {
            nodes[0].1 = self.room(group);
        }
        let placed: BTreeMap<ClassId, u32> =
            option.demand.iter().zip(&option.packed.placed).map(|(d, n)| (d.class, *n)).collect();
        self.choice(group, &nodes, option.packed.pods(), &option.demand, |d| placed[&d.class])
    }

    /// Packs kinds that keep apart first, and gives what came out if that is better.
    ///
    /// They need a node for every few of them, so they open nodes which the others then fill; whether that is better
    /// than biggest first shows only when it is tried.
    pub(super) fn apart_first(
        &mut self,
        option: &Offered,
        room: u32,
        profiles: &Profiles,
        max_nodes: u32,
    ) -> Option<(Packed, Vec<Demand>)> {
        let (mut apart, others): (Vec<Demand>, Vec<Demand>) =
            option.demand.iter().partition(|d| profiles[d.class].keeps_apart());
        if apart.is_empty() || others.is_empty() {
            return None;
        }
        apart.extend(others);
        let packed = self.pack(&option.offers, room, &apart, profiles, max_nodes);
        packed.is_better_than(&option.packed).then_some((packed, apart))
    }

    /// Packs into new nodes of the offered groups; the first may get `room` nodes.
    pub(super) fn pack(
        &mut self,
        groups: &[usize],
        room: u32,
        demand: &[Demand],
        profiles: &Profiles,
        max_nodes: u32,
    ) -> Packed {
        let (snapshot, offers) = self.offers(groups, room);
        packing::pack(snapshot, profiles, &offers, demand, max_nodes)
    }

    /// Packs what an option packed, node by node.
    pub(super) fn pack_by_node(&mut self, option: &Offered, profiles: &Profiles) -> Packed {
        let max_nodes = self.quota.plan_left().min(self.quota.nodes_left());
        let room = self.room_of(option.choice.group, &option.similar, &option.demand, profiles);
        let (snapshot, offers) = self.offers(&option.offers, room);
        packing::pack_by_node(snapshot, profiles, &offers, &option.demand, max_nodes)
    }

    /// Gives how many nodes a group may open: with those of its like, unless zones have a say in where its nodes are.
    pub(super) fn room_of(
        &self,
        group: usize,
        similar: &[usize],
        demand: &[Demand],
        profiles: &Profiles,
    ) -> u32 {
        let own = self.room(group);
        if demand.iter().any(|d| profiles[d.class].is_bound_to_domains()) {
            return own;
        }
        similar.iter().map(|g| self.room(*g)).fold(own, u32::saturating_add)
    }

    fn offers(&mut self, groups: &[usize], room: u32) -> (&mut Snapshot<'a>, Vec<Offer<'_>>) {
        let rooms: Vec<u32> = groups.iter().map(|group| self.room(*group)).collect();
        let Turn { snapshot, moulds, .. } = &mut *self.turn;
        let offer = |(at, group): (usize, &usize)| Offer {
            mould: moulds[*group].as_ref().expect("a candidate has a mould"),
            room: if at == 0 { room } else { rooms[at] },
        };
        (snapshot, groups.iter().enumerate().map(offer).collect())
    }

    fn choice(
        &self,
        group: usize,
        nodes: &[(usize, u32)],
        pods: u32,
        demand: &[Demand],
        placed: impl Fn(&Demand) -> u32,
    ) -> Choice {
        let (mut capacity, mut requested) = ((0.0, 0.0), (0.0, 0.0));
        for (group, nodes) in nodes {
            let has = &mould(self.turn, *group).node.capacity;
            capacity.0 += f64::from(*nodes) * has.cpu as f64;
            capacity.1 += f64::from(*nodes) * has.memory as f64;
        }
        for d in demand {
            let request = &self.turn.snapshot.classes[d.class].request;
            requested.0 += request[0] as f64 * f64::from(placed(d));
            requested.1 += request[1] as f64 * f64::from(placed(d));
        }
        let of = &self.turn.cluster.groups[group];
        Choice {
            group,
            nodes: nodes.iter().map(|(_, nodes)| nodes).sum(),
            pods,
            capacity,
            requested,
            price: of.price,
            unit_prices: self.unit_prices,
            priority: of.priority,
            has_gpu: mould(self.turn, group).node.capacity.has_gpu(),
            cluster_nodes: self.cluster_nodes,
        }
    }

    /// Lists the groups that nodes meant for this one may go to instead, to keep their sizes even.
    fn similar(
        &self,
        group: usize,
        candidates: &[usize],
        demand: &[Demand],
        profiles: &Profiles,
    ) -> Vec<usize> {
        let groups = &self.turn.cluster.groups;
        if !self.turn.settings.scale_up.balance_similar_groups || groups[group].all_or_nothing {
            return Vec::new();
        }
        let takes_all = |other: usize| {
            let model = mould(self.turn, other).model;
            demand
                .iter()
                .all(|d| check_new(&self.turn.snapshot, profiles, d.class, model).is_none())
        };
        let fits = |other: &usize| {
            *other != group
                && !groups[*other].all_or_nothing
                && self.is_like(group, *other)
                && takes_all(*other)
        };
        candidates.iter().copied().filter(fits).collect()
    }

    fn is_like(&self, a: usize, b: usize) -> bool {
        let likeness = |group: usize| {
            let mould = mould(self.turn, group);
            Likeness { node: &mould.node, free: self.turn.snapshot.free(mould.model) }
        };
        is_similar(&likeness(a), &likeness(b), &self.turn.settings.scale_up)
    }

    /// Lists one group for each other zone that some kind may have to go to: one like this group, else the first.
    fn partners(
        &self,
        group: usize,
        candidates: &[usize],
        demand: &[Demand],
        profiles: &Profiles,
    ) -> Vec<usize> {
        let groups = &self.turn.cluster.groups;
        let needs = demand.iter().any(|d| profiles[d.class].needs_other_domains());
        if !needs || groups[group].all_or_nothing {
            return Vec::new();
        }
        let own = domains(&self.turn.snapshot, mould(self.turn, group).model);
        let mut found: BTreeMap<Vec<u32>, (bool, usize)> = BTreeMap::new();
        for other in candidates.iter().copied().filter(|other| !groups[*other].all_or_nothing) {
            let there = domains(&self.turn.snapshot, mould(self.turn, other).model);
            if there == own || found.get(&there).is_some_and(|(is_like, _)| *is_like) {
                continue;
            }
            let is_like = self.is_like(group, other);
            if is_like || !found.contains_key(&there) {
                found.insert(there, (is_like, other));
            }
        }
        let mut all: Vec<usize> = found.into_values().map(|(_, group)| group).collect();
        all.sort_by(|a, b| groups[*a].name.cmp(&groups[*b].name));
        all
    }
}

pub(super) fn mould<'t>(turn: &'t Turn<'_>, group: usize) -> &'t Mould {
    turn.moulds[group].as_ref().expect("a candidate has a mould")
}

/// Lists the domains of a model that its like share.
fn domains(snapshot: &Snapshot<'_>, model: NodeId) -> Vec<u32> {
    let shared = |topology: &usize| !snapshot.topologies.is_hostname(*topology);
    let all = (0..snapshot.topologies.len()).filter(shared);
    all.map(|topology| snapshot.topologies.domain(topology, model)).collect()
}

/// Finds the first rule that keeps pods of a class off a new node.
pub(super) fn check_new(
    snapshot: &Snapshot<'_>,
    profiles: &Profiles,
    class: ClassId,
    model: NodeId,
) -> Option<Check> {
    snapshot.check_looks(class, model).or_else(|| snapshot.check_room(class, model)).or_else(|| {
        let profile = &profiles[class];
        let is_first = profile.is_first(snapshot);
        let lonely = profile.wants_company_on_its_host() && !is_first;
        let by_host = || {
            snapshot.classes[class]
                .terms
                .affinity
                .iter()
                .map(|c| snapshot.counters.plain[*c].topology)
                .find(|t| snapshot.topologies.is_hostname(*t))
        };
        match profile.domain_takes(snapshot, model, is_first) {
            Err(check) => Some(check),
            Ok(_) if lonely => Some(Check::Affinity(by_host().unwrap_or(NO_DOMAIN as usize))),
            Ok(_) => None,
        }
    })
}
