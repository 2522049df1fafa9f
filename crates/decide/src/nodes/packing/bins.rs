//! Packs node by node instead of class by class: each node repeatedly takes the pod that best fits its remaining resources.
//!
//! Where cpu and memory are both scarce, first fit leaves nodes with much of one and little of the other; choosing by the
//! remaining resources avoids that. It is slower, so it is only tried where first fit did badly.

use std::collections::BTreeMap;

use super::levels::Levels;
use super::{Demand, Offer, Packed, Packer, Profile, Profiles, Run};
use crate::nodes::Snapshot;

/// Classes with equal requests, and whether each of their pods needs a node of its own.
struct Bucket {
    needs_own_node: bool,
    request: Box<[i64]>,
    /// Indices in the demand.
    kinds: Vec<usize>,
}

/// Returns whether packing node by node is fast enough.
pub(in crate::nodes) fn is_affordable(profiles: &Profiles, demand: &[Demand]) -> bool {
    let pods: usize = demand.iter().map(|d| d.count as usize).sum();
    let has_volumes = demand.iter().any(|d| !profiles[d.class].volumes.is_empty());
    !has_volumes && buckets(profiles, demand).len().saturating_mul(pods) <= 2_000_000
}

/// Packs `demand` into new nodes of `offers`, one node after the other, trying the offers in order. Places nothing where an opened zone
/// would have invalidated earlier placements.
pub(in crate::nodes) fn pack_by_node(
    snapshot: &mut Snapshot<'_>,
    profiles: &Profiles,
    offers: &[Offer<'_>],
    demand: &[Demand],
    max_nodes: u32,
) -> Packed {
    let mut packer = Packer::new(snapshot, profiles, offers, max_nodes);
    packer.levels = Levels::zero(demand);
    let mut left: Vec<u32> = demand.iter().map(|d| d.count).collect();
    let mut buckets = buckets(profiles, demand);
    let mut runs = Vec::new();
    let mut refused = 0;
    let mut offer = 0;
    while refused < offers.len() && packer.nodes_left > 0 && packer.surprise.is_none() {
        let run = packer.fill_node(offer, &mut buckets, demand, &mut left);
        refused = if run.pods.is_empty() { refused + 1 } else { 0 };
        if !run.pods.is_empty() {
            packer.rooms[offer] -= 1;
            packer.nodes_left -= 1;
            runs.push(run);
        }
        offer = (offer + 1) % offers.len();
    }
    let sensitive_regions = packer.assumptions.regions(packer.snapshot);
    packer.take_back();
    if packer.surprise.is_some() {
        return Packed::default();
    }
    let placed = demand.iter().zip(left).map(|(d, left)| d.count - left).collect();
    Packed { runs, on_existing: Vec::new(), placed, sensitive_regions, is_by_node: true }
}

fn buckets(profiles: &Profiles, demand: &[Demand]) -> Vec<Bucket> {
    let mut all: BTreeMap<(bool, &[i64]), Vec<usize>> = BTreeMap::new();
    for (at, d) in demand.iter().enumerate() {
        let profile = &profiles[d.class];
        all.entry((!profile.needs_own_node(), &profile.request)).or_default().push(at);
    }
    let bucket = |((together, request), kinds): ((bool, &[i64]), Vec<usize>)| Bucket {
        needs_own_node: !together,
        request: request.into(),
        kinds,
    };
    all.into_iter().map(bucket).collect()
}

impl Packer<'_, '_> {
    /// Opens a node of an offer and fills it; returns it empty if no pod fits.
    fn fill_node(
        &mut self,
        offer: usize,
        buckets: &mut [Bucket],
        demand: &[Demand],
        left: &mut [u32],
    ) -> Run {
        let mut run = self.fresh[offer].opened(1);
        if self.rooms[offer] == 0 {
            return run;
        }
        let mut is_shut = vec![false; buckets.len()];
        loop {
            // Pods that need a node of their own need many, so every node takes one of them first.
            let is_empty = run.pods.is_empty();
            let own = || best(buckets, &run, self.fresh[offer].free(), &is_shut, true);
            let found = is_empty.then(own).flatten();
            let found =
                found.or_else(|| best(buckets, &run, self.fresh[offer].free(), &is_shut, false));
            let Some(at) = found else { return run };
            let profiles = self.profiles;
            let takes = |kind: &&usize| {
                let profile: &Profile = &profiles[demand[**kind].class];
                self.each_takes(profile, &run) > 0 && self.domain_takes(profile, offer) > 0
            };
            let Some(kind) = buckets[at].kinds.iter().find(takes).copied() else {
                is_shut[at] = true;
                continue;
            };
            let class = demand[kind].class;
            if is_empty {
                if self.would_invalidate(&profiles[class], 1, offer) {
                    return run;
                }
                self.count_nodes(offer, 1);
            }
            run.put(class, 1, &profiles[class]);
            self.count(&profiles[class], offer, 1);
            left[kind] -= 1;
            if left[kind] == 0 {
                buckets[at].kinds.retain(|k| *k != kind);
            }
        }
    }
}

/// Returns the classes that best fit a node's remaining resources: large ones that leave as much of its cpu as of its memory.
fn best(
    buckets: &[Bucket],
    run: &Run,
    has: &[i64],
    is_shut: &[bool],
    only_own: bool,
) -> Option<usize> {
    let share = |amount: i64, at: usize| amount as f64 / has[at].max(1) as f64;
    let score = |bucket: &Bucket| {
        let (cpu, memory) = (bucket.request[0], bucket.request[1]);
        let cpu_left = share(run.free()[0] - cpu, 0);
        let memory_left = share(run.free()[1] - memory, 1);
        share(cpu, 0) + share(memory, 1) - (cpu_left - memory_left).abs()
    };
    let mut found: Option<(f64, usize)> = None;
    for (at, bucket) in buckets.iter().enumerate() {
        let is_out = is_shut[at] || bucket.kinds.is_empty();
        if is_out || (only_own && !bucket.needs_own_node) || run.takes(&bucket.request) == 0 {
            continue;
        }
        let score = score(bucket);
        if found.is_none_or(|(best, _)| score > best) {
            found = Some((score, at));
        }
    }
    found.map(|(_, at)| at)
}
