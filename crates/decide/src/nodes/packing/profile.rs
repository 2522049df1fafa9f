//! The constraints of a class, separated into those within a node and those within a zone.

use std::ops::Index;

use crate::nodes::snapshot::{Anti, Check, ClassId, NO_DOMAIN, SpreadRule};
use crate::nodes::{NodeId, Snapshot};

/// The constraints of one class.
#[derive(Default)]
pub(in crate::nodes) struct Profile {
    pub(super) class: ClassId,
    pub(super) request: Box<[i64]>,
    pub(super) ports: Box<[u32]>,
    pub(super) volumes: Box<[u32]>,
    /// By host.
    pub(super) local: Watch,
    /// By zone, or by another domain that new nodes of a group share.
    pub(super) domain: Watch,
    pub(super) affine_to_self: bool,
    /// Some existing node matches and is large enough.
    pub(super) may_fit_existing: bool,
}

/// Counters to check, and counters to update.
#[derive(Default)]
pub(super) struct Watch {
    pub(super) counts_for: Vec<usize>,
    pub(super) spreads_for: Vec<usize>,
    pub(super) affinity: Vec<usize>,
    pub(super) anti: Vec<Anti>,
    pub(super) unwanted_by: Vec<usize>,
    /// With the domains in which groups could add nodes: without one they count as empty.
    pub(super) spread: Vec<(SpreadRule, Vec<u32>)>,
}

impl Watch {
    /// Returns whether there are no constraints.
    pub(super) fn is_empty(&self) -> bool {
        let Self { affinity, anti, unwanted_by, spread, .. } = self;
        affinity.is_empty() && anti.is_empty() && unwanted_by.is_empty() && spread.is_empty()
    }
}

/// The profiles of the classes that are packed.
#[derive(Default)]
pub(in crate::nodes) struct Profiles(Vec<Option<Profile>>);

impl Index<ClassId> for Profiles {
    type Output = Profile;

    fn index(&self, class: ClassId) -> &Profile {
        self.0[class].as_ref().expect("every packed class has a profile")
    }
}

impl Profiles {
    /// Builds the profiles of `classes`; groups with these models could help.
    pub(in crate::nodes) fn new(
        snapshot: &Snapshot<'_>,
        classes: impl Iterator<Item = ClassId>,
        models: &[NodeId],
    ) -> Self {
        let mut all: Vec<Option<Profile>> = Vec::new();
        all.resize_with(snapshot.classes.len(), || None);
        for class in classes {
            all[class] = Some(Profile::new(snapshot, class, models));
        }
        Self(all)
    }
}

impl Profile {
    fn new(snapshot: &Snapshot<'_>, class: ClassId, models: &[NodeId]) -> Self {
        let of = &snapshot.classes[class];
        let terms = &of.terms;
        let by_host =
            |c: usize| snapshot.topologies.is_hostname(snapshot.counters.plain[c].topology);
        let split = |all: &[usize]| -> (Vec<usize>, Vec<usize>) {
            all.iter().copied().partition(|counter| by_host(*counter))
        };
        let spread_by_host = |c: usize| snapshot.is_host_region(snapshot.counters.spread[c].region);
        let (mut local, mut domain) = (Watch::default(), Watch::default());
        (local.counts_for, domain.counts_for) = split(&terms.counts_for);
        (local.affinity, domain.affinity) = split(&terms.affinity);
        (local.unwanted_by, domain.unwanted_by) = split(&terms.unwanted_by);
        (local.anti, domain.anti) = terms.anti.iter().copied().partition(|a| by_host(a.counter));
        (local.spreads_for, domain.spreads_for) =
            terms.spreads_for.iter().copied().partition(|c| spread_by_host(*c));
        for rule in &terms.spread {
            if spread_by_host(rule.counter) {
                local.spread.push((*rule, Vec::new()));
            } else {
                domain.spread.push((*rule, helpers(snapshot, class, rule, models)));
            }
        }
        let may_fit_existing = of.depends_on_others() && snapshot.nodes_could_take(class);
        Self {
            class,
            request: of.request.clone(),
            ports: snapshot.ports_of(class).into(),
            volumes: snapshot.volumes_of(class).into(),
            local,
            domain,
            affine_to_self: terms.affine_to_self,
            may_fit_existing,
        }
    }

    /// Returns whether there are no constraints by zone, and affinity only concerns the node itself.
    pub(super) fn is_free_of_others(&self) -> bool {
        self.domain.is_empty() && self.local.affinity.is_empty()
    }

    /// Returns whether existing nodes may take these pods, or volumes restrict where they may run.
    pub(in crate::nodes) fn depends_on_existing_nodes(&self) -> bool {
        self.may_fit_existing || !self.volumes.is_empty()
    }

    /// Returns whether pods may have to run in more than one zone.
    pub(in crate::nodes) fn needs_other_domains(&self) -> bool {
        !self.domain.spread.is_empty() || self.domain.anti.iter().any(|anti| anti.means_itself)
    }

    /// Returns whether there are constraints by zone, in either direction.
    pub(in crate::nodes) fn is_bound_to_domains(&self) -> bool {
        !self.domain.is_empty()
            || !self.domain.counts_for.is_empty()
            || !self.domain.spreads_for.is_empty()
    }

