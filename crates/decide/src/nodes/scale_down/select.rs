//! Selects the unneeded nodes to remove now.
//!
//! A node must have been unneeded for long enough, without a delay that holds all removals; its group must stay at its minimum and
//! the cluster above its limits; groups that scale as a whole are removed as a whole; and parallel removals are limited.

use std::collections::{BTreeMap, BTreeSet};

use super::context::ScaleDownContext;
use super::simulate::UnneededNode;
use super::unremovable::UnremovableReason;
use crate::nodes::drain::after;
use crate::nodes::timers::{self, Pause};
use crate::nodes::{Node, NodeId, Range};

/// Selects among the unneeded nodes, by index, in the order of their removal. Every other one gets a reason; that of excluded
/// ones is known.
pub(super) fn run(
    context: &ScaleDownContext<'_>,
    found: &[UnneededNode],
    excluded: &BTreeMap<NodeId, UnremovableReason>,
    kept: &mut [Option<UnremovableReason>],
) -> Vec<usize> {
    let mut chosen = in_order(context, found);
    let mut keep =
        |chosen: &mut Vec<usize>,
         why: &mut dyn FnMut(&UnneededNode) -> Option<UnremovableReason>| {
            chosen.retain(|at| {
                let keep = why(&found[*at]);
                let removed = keep.is_none();
                if !removed {
                    kept[found[*at].node] = keep;
                }
                removed
            });
        };
    keep(&mut chosen, &mut |f| waits(context, f));
    keep(&mut chosen, &mut |f| excluded.get(&f.node).cloned());
    keep(&mut chosen, &mut |f| pause(context, f));
    let mut gone = BTreeMap::new();
    let mut totals = Totals::new(context);
    keep(&mut chosen, &mut |f| {
        below_smallest(context, f, &mut gone).or_else(|| totals.below(context, f))
    });
    keep(&mut chosen, &mut |f| {
        let pod = context.pod(f.waits_for?);
        Some(UnremovableReason::BlockedByOnCompletionPod(pod.full_name().into()))
    });
    let broken = broken_groups(context, found, &chosen);
    keep(&mut chosen, &mut |f| {
        broken.contains(&group_name(context, f)).then_some(UnremovableReason::AtomicScaleDownFailed)
    });
    let allowed = crop(context, found, &chosen);
    keep(&mut chosen, &mut |f| {
        (!allowed.contains(&f.node)).then_some(UnremovableReason::NodeGroupMaxDeletionCountReached)
    });
    chosen
}

/// Sorts empty nodes first, then those that violate no budget; then the longest unneeded, the least utilized, by name.
fn in_order(context: &ScaleDownContext<'_>, found: &[UnneededNode]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&found[*a], &found[*b]);
        let key = |f: &UnneededNode| (!f.pods.is_empty(), f.is_risky, context.since(f.node));
        key(a).cmp(&key(b)).then(a.utilization.total_cmp(&b.utilization)).then(a.node.cmp(&b.node))
    });
    order
}

fn waits(context: &ScaleDownContext<'_>, found: &UnneededNode) -> Option<UnremovableReason> {
    let settings = &context.input.settings.scale_down;
    let group = context.group_of(found.node)?;
    let is_ready = context.is_ready(found.node);
    let wait = timers::wait(settings, &group.options, is_ready);
    let since = context.since(found.node);
    if timers::is_over(since, wait, context.input.now) {
        return None;
    }
    let until = after(since, wait);
    Some(if is_ready {
        UnremovableReason::NotUnneededLongEnough(until)
    } else {
        UnremovableReason::NotUnreadyLongEnough(until)
    })
}

/// Returns why removals are held: all of them, or those of the node's group.
fn pause(context: &ScaleDownContext<'_>, found: &UnneededNode) -> Option<UnremovableReason> {
    let input = &context.input;
    let settings = &input.settings.scale_down;
    let (last, adds_now) = match settings.delays_per_group {
        true => {
            let group = group_name(context, found);
            let last = input.status.groups.get(group).copied();
            (last.unwrap_or_default(), input.growing.contains(group))
        }
        false => (input.status.last_changes(), !input.growing.is_empty()),
    };
    let (pause, until) = timers::pause(settings, &last, adds_now, input.now)?;
    Some(match pause {
        Pause::Added => UnremovableReason::RecentlyAdded(until),
        Pause::Deleted => UnremovableReason::RecentlyDeleted(until),
        Pause::Failed => UnremovableReason::RecentlyFailed(until),
    })
}

/// `gone` counts the removed nodes by group.
fn below_smallest<'a>(
    context: &ScaleDownContext<'a>,
    found: &UnneededNode,
    gone: &mut BTreeMap<&'a str, u32>,
) -> Option<UnremovableReason> {
    let group = context.group_of(found.node)?;
    let size = context.size_of(group);
    let gone = gone.entry(&*group.name).or_default();
    if size.target.saturating_sub(size.going).saturating_sub(*gone) <= group.min {
        return Some(UnremovableReason::NodeGroupMinSizeReached(group.min));
    }
    *gone += 1;
    None
}

