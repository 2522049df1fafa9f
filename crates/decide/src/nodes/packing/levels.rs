//! Spread by host: how many pods of a class a new node may have.
//!
//! The nodes of a plan all count for a spread constraint, also those that later classes open, and one without pods of the class lowers
//! the minimum to zero. So packing assumes a level, the number of pods that every node gets at least, and is repeated with a lower
//! one where the result does not keep it. At level zero every result does.

use std::collections::BTreeMap;

use super::{Demand, Profile, Profiles, Run};
use crate::nodes::snapshot::{ClassId, NO_DOMAIN, SpreadRule};
use crate::nodes::{NodeId, Snapshot};

/// The least number of pods of a class on every node, where it is assumed to be lower than at first.
#[derive(Clone, Default)]
pub(super) struct Levels {
    of: BTreeMap<ClassId, u32>,
    lowered: u32,
}

/// How often a level is lowered by as little as possible, before it is halved each time.
const SMALL_STEPS: u32 = 8;

impl Levels {
    /// Returns levels that every packing keeps.
    pub(super) fn zero(demand: &[Demand]) -> Self {
        Self { of: demand.iter().map(|d| (d.class, 0)).collect(), lowered: 0 }
    }

    /// Returns the level of a class: at first the minimum of the existing nodes, or any if there are none.
    pub(super) fn level(&self, snapshot: &Snapshot<'_>, class: ClassId, rule: &SpreadRule) -> u32 {
        let counter = &snapshot.counters.spread[rule.counter];
        let region = &snapshot.counters.regions[counter.region];
        let existing = if region.present() == 0 { u32::MAX } else { counter.least(region) };
        self.of.get(&class).copied().unwrap_or(u32::MAX).min(existing)
    }

    /// Lowers the levels that a packing into nodes like `models` did not keep; returns whether there are any.
    pub(super) fn lower(
        &mut self,
        snapshot: &Snapshot<'_>,
        profiles: &Profiles,
        demand: &[Demand],
        (runs, models): (&[&Run], &[NodeId]),
    ) -> bool {
        let mut is_lowered = false;
        for class in demand.iter().map(|d| d.class) {
            for (rule, _) in &profiles[class].local.spread {
                let most = highest(runs, class, rule);
                let kept = minimum(snapshot, rule, runs, models).saturating_add(rule.max_skew);
                if rule.own == 0 || most <= kept {
                    continue;
                }
                let next = most.saturating_sub(rule.max_skew.saturating_add(1));
                let next = if self.lowered < SMALL_STEPS { next } else { next / 2 };
                let level = self.of.entry(class).or_insert(u32::MAX);
                is_lowered |= *level > next;
                *level = next.min(*level);
            }
        }
        self.lowered += u32::from(is_lowered);
        is_lowered
    }
}

/// Returns the most pods that a constraint counts on a node with pods of the class.
fn highest(runs: &[&Run], class: ClassId, rule: &SpreadRule) -> u32 {
    let has = |run: &&&Run| run.pods.iter().any(|(c, count)| *c == class && *count > 0);
    runs.iter().filter(has).map(|run| run.spread_count(rule.counter)).max().unwrap_or(0)
}

/// Returns the minimum over existing and new nodes, 0 if they are fewer than the constraint requires.
fn minimum(snapshot: &Snapshot<'_>, rule: &SpreadRule, runs: &[&Run], models: &[NodeId]) -> u32 {
    let counter = &snapshot.counters.spread[rule.counter];
    let region = &snapshot.counters.regions[counter.region];
    let counts = |run: &&&Run| region.domain_of(models[run.offer]) != NO_DOMAIN;
    let new = runs.iter().filter(counts);
    let nodes: u32 = new.clone().map(|run| run.nodes).sum();
    if region.present().saturating_add(nodes) < rule.min_domains {
        return 0;
    }
    let existing = (region.present() > 0).then(|| counter.least(region));
    new.map(|run| run.spread_count(rule.counter)).chain(existing).min().unwrap_or(0)
}

/// Returns how many new nodes the constraints of a class require, besides the existing ones.
pub(super) fn fewest_nodes(snapshot: &Snapshot<'_>, profile: &Profile) -> u32 {
    let missing = |rule: &SpreadRule| {
        let region = snapshot.counters.spread[rule.counter].region;
        rule.min_domains.saturating_sub(snapshot.counters.regions[region].present())
    };
    profile.local.spread.iter().map(|(rule, _)| missing(rule)).max().unwrap_or(0)
}
