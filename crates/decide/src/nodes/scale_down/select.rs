//! Which of the unneeded nodes go now?
//!
//! Those that have been unneeded for long enough, while no pause holds everything back; not below the smallest size of
//! a group or what the cluster must have; groups that go as a whole, as a whole; and no more at once than allowed.

use std::collections::{BTreeMap, BTreeSet};

use super::keep::Keep;
use super::look::Look;
use super::simulate::Found;
use crate::nodes::drain::after;
use crate::nodes::timers::{self, Pause};
use crate::nodes::{Node, NodeId, Range};

/// Chooses among what was found, by its place in the list, in the order in which the nodes go. Every other one gets a
/// reason to stay; for those that are barred it is known.
pub(super) fn run(
    look: &Look<'_>,
    found: &[Found],
    barred: &BTreeMap<NodeId, Keep>,
    kept: &mut [Option<Keep>],
) -> Vec<usize> {
    let mut chosen = in_order(look, found);
    let mut keep = |chosen: &mut Vec<usize>, why: &mut dyn FnMut(&Found) -> Option<Keep>| {
        chosen.retain(|at| {
            let keep = why(&found[*at]);
            let goes = keep.is_none();
            if !goes {
                kept[found[*at].node] = keep;
            }
            goes
        });
    };
    keep(&mut chosen, &mut |f| waits(look, f));
    keep(&mut chosen, &mut |f| barred.get(&f.node).cloned());
    keep(&mut chosen, &mut |f| pause(look, f));
    let mut gone = BTreeMap::new();
    let mut totals = Totals::of(look);
    keep(&mut chosen, &mut |f| {
        below_smallest(look, f, &mut gone).or_else(|| totals.below(look, f))
    });
    keep(&mut chosen, &mut |f| {
        let pod = look.pod(f.waits_for?);
        Some(Keep::BlockedByOnCompletionPod(pod.full_name().into()))
    });
    let broken = broken_groups(look, found, &chosen);
    keep(&mut chosen, &mut |f| {
        broken.contains(&group_name(look, f)).then_some(Keep::AtomicScaleDownFailed)
    });
    let allowed = crop(look, found, &chosen);
    keep(&mut chosen, &mut |f| {
        (!allowed.contains(&f.node)).then_some(Keep::NodeGroupMaxDeletionCountReached)
    });
    chosen
}

/// Empty nodes first, then those that break no budget; then the longest unneeded, the least used, by name.
fn in_order(look: &Look<'_>, found: &[Found]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&found[*a], &found[*b]);
        let key = |f: &Found| (!f.pods.is_empty(), f.is_risky, look.since(f.node));
        key(a).cmp(&key(b)).then(a.utilization.total_cmp(&b.utilization)).then(a.node.cmp(&b.node))
    });
    order
}

fn waits(look: &Look<'_>, found: &Found) -> Option<Keep> {
    let settings = &look.given.settings.scale_down;
    let group = look.group_of(found.node)?;
    let is_ready = look.is_ready(found.node);
    let wait = timers::wait(settings, &group.options, is_ready);
    let since = look.since(found.node);
    if timers::is_over(since, wait, look.given.now) {
        return None;
    }
    let until = after(since, wait);
    Some(if is_ready {
        Keep::NotUnneededLongEnough(until)
    } else {
        Keep::NotUnreadyLongEnough(until)
    })
}

fn pause(look: &Look<'_>, _: &Found) -> Option<Keep> {
    let given = &look.given;
    let settings = &given.settings.scale_down;
    let (pause, until) = timers::pause(settings, given.status, given.adds_now, given.now)?;
    Some(match pause {
        Pause::Added => Keep::RecentlyAdded(until),
        Pause::Deleted => Keep::RecentlyDeleted(until),
        Pause::Failed => Keep::RecentlyFailed(until),
    })
}

