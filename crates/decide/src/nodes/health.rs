//! The health of nodes and groups: readiness, upcoming nodes, and whether a group may grow.

use jiff::{SignedDuration, Timestamp};

use super::{Cluster, Group, Node, Refusal, Settings, TO_BE_DELETED_TAINT, Taint};

/// The readiness of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Being removed.
    Leaving,
    Ready,
    /// Not ready yet, and new enough for that to be normal.
    Starting,
    Unready,
}

/// The state of a group.
#[derive(Clone, Debug, Default)]
pub struct GroupState {
    /// The desired size.
    pub target: u32,
    pub ready: u32,
    pub unready: u32,
    pub starting: u32,
    pub leaving: u32,
    /// Nodes that were requested and are expected.
    pub upcoming: u32,
    /// The reason why it may not grow at all.
    pub refusal: Option<Refusal>,
}

/// Taints of a node that is not ready.
const NOT_READY_TAINTS: [&str; 3] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/network-unavailable",
];
/// Taints of a node that is still starting, by prefix; the user may add more.
pub(super) const STARTUP_PREFIXES: [&str; 2] = [
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
];

/// Returns whether a taint is one of a node that is still starting.
pub(super) fn is_startup_taint(taint: &Taint, settings: &Settings) -> bool {
    let own = settings.scale_up.startup_taint_prefixes.iter().map(|prefix| &**prefix);
    STARTUP_PREFIXES.into_iter().chain(own).any(|prefix| taint.key.starts_with(prefix))
        || settings.scale_up.startup_taints.contains(&taint.key)
}

/// Returns the readiness of a node.
pub fn readiness(node: &Node, settings: &Settings, now: Timestamp) -> Readiness {
    if node.taints.iter().any(|taint| &*taint.key == TO_BE_DELETED_TAINT) {
        return Readiness::Leaving;
    }
    let says_unready =
        |t: &Taint| NOT_READY_TAINTS.contains(&&*t.key) || is_startup_taint(t, settings);
    if node.is_ready && !node.taints.iter().any(says_unready) {
        return Readiness::Ready;
    }
    let grace = settings.scale_up.max_node_startup_time;
    match node.created_at {
        Some(created_at) if now.duration_since(created_at) < grace => Readiness::Starting,
        _ => Readiness::Unready,
    }
}

/// Returns whether few enough nodes are unready for the cluster to be scaled. Unmanaged nodes count too.
pub(super) fn is_cluster_healthy(cluster: &Cluster, settings: &Settings, now: Timestamp) -> bool {
    let unready = |node: &&Node| readiness(node, settings, now) == Readiness::Unready;
    let unready = cluster.nodes.iter().filter(unready).count();
    !too_many(unready as i64, cluster.nodes.len() as i64, settings)
}

fn too_many(bad: i64, all: i64, settings: &Settings) -> bool {
    let health = &settings.health;
    bad > i64::from(health.ok_unready)
        && bad as f64 > health.max_unready_percent / 100.0 * all as f64
}

/// Returns the state of a group with these nodes.
pub(super) fn group_state<'n>(
    group: &Group,
    nodes: impl Iterator<Item = &'n Node>,
    settings: &Settings,
    now: Timestamp,
) -> GroupState {
    let mut all = GroupState::default();
    for node in nodes {
        *match readiness(node, settings, now) {
            Readiness::Ready => &mut all.ready,
            Readiness::Unready => &mut all.unready,
            Readiness::Starting => &mut all.starting,
            Readiness::Leaving => &mut all.leaving,
        } += 1;
    }
    let registered = all.ready + all.unready + all.starting + all.leaving;
    all.target = group.status.target.unwrap_or(registered);
    let on_their_way = all.target.saturating_sub(all.ready + all.unready);
    let limit = group.options.max_provision_time.unwrap_or(settings.scale_up.max_provision_time);
    let request = group.status.scale_up.filter(|_| on_their_way > 0);
    let is_late = request.is_some_and(|request| now.duration_since(request.at) > limit);
    let is_backed_off = group.status.backoff_until.is_some_and(|until| now <= until);
    if is_late {
        // Nodes that never registered are given up, and the group has failed.
        let increase = request.map_or(0, |request| request.increase);
        all.target = all.target.saturating_sub(increase).max(all.ready + all.unready);
    }
    let increase = request.filter(|_| !is_late).map(|request| request.increase);
    if increase.is_some() && !is_backed_off {
        all.upcoming = on_their_way;
    }
    all.refusal = if !is_group_healthy(&all, registered, increase, settings) {
        Some(Refusal::Unhealthy)
    } else if is_backed_off || is_late {
        Some(Refusal::BackedOff)
    } else if all.target >= group.max {
        Some(Refusal::AtMaxSize(group.max))
    } else {
        None
    };
    all
}

