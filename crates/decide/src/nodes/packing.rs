//! Packs pending pods into new nodes of a group, one class of pods at a time.
//!
//! First fit decreasing. Nodes with equal contents are kept as one run, so that a thousand equal nodes cost as much as one.
//! Constraints within a node (ports, anti-affinity by host) are counted in its run; constraints within a zone are counted in the
//! snapshot, and reverted at the end.
//!
//! A class that has to spread over zones, or that its own zone rejects, may also open nodes of the group's partners in other
//! zones: one plan satisfies it, not one node per evaluation. Where a zone opened for a later class would have kept out earlier
//! pods, all are packed again with that zone counted from the start.

mod assumptions;
mod bins;
mod bound;
mod levels;
mod profile;
mod run;

use std::collections::BTreeSet;

use super::snapshot::{ClassId, NO_DOMAIN, SpreadRule};
use super::templates::NodeTemplate;
use super::{NodeId, Snapshot};

use assumptions::SpreadAssumptions;
pub(super) use bins::{is_affordable, pack_by_node};
pub(super) use bound::bound;
pub use bound::{Bound, Force};
use levels::Levels;
pub(super) use profile::{Profile, Profiles};
pub(super) use run::Run;
use run::{Fill, Runs};

/// A number of pods of one class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    pub(super) class: ClassId,
    pub(super) count: u32,
}

/// A group that may get new nodes.
pub(super) struct Offer<'m> {
    pub(super) node_template: &'m NodeTemplate,
    /// How many nodes it may still get.
    pub(super) room: u32,
}

/// The result of packing.
#[derive(Default)]
pub(super) struct Packed {
    /// New nodes; [`Run::offer`] is the index of their offer.
    pub(super) runs: Vec<Run>,
    /// Pods that fit on existing nodes after all, now that others are placed.
    pub(super) on_existing: Vec<(ClassId, NodeId)>,
    /// How many pods of each demand are placed.
    pub(super) placed: Vec<u32>,
    /// The regions of spread constraints in which an empty zone would have kept pods out.
    pub(super) sensitive_regions: BTreeSet<usize>,
    /// Packed one node at a time, not one class at a time.
    pub(super) is_by_node: bool,
}

impl Packed {
    /// Returns whether a node like `model` would invalidate placements, because it is in a zone where neither the cluster nor
    /// this packing (into nodes like `models`) has one.
    pub(super) fn is_invalidated_by(
        &self,
        snapshot: &Snapshot<'_>,
        models: &[NodeId],
        model: NodeId,
    ) -> bool {
        let is_opened = |region: usize| {
            let of = &snapshot.counters.regions[region];
            self.runs.iter().any(|run| of.domain_of(models[run.offer]) == of.domain_of(model))
        };
        let mut sensitive_regions = self.sensitive_regions.iter();
        sensitive_regions
            .any(|region| assumptions::opens(snapshot, *region, model) && !is_opened(*region))
    }

    pub(super) fn nodes(&self) -> u32 {
        self.runs.iter().map(|run| run.nodes).sum()
    }

    pub(super) fn pods(&self) -> u32 {
        self.placed.iter().sum()
    }

    /// Returns whether it places more pods, or as many on fewer nodes.
    pub(super) fn is_better_than(&self, other: &Self) -> bool {
        let rank = |packed: &Self| (packed.pods(), std::cmp::Reverse(packed.nodes()));
        rank(self) > rank(other)
    }
}

