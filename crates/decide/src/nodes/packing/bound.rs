//! A lower bound on the number of nodes.

use std::collections::BTreeMap;
use std::fmt;

use super::{Demand, Profiles};
use crate::nodes::{NodeId, Snapshot};

/// A lower bound on the number of nodes, and the constraint that determines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    pub nodes: u32,
    pub forced_by: Force,
}

/// The constraint that determines a lower bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Force {
    Resource(Box<str>),
    PodsPerNode,
    HostPort,
    AntiAffinity,
    Spread,
}

impl fmt::Display for Force {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resource(name) => write!(f, "{name}"),
            Self::PodsPerNode => write!(f, "pods per node"),
            Self::HostPort => write!(f, "host ports"),
            Self::AntiAffinity => write!(f, "anti-affinity"),
            Self::Spread => write!(f, "spread"),
        }
    }
}

/// Returns the minimum number of new nodes like `model` that could take all of `demand`.
pub(in crate::nodes) fn bound(
    snapshot: &Snapshot<'_>,
    profiles: &Profiles,
    demand: &[Demand],
    model: NodeId,
) -> Bound {
    let mut best = Bound { nodes: 0, forced_by: Force::PodsPerNode };
    let mut raise = |nodes: i64, forced_by: Force| {
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        if nodes > best.nodes {
            best = Bound { nodes, forced_by };
        }
    };
    let pods: i64 = demand.iter().map(|d| i64::from(d.count)).sum();
    raise(ceil(pods, snapshot.slots(model)), Force::PodsPerNode);
    let mut asked = vec![0; snapshot.classes.width()];
    for d in demand {
        let request = &profiles[d.class].request;
        asked.iter_mut().zip(request).for_each(|(sum, one)| *sum += one * i64::from(d.count));
    }
    for (at, (asked, free)) in asked.iter().zip(snapshot.free(model)).enumerate() {
        raise(ceil(*asked, *free), Force::Resource(snapshot.classes.resource(at).into()));
    }
    let mut ports: BTreeMap<u32, i64> = BTreeMap::new();
    let mut apart: BTreeMap<usize, i64> = BTreeMap::new();
    let mut spread: BTreeMap<(usize, u32), i64> = BTreeMap::new();
    let keep_apart = demand.iter().filter(|d| profiles[d.class].has_own_anti_affinity());
    for Demand { class, count } in keep_apart {
        let (profile, count) = (&profiles[*class], i64::from(*count));
        profile.ports.iter().for_each(|port| *ports.entry(*port).or_default() += count);
        for anti in profile.local.anti.iter().filter(|anti| anti.means_itself) {
            *apart.entry(anti.counter).or_default() += count;
        }
        for (rule, _) in profile.local.spread.iter().filter(|(rule, _)| rule.own == 1) {
            *spread.entry((rule.counter, rule.max_skew)).or_default() += count;
        }
    }
    ports.into_values().for_each(|count| raise(count, Force::HostPort));
    apart.into_values().for_each(|count| raise(count, Force::AntiAffinity));
    for ((counter, max_skew), count) in spread {
        let counter = &snapshot.counters.spread[counter];
        let region = &snapshot.counters.regions[counter.region];
        // An empty node that stays empty limits all others to the skew.
        if region.present() > 0 && counter.least(region) == 0 {
            raise(ceil(count, i64::from(max_skew)), Force::Spread);
        }
    }
    best
}

fn ceil(amount: i64, each: i64) -> i64 {
    if amount <= 0 {
        return 0;
    }
    if each <= 0 { i64::MAX } else { (amount - 1) / each + 1 }
}