/// Returns whether not too many expected nodes are missing or unready.
fn is_group_healthy(
    group_state: &GroupState,
    registered: u32,
    increase: Option<u32>,
    settings: &Settings,
) -> bool {
    // Without a scale-up under way, every node of the target is expected to be there.
    let expected = i64::from(group_state.target) - i64::from(increase.unwrap_or(0));
    let missing = expected - i64::from(group_state.ready);
    !too_many(missing, i64::from(registered - group_state.leaving), settings)
}

/// How long a node must have been ready to represent its group.
pub(super) const ESTABLISHED_AFTER: SignedDuration = SignedDuration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::super::{GroupStatus, ScaleUpUnderWay};
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(1000 + minute)
    }

    fn nodes(ready: usize, unready: usize) -> Vec<Node> {
        let old = Node { created_at: Some(at(-500)), ..Node::default() };
        let good = Node { is_ready: true, ..old.clone() };
        [vec![good; ready], vec![old; unready]].concat()
    }

    #[test]
    fn rule_1_5_readiness_takes_the_first_that_matches() {
        let settings = Settings::default();
        let taint = |key: &str| Taint {
            key: key.into(),
            value: "".into(),
            effect: super::super::Effect::NoSchedule,
        };
        for (is_ready, taints, age, expected) in [
            (true, vec![], 60, Readiness::Ready),
            (true, vec![taint(TO_BE_DELETED_TAINT)], 60, Readiness::Leaving),
            (false, vec![], 14, Readiness::Starting),
            (false, vec![], 15, Readiness::Unready),
            (true, vec![taint("node.kubernetes.io/not-ready")], 60, Readiness::Unready),
            (
                true,
                vec![taint("startup-taint.cluster-autoscaler.kubernetes.io/x")],
                1,
                Readiness::Starting,
            ),
            (true, vec![taint("other")], 60, Readiness::Ready),
        ] {
            let node = Node {
                is_ready,
                taints: taints.into(),
                created_at: Some(at(-age)),
                ..Node::default()
            };
            assert_eq!(readiness(&node, &settings, at(0)), expected, "{node:?}");
        }
    }

    #[test]
    fn rule_1_5_a_cluster_is_unhealthy_above_both_thresholds() {
        let settings = Settings::default();
        for (ready, unready, healthy) in [(0, 3, true), (4, 4, false), (5, 4, true), (0, 0, true)] {
            let cluster = Cluster { nodes: nodes(ready, unready), ..Cluster::default() };
            assert_eq!(
                is_cluster_healthy(&cluster, &settings, at(0)),
                healthy,
                "{ready} {unready}"
            );
        }
    }

    #[test]
    fn rule_1_5_a_group_far_below_its_target_is_unhealthy_unless_it_is_scaling_up() {
        let settings = Settings::default();
        for (target, ready, increase, is_healthy) in [
            (20, 2, None, false),
            (20, 2, Some(18), true),
            (20, 2, Some(10), false),
            (5, 2, None, true),   // three may be missing
            (6, 2, None, false),  // four, more than 45 % of two
            (14, 10, None, true), // four, less than 45 % of ten
            (4, 0, None, false),
            (3, 0, None, true),
            (0, 0, None, true),
        ] {
            let scale_up = increase.map(|increase| ScaleUpUnderWay { at: at(-1), increase });
            let status = GroupStatus { target: Some(target), scale_up, backoff_until: None };
            let group = Group { max: 100, status, ..Group::default() };
            let all = group_state(&group, nodes(ready, 0).iter(), &settings, at(0));
            let wanted = (!is_healthy).then_some(Refusal::Unhealthy);
            assert_eq!(all.refusal, wanted, "{target} {ready} {increase:?}");
        }
    }

    #[test]
    fn rule_1_5_upcoming_nodes_need_a_request_that_is_neither_late_nor_backed_off() {
        let settings = Settings::default();
        for (since, backoff, target, upcoming, refusal) in [
            (None, None, 5, 0, None),
            (Some(-1), None, 5, 3, None),
            (Some(-15), None, 5, 3, None),
            (Some(-16), None, 2, 0, Some(Refusal::BackedOff)),
            (Some(-1), Some(0), 5, 0, Some(Refusal::BackedOff)),
            (Some(-1), Some(-1), 5, 3, None),
        ] {
            let status = GroupStatus {
                target: Some(5),
                scale_up: since.map(|m| ScaleUpUnderWay { at: at(m), increase: 3 }),
                backoff_until: backoff.map(at),
            };
            let group = Group { max: 10, status, ..Group::default() };
            let all = group_state(&group, nodes(2, 0).iter(), &settings, at(0));
            assert_eq!((all.target, all.upcoming), (target, upcoming), "{since:?} {backoff:?}");
            assert_eq!(all.refusal, refusal, "{since:?} {backoff:?}");
        }
    }
}