/// Packs `demand`, in its order, into new nodes of `offers`: the first is the group's own, the others are its partners'.
pub(super) fn pack(
    snapshot: &mut Snapshot<'_>,
    profiles: &Profiles,
    offers: &[Offer<'_>],
    demand: &[Demand],
    max_nodes: u32,
) -> Packed {
    let mut expected = Vec::new();
    let mut levels = Levels::default();
    let models: Vec<NodeId> = offers.iter().map(|offer| offer.node_template.model).collect();
    loop {
        let mark = snapshot.mark();
        let mut packer = Packer::new(snapshot, profiles, offers, max_nodes);
        packer.levels = levels.clone();
        expected.iter().for_each(|offer| packer.count_nodes(*offer, 1));
        let placed = demand.iter().map(|d| packer.pack_class(d.class, d.count)).collect();
        let sensitive_regions = packer.assumptions.regions(packer.snapshot);
        packer.take_back();
        let Packer { runs, on_existing, surprise, .. } = packer;
        let opened: Vec<&Run> = runs.iter().flat_map(Runs::iter).collect();
        let is_lowered = levels.lower(snapshot, profiles, demand, (&opened, &models));
        snapshot.undo_to(mark);
        match surprise {
            Some(offer) => expected.push(offer),
            None if is_lowered => {}
            None => {
                let runs = runs.into_iter().flat_map(Runs::into_all).collect();
                return Packed { runs, on_existing, placed, sensitive_regions, is_by_node: false };
            }
        }
    }
}

struct Packer<'p, 's> {
    snapshot: &'p mut Snapshot<'s>,
    profiles: &'p Profiles,
    offers: &'p [Offer<'p>],
    /// An empty new node of each offer.
    fresh: Vec<Run>,
    rooms: Vec<u32>,
    nodes_left: u32,
    /// The number of opened nodes of each offer.
    runs: Vec<Runs>,
    on_existing: Vec<(ClassId, NodeId)>,
    changes: Vec<Change>,
    assumptions: SpreadAssumptions,
    /// An offer whose zone had to be counted before it was opened.
    surprise: Option<usize>,
    /// The assumptions about spread by host.
    levels: Levels,
    /// Whether nodes are only filled up to their level for now.
    is_levelling: bool,
}

/// A change of a count in the snapshot, to be reverted.
enum Change {
    Plain { counter: usize, domain: u32, by: i32 },
    Spread { counter: usize, domain: u32, by: i32 },
    Nodes { region: usize, domain: u32, by: i32 },
}

impl<'p, 's> Packer<'p, 's> {
    fn new(
        snapshot: &'p mut Snapshot<'s>,
        profiles: &'p Profiles,
        offers: &'p [Offer<'p>],
        max_nodes: u32,
    ) -> Self {
        let fresh = offers.iter().enumerate().map(|(at, offer)| Run::fresh(snapshot, offer, at));
        Self {
            fresh: fresh.collect(),
            snapshot,
            profiles,
            offers,
            rooms: offers.iter().map(|offer| offer.room).collect(),
            nodes_left: max_nodes,
            runs: offers.iter().map(|_| Runs::default()).collect(),
            on_existing: Vec::new(),
            changes: Vec::new(),
            assumptions: SpreadAssumptions::default(),
            surprise: None,
            levels: Levels::default(),
            is_levelling: false,
        }
    }
}

impl Packer<'_, '_> {
    /// Packs up to `count` pods of a class; returns how many were placed.
    fn pack_class(&mut self, class: ClassId, count: u32) -> u32 {
        let profiles = self.profiles;
        let profile = &profiles[class];
        // A ReadWriteOncePod volume allows one pod, or none if it is in use.
        let count = count.min(self.snapshot.exclusive_takes(&profile.volumes));
        let mut left = count;
        if profile.is_free_of_others() {
            for offer in 0..self.offers.len() {
                left -= self.fill_runs(profile, class, left, offer);
            }
            left -= self.open(profile, class, left, 0);
            return count - left;
        }
        let mut refused_at = None;
        loop {
            let before = left;
            left -= self.fill_existing(profile, class, left, &mut refused_at);
            for offer in self.by_count(profile) {
                left -= self.fill_runs(profile, class, left, offer);
                if left == before {
                    left -= self.open(profile, class, left, offer);
                }
                if left < before {
                    break;
                }
            }
            if left == before || left == 0 {
                return count - left;
            }
        }
    }