    /// Returns whether a node takes only a few of these pods, whatever its size.
    pub(in crate::nodes) fn has_own_anti_affinity(&self) -> bool {
        !self.local.spread.is_empty() || self.needs_own_node()
    }

    /// Returns whether a node takes only one of these pods.
    pub(super) fn needs_own_node(&self) -> bool {
        !self.ports.is_empty() || self.local.anti.iter().any(|anti| anti.means_itself)
    }

    /// Returns whether pods have affinity by host.
    pub(in crate::nodes) fn has_host_affinity(&self) -> bool {
        !self.local.affinity.is_empty()
    }

    /// Returns whether no pod matches its affinity, and it may be the first.
    pub(in crate::nodes) fn is_first(&self, snapshot: &Snapshot<'_>) -> bool {
        self.affine_to_self && self.affinity().all(|c| snapshot.counters.plain[c].total == 0)
    }

    pub(super) fn affinity(&self) -> impl Iterator<Item = usize> {
        self.local.affinity.iter().chain(&self.domain.affinity).copied()
    }

    /// Returns the anti-affinity between these pods and the daemons of every new node, if any.
    pub(in crate::nodes) fn daemon_conflict(
        &self,
        snapshot: &Snapshot<'_>,
        daemons: &[ClassId],
    ) -> Option<Check> {
        let is_counted = |counter: &usize| {
            daemons.iter().any(|class| snapshot.classes[*class].terms.counts_for.contains(counter))
        };
        let avoided = self.local.anti.iter().map(|anti| anti.counter);
        let mut counters = avoided.chain(self.local.unwanted_by.iter().copied());
        let counter = counters.find(is_counted)?;
        Some(Check::Anti(snapshot.counters.plain[counter].topology))
    }

    /// Returns how many pods the domains of a model take, or the constraint that allows none.
    pub(in crate::nodes) fn domain_takes(
        &self,
        snapshot: &Snapshot<'_>,
        model: NodeId,
        is_first: bool,
    ) -> Result<u32, Check> {
        let domain_of = |counter: usize| {
            let counter = &snapshot.counters.plain[counter];
            (counter.topology, counter, snapshot.topologies.domain(counter.topology, model))
        };
        let mut most = u32::MAX;
        for (rule, helpers) in &self.domain.spread {
            most = most.min(spread_takes(snapshot, rule, helpers, model)?);
        }
        for counter in &self.domain.affinity {
            let (topology, counter, domain) = domain_of(*counter);
            if domain == NO_DOMAIN || counter.at(domain) == 0 && !is_first {
                return Err(Check::Affinity(topology));
            }
        }
        for anti in &self.domain.anti {
            let (topology, counter, domain) = domain_of(anti.counter);
            if domain != NO_DOMAIN && counter.at(domain) > 0 {
                return Err(Check::Anti(topology));
            }
            if domain != NO_DOMAIN && anti.means_itself {
                most = most.min(1);
            }
        }
        for counter in &self.domain.unwanted_by {
            let (topology, counter, domain) = domain_of(*counter);
            if domain != NO_DOMAIN && counter.at(domain) > 0 {
                return Err(Check::Anti(topology));
            }
        }
        Ok(most)
    }
}

/// Returns how many pods a spread constraint allows in the domain of a model.
fn spread_takes(
    snapshot: &Snapshot<'_>,
    rule: &SpreadRule,
    helpers: &[u32],
    model: NodeId,
) -> Result<u32, Check> {
    let counter = &snapshot.counters.spread[rule.counter];
    let region = &snapshot.counters.regions[counter.region];
    let topology = region.scope.topology;
    let domain = snapshot.topologies.domain(topology, model);
    if domain == NO_DOMAIN {
        return Err(Check::Spread(topology));
    }
    let empty = |d: &&u32| **d != domain && region.nodes_in(**d) == 0;
    let unseen = helpers.iter().filter(empty).count();
    let here = u32::from(region.nodes_in(domain) == 0);
    let known = region.present() + here + u32::try_from(unseen).unwrap_or(u32::MAX);
    let on_existing = if unseen > 0 || known < rule.min_domains {
        Some(0)
    } else {
        counter.least_elsewhere(region, domain)
    };
    let have = counter.at(domain);
    // Without another domain the minimum is its own count, and rises with it.
    let Some(least) = on_existing else { return Ok(u32::MAX) };
    let room = least.saturating_add(rule.max_skew);
    let fits = match rule.own {
        // Pods that do not match their own constraint only depend on the current counts.
        0 if have <= least.min(have).saturating_add(rule.max_skew) => u32::MAX,
        0 => 0,
        _ => room.saturating_sub(have),
    };
    if fits == 0 { Err(Check::Spread(topology)) } else { Ok(fits) }
}

/// Returns the domains in which a group could take the class.
fn helpers(
    snapshot: &Snapshot<'_>,
    class: ClassId,
    rule: &SpreadRule,
    models: &[NodeId],
) -> Vec<u32> {
    let region = &snapshot.counters.regions[snapshot.counters.spread[rule.counter].region];
    let could = |model: &&NodeId| {
        snapshot.check_static(class, **model).is_none()
            && snapshot.check_room(class, **model).is_none()
    };
    let domain = |model: &NodeId| region.domain_of(*model);
    let mut all: Vec<u32> =
        models.iter().filter(could).map(domain).filter(|d| *d != NO_DOMAIN).collect();
    all.sort_unstable();
    all.dedup();
    all
}
