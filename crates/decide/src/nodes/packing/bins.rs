//! Packs node by node instead of kind by kind: each node takes, again and again, the pod that best suits what it has left.
//!
//! Where cpu and memory are both short, first fit leaves nodes with much of one and little of the other; choosing by what
//! is left avoids that. It costs more, so it is only tried where first fit did badly.

use std::collections::BTreeMap;

use super::{Demand, Offer, Packed, Packer, Profile, Profiles, Run, Runs};
use crate::nodes::Snapshot;

/// Kinds that ask for the same, and whether they keep apart.
struct Bucket {
    keeps_apart: bool,
    request: Box<[i64]>,
    /// Places in the demand.
    kinds: Vec<usize>,
}

/// Tells whether packing node by node is worth its price.
pub(in crate::nodes) fn is_affordable(profiles: &Profiles, demand: &[Demand]) -> bool {
    let pods: usize = demand.iter().map(|d| d.count as usize).sum();
    let has_volumes = demand.iter().any(|d| !profiles[d.class].volumes.is_empty());
    !has_volumes && buckets(profiles, demand).len().saturating_mul(pods) <= 2_000_000
}

/// Packs `demand` into new nodes of `offers`, one node after the other, each offer in turn.
pub(in crate::nodes) fn pack_by_node(
    snapshot: &mut Snapshot<'_>,
    profiles: &Profiles,
    offers: &[Offer<'_>],
    demand: &[Demand],
    max_nodes: u32,
) -> Packed {
    let mut packer = Packer::new(snapshot, profiles, offers, max_nodes);
    let mut left: Vec<u32> = demand.iter().map(|d| d.count).collect();
    let buckets = buckets(profiles, demand);
    let mut refused = 0;
    let mut offer = 0;
    while refused < offers.len() && packer.nodes_left > 0 {
        let run = packer.fill_node(offer, &buckets, demand, &mut left);
        refused = if run.pods.is_empty() { refused + 1 } else { 0 };
        if !run.pods.is_empty() {
            packer.rooms[offer] -= 1;
            packer.nodes_left -= 1;
            packer.runs[offer].push_one(run);
        }
        offer = (offer + 1) % offers.len();
    }
    packer.take_back();
    let runs = packer.runs.into_iter().flat_map(Runs::into_all).collect();
    let placed = demand.iter().zip(left).map(|(d, left)| d.count - left).collect();
    Packed { runs, elsewhere: Vec::new(), placed }
}

fn buckets(profiles: &Profiles, demand: &[Demand]) -> Vec<Bucket> {
    let mut all: BTreeMap<(bool, &[i64]), Vec<usize>> = BTreeMap::new();
    for (at, d) in demand.iter().enumerate() {
        let profile = &profiles[d.class];
        all.entry((!profile.keeps_apart(), &profile.request)).or_default().push(at);
    }
    let bucket = |((together, request), kinds): ((bool, &[i64]), Vec<usize>)| Bucket {
        keeps_apart: !together,
        request: request.into(),
        kinds,
    };
    all.into_iter().map(bucket).collect()
}

impl Packer<'_, '_> {
    /// Opens a node of an offer and fills it; gives it back empty if it takes nothing.
    fn fill_node(
        &mut self,
        offer: usize,
        buckets: &[Bucket],
        demand: &[Demand],
        left: &mut [u32],
    ) -> Run {
        let mut run = self.fresh[offer].opened(1);
        if self.rooms[offer] == 0 {
            return run;
        }
        let weights = self.weights(offer, demand, left);
        let mut is_shut = vec![false; buckets.len()];
        loop {
            // Kinds that keep apart need many nodes, so every node takes one of them first.
            let is_empty = run.pods.is_empty();
            let apart = || best(buckets, &run, &weights, &is_shut, true);
            let found = is_empty.then(apart).flatten();
            let Some(at) = found.or_else(|| best(buckets, &run, &weights, &is_shut, false)) else {
                return run;
            };
            let profiles = self.profiles;
            let takes = |kind: &&usize| {
                let profile: &Profile = &profiles[demand[**kind].class];
                left[**kind] > 0
                    && self.domain_takes(profile, offer) > 0
                    && self.each_takes(profile, &run) > 0
            };
            let Some(kind) = buckets[at].kinds.iter().find(takes).copied() else {
                is_shut[at] = true;
                continue;
            };
            if is_empty {
                self.count_nodes(offer, 1);
            }
            let class = demand[kind].class;
            run.put(class, 1, &profiles[class]);
            self.count(&profiles[class], offer, 1);
            left[kind] -= 1;
        }
    }

    /// Weighs resources by how short they are: what is still asked for, in nodes.
    fn weights(&self, offer: usize, demand: &[Demand], left: &[u32]) -> Vec<f64> {
        let has = self.fresh[offer].free();
        let mut asked = vec![0.0; has.len()];
        for (d, left) in demand.iter().zip(left).filter(|(_, left)| **left > 0) {
            for (sum, one) in asked.iter_mut().zip(&self.profiles[d.class].request) {
                *sum += *one as f64 * f64::from(*left);
            }
        }
        let weight = |(asked, has): (f64, &i64)| {
            let has = (*has).max(1) as f64;
            // Request and what is left both count as shares of a node.
            asked / has / (has * has)
        };
        asked.into_iter().zip(has).map(weight).collect()
    }
}

/// Finds the kinds that best suit what a node has left.
fn best(
    buckets: &[Bucket],
    run: &Run,
    weights: &[f64],
    is_shut: &[bool],
    only_apart: bool,
) -> Option<usize> {
    let score = |bucket: &Bucket| -> f64 {
        let each = bucket.request.iter().zip(run.free()).zip(weights);
        each.map(|((asked, free), weight)| *asked as f64 * *free as f64 * weight).sum()
    };
    let mut found: Option<(f64, usize)> = None;
    for (at, bucket) in buckets.iter().enumerate() {
        if is_shut[at] || (only_apart && !bucket.keeps_apart) || run.takes(&bucket.request) == 0 {
            continue;
        }
        let score = score(bucket);
        if found.is_none_or(|(best, _)| score > best) {
            found = Some((score, at));
        }
    }
    found.map(|(_, at)| at)
}