/// The current amounts of the cluster that have a minimum.
struct Totals(Vec<(Box<str>, i64, i64)>);

impl Totals {
    /// Counts every node that is not being removed, managed or not.
    fn new(context: &ScaleDownContext<'_>) -> Self {
        let limits = &context.input.settings.limits;
        let wanted = |name: &str, range: &Range| (Box::from(name), 0_i64, range.min);
        let mut all = vec![wanted("cores", &limits.cores), wanted("memory", &limits.memory)];
        all.extend(limits.resources.iter().map(|(name, range)| wanted(name, range)));
        all.retain(|(_, _, min)| *min > 0);
        for node in context.nodes().filter(|node| !context.is_being_removed(*node)) {
            for (name, total, _) in &mut all {
                *total = total.saturating_add(amount(context.node(node), name));
            }
        }
        Self(all)
    }

    /// Subtracts a node, unless a minimum would be violated.
    fn below(
        &mut self,
        context: &ScaleDownContext<'_>,
        found: &UnneededNode,
    ) -> Option<UnremovableReason> {
        let node = context.node(found.node);
        let short = self.0.iter().find(|(name, total, min)| total - amount(node, name) < *min);
        if let Some((name, ..)) = short {
            return Some(UnremovableReason::MinimalResourceLimitExceeded(name.clone()));
        }
        for (name, total, _) in &mut self.0 {
            *total -= amount(node, name);
        }
        None
    }
}

/// Returns how much of a limited resource a node adds; cores are rounded up. Simulated nodes add nothing.
fn amount(node: &Node, name: &str) -> i64 {
    if node.labels.get("type") == Some("virtual-kubelet") {
        return 0;
    }
    match name {
        "cores" => node.capacity.cpu.saturating_add(999) / 1000,
        name => node.capacity.get(name),
    }
}

fn group_name<'a>(context: &ScaleDownContext<'a>, found: &UnneededNode) -> &'a str {
    context.group_of(found.node).map_or("", |group| &group.name)
}

/// Returns the groups that scale as a whole, of which some node stays.
fn broken_groups<'a>(
    context: &ScaleDownContext<'a>,
    found: &[UnneededNode],
    chosen: &[usize],
) -> BTreeSet<&'a str> {
    let mut going: BTreeMap<&str, u32> = BTreeMap::new();
    for at in chosen {
        *going.entry(group_name(context, &found[*at])).or_default() += 1;
    }
    let groups = chosen.iter().filter_map(|at| context.group_of(found[*at].node));
    let is_broken = |name: &str, registered: u32| going.get(name).copied() != Some(registered);
    groups
        .filter(|g| g.all_or_nothing && is_broken(&g.name, context.size_of(g).registered))
        .map(|g| &*g.name)
        .collect()
}

/// Limits parallel removals: whole groups first, empty ones before those with pods, of which one may exceed the limit; then empty
/// nodes, then those with pods.
fn crop(
    context: &ScaleDownContext<'_>,
    found: &[UnneededNode],
    chosen: &[usize],
) -> BTreeSet<NodeId> {
    let settings = &context.input.settings.scale_down;
    let mut room = (settings.max_parallel as usize).saturating_sub(context.going);
    let mut drain_room = (settings.max_drain_parallel as usize).saturating_sub(context.draining);
    let mut allowed = BTreeSet::new();
    let mut groups: BTreeMap<&str, Vec<&UnneededNode>> = BTreeMap::new();
    let mut singles: Vec<&UnneededNode> = Vec::new();
    for found in chosen.iter().map(|at| &found[*at]) {
        match context.group_of(found.node).filter(|group| group.all_or_nothing) {
            Some(group) => groups.entry(&group.name).or_default().push(found),
            None => singles.push(found),
        }
    }
    let drains = |whole: &[&UnneededNode]| whole.iter().filter(|f| !f.pods.is_empty()).count();
    let mut groups: Vec<Vec<&UnneededNode>> = groups.into_values().collect();
    groups.sort_by_key(|whole| drains(whole) > 0);
    let mut may_exceed = context.may_exceed;
    for whole in &groups {
        let drains = drains(whole);
        let fits = whole.len() <= room && drains <= drain_room;
        let has_any = room > 0 && (drains == 0 || drain_room > 0);
        if fits || (may_exceed && has_any) {
            may_exceed = false;
            room = room.saturating_sub(whole.len());
            drain_room = drain_room.saturating_sub(drains);
            allowed.extend(whole.iter().map(|f| f.node));
        }
    }
    for single in singles {
        let is_drain = !single.pods.is_empty();
        if room == 0 || (is_drain && drain_room == 0) {
            continue;
        }
        room -= 1;
        drain_room -= usize::from(is_drain);
        allowed.insert(single.node);
    }
    allowed
}