    /// Returns the offers sorted by the number of pods of the class's spread constraints in their domain.
    fn by_count(&self, profile: &Profile) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.offers.len()).collect();
        if let Some((rule, _)) = profile.domain.spread.first() {
            let counter = &self.snapshot.counters.spread[rule.counter];
            let region = &self.snapshot.counters.regions[counter.region];
            all.sort_by_key(|at| {
                let domain = region.domain_of(self.offers[*at].node_template.model);
                if domain == NO_DOMAIN { u32::MAX } else { counter.at(domain) }
            });
        }
        all
    }

    /// Places pods on existing nodes, which other pods may have made possible.
    fn fill_existing(
        &mut self,
        profile: &Profile,
        class: ClassId,
        left: u32,
        refused_at: &mut Option<u64>,
    ) -> u32 {
        let mut placed = 0;
        while placed < left && profile.may_fit_existing {
            // Nothing that could make it fit has changed since it was rejected.
            let stamp = self.stamp(profile);
            if *refused_at == Some(stamp) {
                break;
            }
            let Some(node) = self.snapshot.first_fit_of(class, 0, |_| true) else {
                *refused_at = Some(stamp);
                break;
            };
            self.snapshot.put_class(class, node);
            self.on_existing.push((class, node));
            self.assumptions.note(self.snapshot, profile, node);
            placed += 1;
        }
        placed
    }

    fn stamp(&self, profile: &Profile) -> u64 {
        let counters = &self.snapshot.counters;
        let least = profile.domain.spread.iter().map(|(rule, _)| {
            let counter = &counters.spread[rule.counter];
            u64::from(counter.least(&counters.regions[counter.region]))
        });
        let met =
            profile.affinity().map(|counter| u64::from(counters.plain[counter].total > 0) << 32);
        least.chain(met).sum()
    }

    /// Places pods on opened nodes of an offer. Those with spread by host first go where there are fewest.
    fn fill_runs(&mut self, profile: &Profile, class: ClassId, left: u32, offer: usize) -> u32 {
        let mut placed = 0;
        if !profile.local.spread.is_empty() {
            self.is_levelling = true;
            placed = self.fill_in_order(profile, class, left, offer);
            self.is_levelling = false;
        }
        placed + self.fill_in_order(profile, class, left - placed, offer)
    }

    /// Places pods on opened nodes of an offer, in the order in which they were opened.
    fn fill_in_order(&mut self, profile: &Profile, class: ClassId, left: u32, offer: usize) -> u32 {
        let left = left.min(self.domain_takes(profile, offer));
        let mut placed = 0;
        let mut at = self.runs[offer].start(&profile.request);
        while placed < left
            && let Some(place) = at
        {
            let run = self.runs[offer].get(place);
            let each = self.each_takes(profile, run);
            if each == 0 {
                at = self.runs[offer].next(place, &profile.request);
                continue;
            }
            let nodes = if self.starts_a_host(profile) { 1 } else { run.nodes };
            let total = (left - placed).min(each.saturating_mul(nodes));
            let fill = Fill { class, each, total, profile };
            let after = self.runs[offer].fill(place, &fill);
            self.count(profile, offer, total);
            placed += total;
            at = self.runs[offer].next(after, &profile.request);
        }
        placed
    }

    /// Returns whether the pods have affinity to each other by host, and none of them is placed.
    fn starts_a_host(&self, profile: &Profile) -> bool {
        !profile.local.affinity.is_empty() && profile.is_first(self.snapshot)
    }

    /// Opens new nodes of an offer.
    fn open(&mut self, profile: &Profile, class: ClassId, left: u32, offer: usize) -> u32 {
        let may = self.rooms[offer].min(self.nodes_left);
        let left = left.min(self.domain_takes(profile, offer));
        if left == 0 || may == 0 {
            return 0;
        }
        let each = self.each_takes(profile, &self.fresh[offer]);
        let may = if self.starts_a_host(profile) { may.min(1) } else { may };
        let total = left.min(each.saturating_mul(may));
        if total == 0 {
            return 0;
        }
        if self.would_invalidate(profile, total, offer) {
            return 0;
        }
        // Spread by host considers all nodes, so the remainder must not stand out.
        let evens = !profile.local.spread.is_empty();
        let opened: u32 = self.runs.iter().flat_map(Runs::iter).map(|run| run.nodes).sum();
        let fewest = levels::fewest_nodes(self.snapshot, profile).saturating_sub(opened);
        let nodes = total.div_ceil(each).max(fewest.min(total).min(may));
        let each = if evens { total.div_ceil(nodes) } else { each };
        let fill = Fill { class, each, total, profile };
        self.runs[offer].push(self.fresh[offer].opened(nodes), &fill, evens);
        self.rooms[offer] -= nodes;
        self.nodes_left -= nodes;
        self.count_nodes(offer, nodes);
        self.count(profile, offer, total);
        total
    }

    /// Returns whether the zone of this offer would invalidate placements; records it if so.
    fn would_invalidate(&mut self, profile: &Profile, pods: u32, offer: usize) -> bool {
        let Offer { node_template, room } = &self.offers[offer];
        let is_first = self.rooms[offer] == *room;
        let is_one = is_first
            && self.assumptions.is_violated_by(self.snapshot, node_template.model, (profile, pods));
        if is_one {
            self.surprise.get_or_insert(offer);
        }
        is_one
    }

    /// Returns how many pods of a class fit on each node of a run, by the constraints within a node.
    fn each_takes(&self, profile: &Profile, run: &Run) -> u32 {
        let mut most = run.takes(&profile.request);
        let local = &profile.local;
        for anti in &local.anti {
            most = if run.count(anti.counter) > 0 {
                0
            } else if anti.means_itself {
                most.min(1)
            } else {
                most
            };
        }
        if most == 0 || local.unwanted_by.iter().any(|counter| run.count(*counter) > 0) {
            return 0;
        }
        if local.affinity.iter().any(|counter| run.count(*counter) == 0)
            && !profile.is_first(self.snapshot)
        {
            return 0;
        }
        for (rule, _) in &local.spread {
            most = most.min(self.host_takes(profile.class, rule, run));
        }
        if !profile.ports.is_empty() {
            let clashes = self.snapshot.ports_clash(&profile.ports, &run.ports);
            most = if clashes { 0 } else { most.min(1) };
        }
        if profile.volumes.is_empty() || most == 0 {
            return most;
        }
        let model = self.offers[run.offer].node_template.model;
        let takes = self.snapshot.takes_volumes(&profile.volumes, model, &run.volumes);
        if takes { most } else { 0 }
    }

    /// Returns how many pods a spread constraint by host allows, if every node gets as many as the level of the class allows.
    fn host_takes(&self, class: ClassId, rule: &SpreadRule, run: &Run) -> u32 {
        let least = self.levels.level(self.snapshot, class, rule);
        let skew = if self.is_levelling { 0 } else { rule.max_skew };
        let (most, have) = (least.saturating_add(skew), run.spread_count(rule.counter));
        match rule.own {
            0 if have <= most => u32::MAX,
            0 => 0,
            _ => most.saturating_sub(have),
        }
    }

    /// Returns how many pods of a class an offer takes, by the constraints on its node and its domains.
    fn domain_takes(&self, profile: &Profile, offer: usize) -> u32 {
        let model = self.offers[offer].node_template.model;
        // All classes fit the first offer, but its partners' nodes may differ.
        if offer > 0 && self.snapshot.check_static(profile.class, model).is_some() {
            return 0;
        }
        if profile.domain.is_empty() {
            return u32::MAX;
        }
        profile.domain_takes(self.snapshot, model, profile.is_first(self.snapshot)).unwrap_or(0)
    }

    /// Counts pods in the domains of an offer.
    fn count(&mut self, profile: &Profile, offer: usize, pods: u32) {
        let (model, by) = (self.offers[offer].node_template.model, pods.cast_signed());
        // By host, only the existence of such pods matters here, not their host.
        for counter in profile.domain.counts_for.iter().chain(&profile.local.counts_for) {
            let topology = self.snapshot.counters.plain[*counter].topology;
            let domain = self.snapshot.topologies.domain(topology, model);
            self.change(Change::Plain { counter: *counter, domain, by });
        }
        for counter in &profile.domain.spreads_for {
            let region = self.snapshot.counters.spread[*counter].region;
            let domain = self.snapshot.counters.regions[region].domain_of(model);
            self.change(Change::Spread { counter: *counter, domain, by });
        }
        self.assumptions.note(self.snapshot, profile, model);
    }

    fn count_nodes(&mut self, offer: usize, nodes: u32) {
        let model = self.offers[offer].node_template.model;
        for region in 0..self.snapshot.counters.regions.len() {
            let domain = self.snapshot.counters.regions[region].domain_of(model);
            if !self.snapshot.is_host_region(region) {
                self.change(Change::Nodes { region, domain, by: nodes.cast_signed() });
            }
        }
    }

    fn change(&mut self, change: Change) {
        make(self.snapshot, &change, 1);
        self.changes.push(change);
    }

    fn take_back(&mut self) {
        while let Some(change) = self.changes.pop() {
            make(self.snapshot, &change, -1);
        }
    }
}

fn make(snapshot: &mut Snapshot<'_>, change: &Change, sign: i32) {
    let counters = &mut snapshot.counters;
    match *change {
        Change::Plain { counter, domain, by } => counters.plain[counter].add(domain, sign * by),
        Change::Spread { counter, domain, by } => counters.spread[counter].add(domain, sign * by),
        Change::Nodes { region, domain, by } => {
            counters.regions[region].add_nodes(domain, sign * by)
        }
    }
}
