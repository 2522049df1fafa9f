//! Computes what each group could do for the pending pods.

use std::collections::BTreeMap;

use super::Planning;
use crate::nodes::balance::{NewNode, is_similar};
use crate::nodes::expander::{self, Choice};
use crate::nodes::packing::{self, Demand, Offer, Packed, Profiles};
use crate::nodes::snapshot::{Check, ClassId, NO_DOMAIN};
use crate::nodes::templates::NodeTemplate;
use crate::nodes::{Evaluation, Expander, NodeId, PodId, Snapshot};

/// An expansion option: what one group could do.
pub(super) struct ExpansionOption {
    pub(super) choice: Choice,
    pub(super) packed: Packed,
    pub(super) demand: Vec<Demand>,
    /// The group of each offer.
    pub(super) offers: Vec<usize>,
    /// Groups that may get nodes meant for the first offer.
    pub(super) similar: Vec<usize>,
}

/// Above this product of classes and groups, groups that cannot win are not packed.
const SMALL: usize = 20_000;

impl<'a> Planning<'_, 'a> {
    /// Packs the pods into each candidate, or at least into each that may be chosen. Sorted by name.
    pub(super) fn options(&mut self, candidates: &[usize]) -> Vec<ExpansionOption> {
        let models: Vec<NodeId> =
            candidates.iter().map(|group| node_template(self.evaluation, *group).model).collect();
        let profiles =
            Profiles::new(&self.evaluation.snapshot, self.waiting.keys().copied(), &models);
        let is_small = candidates.len() * self.waiting.len() <= SMALL;
        let mut ranked: Vec<(f64, usize, Vec<Demand>)> = Vec::new();
        let distinct = if is_small {
            candidates.to_vec()
        } else {
            self.without_equivalent(candidates, &profiles)
        };
        for group in &distinct {
            let demand = self.feasible(*group, &profiles);
            if !demand.is_empty() {
                let hope = if is_small { 0.0 } else { self.hope(*group, &demand, &profiles) };
                ranked.push((hope, *group, demand));
            }
        }
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        let first = self.evaluation.settings.expanders.first().copied();
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
        let name =
            |option: &ExpansionOption| &self.evaluation.cluster.groups[option.choice.group].name;
        options.sort_by(|a, b| name(a).cmp(name(b)));
        options
    }

    /// Returns the classes that fit on a new node of the group, largest first.
    fn feasible(&self, group: usize, profiles: &Profiles) -> Vec<Demand> {
        let (snapshot, node_template) =
            (&self.evaluation.snapshot, node_template(self.evaluation, group));
        let fits = |class: &ClassId| check_new(snapshot, profiles, *class, node_template).is_none();
        let demand = |(class, pods): (&ClassId, &Vec<_>)| Demand {
            class: *class,
            count: u32::try_from(pods.len()).unwrap_or(u32::MAX),
        };
        self.waiting.iter().filter(|(class, _)| fits(class)).map(demand).collect()
    }

    /// Sorts classes by the fraction of a node that they request, then by their first pod's name.
    fn sort(&self, group: usize, demand: &mut Vec<Demand>) {
        let snapshot = &self.evaluation.snapshot;
        let has = &node_template(self.evaluation, group).node.allocatable;
        let share = |asked: i64, has: i64| if has > 0 { asked as f64 / has as f64 } else { 0.0 };
        let score = |class: ClassId| {
            let request = &snapshot.classes[class].request;
            share(request[0], has.cpu) + share(request[1], has.memory)
        };
        let pods = &self.evaluation.cluster.pods;
        let first = |d: &Demand| {
            let pod = &pods[self.first(d.class)];
            (&pod.spec.namespace, &pod.name)
        };
        let mut scored: Vec<(f64, Demand)> = demand.iter().map(|d| (score(d.class), *d)).collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| first(&a.1).cmp(&first(&b.1))));
        *demand = scored.into_iter().map(|(_, d)| d).collect();
    }

    /// Returns the first pod of a class by name.
    fn first(&self, class: ClassId) -> PodId {
        let pods = &self.evaluation.cluster.pods;
        *self.firsts.borrow_mut().entry(class).or_insert_with(|| {
            let first = self.waiting[&class].iter().min_by_key(|pod| &pods[**pod].name);
            *first.expect("a pending class has pods")
        })
    }

    /// Returns the best score that a group could reach with the first expander, without packing.
    fn hope(&self, group: usize, demand: &[Demand], profiles: &Profiles) -> f64 {
        let first = self.evaluation.settings.expanders.first().copied();
        let model = node_template(self.evaluation, group).model;
        let fewest = packing::bound(&self.evaluation.snapshot, profiles, demand, model).nodes;
        let is_limited = self.room(group) < fewest;
        match first {
            Some(Expander::Price | Expander::Random | Expander::Grpc) | None => f64::NEG_INFINITY,
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
        self.evaluation.cluster.groups[group].max.saturating_sub(self.sizes[group])
    }

    fn option(
        &mut self,
        group: usize,
        mut demand: Vec<Demand>,
        candidates: &[usize],
        profiles: &Profiles,
    ) -> Option<ExpansionOption> {
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
        let mut option = ExpansionOption { choice, packed, demand, offers, similar };
        option.choice.group = group;
        // In a large cluster only the chosen option gets a second attempt.
        if candidates.len() * self.waiting.len() <= SMALL
            && let Some((packed, demand)) =
                self.anti_affinity_first(&option, room, profiles, max_nodes)
        {
            (option.packed, option.demand) = (packed, demand);
        }
        option.choice = self.judge(&option);
        Some(option)
    }

    fn judge(&self, option: &ExpansionOption) -> Choice {
        let group = option.choice.group;
        let mut nodes: Vec<(usize, u32)> = option.offers.iter().map(|group| (*group, 0)).collect();
        option.packed.runs.iter().for_each(|run| nodes[run.offer].1 += run.nodes);
        if self.evaluation.cluster.groups[group].all_or_nothing {
            nodes[0].1 = self.room(group);
        }
        let placed: BTreeMap<ClassId, u32> =
            option.demand.iter().zip(&option.packed.placed).map(|(d, n)| (d.class, *n)).collect();
        self.choice(group, &nodes, option.packed.pods(), &option.demand, |d| placed[&d.class])
    }

    /// Packs classes with anti-affinity by host first, and returns the result if it is better.
    ///
    /// They need a node for every few of them, so they open nodes that the others then fill; whether that is better than largest
    /// first is only known after trying.
    pub(super) fn anti_affinity_first(
        &mut self,
        option: &ExpansionOption,
        room: u32,
        profiles: &Profiles,
        max_nodes: u32,
    ) -> Option<(Packed, Vec<Demand>)> {
        let (mut apart, others): (Vec<Demand>, Vec<Demand>) =
            option.demand.iter().partition(|d| profiles[d.class].has_own_anti_affinity());
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

    /// Packs an option again, node by node.
    pub(super) fn pack_by_node(&mut self, option: &ExpansionOption, profiles: &Profiles) -> Packed {
        let max_nodes = self.quota.plan_left().min(self.quota.nodes_left());
        let room = self.room_of(option.choice.group, &option.similar, &option.demand, profiles);
        let (snapshot, offers) = self.offers(&option.offers, room);
        packing::pack_by_node(snapshot, profiles, &offers, &option.demand, max_nodes)
    }

    /// Returns how many nodes a group may open: including similar groups, unless zones constrain where its nodes are.
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
        let Evaluation { snapshot, node_templates, .. } = &mut *self.evaluation;
        let offer = |(at, group): (usize, &usize)| Offer {
            node_template: node_templates[*group].as_ref().expect("a candidate has a template"),
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
            let has = &node_template(self.evaluation, *group).node.capacity;
            capacity.0 += f64::from(*nodes) * has.cpu as f64;
            capacity.1 += f64::from(*nodes) * has.memory as f64;
        }
        for d in demand {
            let request = &self.evaluation.snapshot.classes[d.class].request;
            requested.0 += request[0] as f64 * f64::from(placed(d));
            requested.1 += request[1] as f64 * f64::from(placed(d));
        }
        let of = &self.evaluation.cluster.groups[group];
        Choice {
            group,
            nodes: nodes.iter().map(|(_, nodes)| nodes).sum(),
            pods,
            capacity,
            requested,
            price: of.price,
            unit_prices: self.unit_prices,
            priority: of.priority,
            has_gpu: node_template(self.evaluation, group).node.capacity.has_gpu(),
            cluster_nodes: self.cluster_nodes,
        }
    }

    /// Returns the groups that nodes meant for this one may go to instead, to balance their sizes.
    fn similar(
        &self,
        group: usize,
        candidates: &[usize],
        demand: &[Demand],
        profiles: &Profiles,
    ) -> Vec<usize> {
        let groups = &self.evaluation.cluster.groups;
        if !self.evaluation.settings.scale_up.balance_similar_groups || groups[group].all_or_nothing
        {
            return Vec::new();
        }
        let takes_all = |other: usize| {
            let (snapshot, template) =
                (&self.evaluation.snapshot, node_template(self.evaluation, other));
            demand.iter().all(|d| check_new(snapshot, profiles, d.class, template).is_none())
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
            let node_template = node_template(self.evaluation, group);
            NewNode {
                node: &node_template.node,
                free: self.evaluation.snapshot.free(node_template.model),
            }
        };
        is_similar(&likeness(a), &likeness(b), &self.evaluation.settings.scale_up)
    }

    /// Returns one group for each other zone that some class may have to use: a similar one if possible, else the first.
    fn partners(
        &self,
        group: usize,
        candidates: &[usize],
        demand: &[Demand],
        profiles: &Profiles,
    ) -> Vec<usize> {
        let groups = &self.evaluation.cluster.groups;
        let needs = demand.iter().any(|d| profiles[d.class].needs_other_domains());
        if !needs || groups[group].all_or_nothing {
            return Vec::new();
        }
        let own = domains(&self.evaluation.snapshot, node_template(self.evaluation, group).model);
        let mut found: BTreeMap<Vec<u32>, (bool, usize)> = BTreeMap::new();
        for other in candidates.iter().copied().filter(|other| !groups[*other].all_or_nothing) {
            let there =
                domains(&self.evaluation.snapshot, node_template(self.evaluation, other).model);
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

pub(super) fn node_template<'t>(evaluation: &'t Evaluation<'_>, group: usize) -> &'t NodeTemplate {
    evaluation.node_templates[group].as_ref().expect("a candidate has a template")
}

/// Returns the domains that a model shares with nodes like it.
fn domains(snapshot: &Snapshot<'_>, model: NodeId) -> Vec<u32> {
    let shared = |topology: &usize| !snapshot.topologies.is_hostname(*topology);
    let all = (0..snapshot.topologies.len()).filter(shared);
    all.map(|topology| snapshot.topologies.domain(topology, model)).collect()
}

/// Returns the first rule that rejects pods of a class on a new node.
pub(super) fn check_new(
    snapshot: &Snapshot<'_>,
    profiles: &Profiles,
    class: ClassId,
    node_template: &NodeTemplate,
) -> Option<Check> {
    let model = node_template.model;
    snapshot.check_static(class, model).or_else(|| snapshot.check_room(class, model)).or_else(
        || {
            let profile = &profiles[class];
            let is_first = profile.is_first(snapshot);
            let lonely = profile.has_host_affinity() && !is_first;
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
                Ok(_) => profile.daemon_conflict(snapshot, &node_template.daemons),
            }
        },
    )
}