/// `gone` counts the nodes that go, by group.
fn below_smallest<'a>(
    look: &Look<'a>,
    found: &Found,
    gone: &mut BTreeMap<&'a str, u32>,
) -> Option<Keep> {
    let group = look.group_of(found.node)?;
    let size = look.size_of(group);
    let gone = gone.entry(&*group.name).or_default();
    if size.target.saturating_sub(size.going).saturating_sub(*gone) <= group.min {
        return Some(Keep::NodeGroupMinSizeReached(group.min));
    }
    *gone += 1;
    None
}

/// What the cluster has, as far as it must have it.
struct Totals(Vec<(Box<str>, i64, i64)>);

impl Totals {
    /// Counts every node that is not on its way out, whosever it is.
    fn of(look: &Look<'_>) -> Self {
        let limits = &look.given.settings.limits;
        let wanted = |name: &str, range: &Range| (Box::from(name), 0_i64, range.min);
        let mut all = vec![wanted("cores", &limits.cores), wanted("memory", &limits.memory)];
        all.extend(limits.resources.iter().map(|(name, range)| wanted(name, range)));
        all.retain(|(_, _, min)| *min > 0);
        for node in look.nodes().filter(|node| !look.is_going(*node)) {
            for (name, total, _) in &mut all {
                *total = total.saturating_add(amount(look.node(node), name));
            }
        }
        Self(all)
    }

    /// Takes a node off, unless too little would be left.
    fn below(&mut self, look: &Look<'_>, found: &Found) -> Option<Keep> {
        let node = look.node(found.node);
        let short = self.0.iter().find(|(name, total, min)| total - amount(node, name) < *min);
        if let Some((name, ..)) = short {
            return Some(Keep::MinimalResourceLimitExceeded(name.clone()));
        }
        for (name, total, _) in &mut self.0 {
            *total -= amount(node, name);
        }
        None
    }
}

/// Gives how much of a limited resource a node brings along; cores are rounded up. Nodes that are not real bring nothing.
fn amount(node: &Node, name: &str) -> i64 {
    if node.labels.get("type") == Some("virtual-kubelet") {
        return 0;
    }
    match name {
        "cores" => node.capacity.cpu.saturating_add(999) / 1000,
        name => node.capacity.get(name),
    }
}

fn group_name<'a>(look: &Look<'a>, found: &Found) -> &'a str {
    look.group_of(found.node).map_or("", |group| &group.name)
}

/// Names the groups that go as a whole, of which some node stays.
fn broken_groups<'a>(look: &Look<'a>, found: &[Found], chosen: &[usize]) -> BTreeSet<&'a str> {
    let mut going: BTreeMap<&str, u32> = BTreeMap::new();
    for at in chosen {
        *going.entry(group_name(look, &found[*at])).or_default() += 1;
    }
    let groups = chosen.iter().filter_map(|at| look.group_of(found[*at].node));
    let is_broken = |name: &str, registered: u32| going.get(name).copied() != Some(registered);
    groups
        .filter(|g| g.all_or_nothing && is_broken(&g.name, look.size_of(g).registered))
        .map(|g| &*g.name)
        .collect()
}

/// Keeps as many as may go at once: whole groups first, of which one may exceed what is left; then empty nodes, then
/// those with pods.
fn crop(look: &Look<'_>, found: &[Found], chosen: &[usize]) -> BTreeSet<NodeId> {
    let settings = &look.given.settings.scale_down;
    let mut room = (settings.max_parallel as usize).saturating_sub(look.going);
    let mut drain_room = (settings.max_drain_parallel as usize).saturating_sub(look.draining);
    let mut allowed = BTreeSet::new();
    let mut groups: BTreeMap<&str, Vec<&Found>> = BTreeMap::new();
    let mut singles: Vec<&Found> = Vec::new();
    for found in chosen.iter().map(|at| &found[*at]) {
        match look.group_of(found.node).filter(|group| group.all_or_nothing) {
            Some(group) => groups.entry(&group.name).or_default().push(found),
            None => singles.push(found),
        }
    }
    let mut may_exceed = look.may_exceed;
    for whole in groups.values() {
        let drains = whole.iter().filter(|f| !f.pods.is_empty()).count();
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
