//! Properties of all scale-down plans, and scenarios that combine rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use plimsoll_decide::Reason;
use plimsoll_decide::nodes::{
    Budget, Cluster, Evaluation, GameServerUse, Group, GroupStatus, LabelSelector, Labels,
    LastChanges, Node, Owner, Pod, PodSpec, PodTerm, Resize, Resources, SafeToEvict, ScaleDown,
    ScaleUp, Scheduling, Settings, Snapshot, SpreadConstraint, Status, Taint, Workload,
};
use proptest::prelude::*;

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).expect("it is a moment")
}

fn node(name: &str, group: Option<&str>, zone: &str) -> Node {
    let all: Resources = [("cpu", 4000), ("memory", 4000), ("pods", 20)].into_iter().collect();
    let labels = [("kubernetes.io/hostname", name), ("zone", zone)].into_iter();
    Node {
        name: name.into(),
        group: group.map(Into::into),
        labels: labels.chain(group.map(|g| ("plimsoll.dev/node-group", g))).collect(),
        is_ready: true,
        created_at: Some(now() - SignedDuration::from_hours(24)),
        ready_changed_at: Some(now() - SignedDuration::from_hours(24)),
        capacity: all.clone(),
        allocatable: all,
        ..Node::default()
    }
}

fn pod(name: &str, on: &str, app: &str, cpu: i64) -> Pod {
    let spec = PodSpec {
        namespace: "default".into(),
        labels: [("app", app)].into_iter().collect(),
        requests: [("cpu", cpu)].into_iter().collect(),
        ..PodSpec::default()
    };
    Pod {
        name: name.into(),
        spec: Arc::new(spec),
        scheduling: Scheduling::On(on.into()),
        owner: Some(Arc::new(Owner {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: app.into(),
            uid: app.into(),
        })),
        ..Pod::default()
    }
}

/// Returns a cluster with these nodes and pods, a ReplicaSet for each app and the group `g`.
fn cluster(nodes: Vec<Node>, pods: Vec<Pod>) -> Cluster {
    let workload = |name: &str| Workload {
        kind: "ReplicaSet".into(),
        namespace: "default".into(),
        name: name.into(),
        replicas: 5,
    };
    Cluster {
        nodes,
        pods,
        groups: vec![Group { name: "g".into(), max: 100, ..Group::default() }],
        workloads: ["a", "b", "c"].map(workload).to_vec(),
        ..Cluster::default()
    }
}

/// Returns settings that remove unneeded nodes at once and without a limit.
fn eager() -> Settings {
    let mut settings = Settings::default();
    settings.scale_down.unneeded_for = SignedDuration::ZERO;
    settings.scale_down.unready_for = SignedDuration::ZERO;
    settings.scale_down.max_parallel = 100;
    settings.scale_down.max_drain_parallel = 100;
    settings
}

fn plan(cluster: &Cluster, settings: &Settings, status: &Status) -> ScaleDown {
    Evaluation::new(cluster, settings, now()).scale_down(status, &ScaleUp::default())
}

fn names(plan: &ScaleDown) -> Vec<&str> {
    plan.delete.iter().map(|removal| &*removal.node).collect()
}

fn unneeded(plan: &ScaleDown) -> Vec<&str> {
    plan.unneeded.iter().map(|(node, _)| &**node).collect()
}

fn code(plan: &ScaleDown, node: &str) -> &'static str {
    plan.unremovable.iter().find(|(n, _)| &**n == node).map_or("", |(_, keep)| keep.code())
}

/// Nodes A, B and C are underutilized. The pods of A and of B fit on X, but not both; the pods of C fit on Y.
fn a_b_c_x_y() -> Cluster {
    let nodes = ["a", "b", "c", "x", "y"].map(|name| node(name, Some("g"), "z")).to_vec();
    let only = |pod: Pod, disk: &str| {
        let mut spec = (*pod.spec).clone();
        spec.node_selector = [("disk", disk)].into_iter().collect();
        Pod { spec: Arc::new(spec), ..pod }
    };
    let mut all = cluster(
        nodes,
        vec![
            only(pod("a", "a", "a", 1500), "ssd"),
            only(pod("b", "b", "a", 1500), "ssd"),
            only(pod("c", "c", "a", 1500), "hdd"),
            pod("x", "x", "b", 2200),
            pod("y", "y", "b", 2200),
        ],
    );
    for (at, disk) in [(3, "ssd"), (4, "hdd")] {
        all.nodes[at].labels = all.nodes[at].labels.with("disk", disk);
    }
    all
}

#[test]
fn two_nodes_do_not_rely_on_the_same_free_resources() {
    let long_ago = now() - SignedDuration::from_mins(11);
    let since = ["a", "b", "c"].map(|node| (node.into(), long_ago));
    let status = Status { unneeded_since: since.into_iter().collect(), ..Status::default() };
    // One drain at a time: A is removed, C is still unneeded, and B is not: its pods do not fit after those of A.
    let first = plan(&a_b_c_x_y(), &Settings::default(), &status);
    assert_eq!(names(&first), ["a"]);
    assert_eq!(unneeded(&first), ["a", "c"]);
    assert_eq!(code(&first, "b"), "NoPlaceToMovePods");
    assert_eq!(code(&first, "c"), "NodeGroupMaxDeletionCountReached");
    assert_eq!(code(&first, "x"), "NotUnderutilized");
    // After A is gone and its pod is on X, C is removed, and B's pods no longer fit.
    let mut next = a_b_c_x_y();
    next.nodes.remove(0);
    next.pods[0].scheduling = Scheduling::On("x".into());
    let since = first.unneeded.iter().cloned().collect();
    let status = Status { unneeded_since: since, last_delete_at: Some(now()), ..Status::default() };
    let second = plan(&next, &Settings::default(), &status);
    assert_eq!(names(&second), ["c"]);
    assert_eq!(code(&second, "b"), "NoPlaceToMovePods");
    // When both may be removed at once, they are, and B still stays.
    assert_eq!(names(&plan(&a_b_c_x_y(), &eager(), &Status::default())), ["a", "c"]);
}

#[test]
fn delays_hold_one_group_or_all() {
    let mut all = cluster(vec![node("a", Some("g"), "z"), node("b", Some("h"), "z")], Vec::new());
    all.groups.push(Group { name: "h".into(), max: 100, ..Group::default() });
    let last = LastChanges { delete_failure_at: Some(now()), ..LastChanges::default() };
    let status = Status {
        last_delete_failure_at: Some(now()),
        groups: [("g".into(), last)].into(),
        ..Status::default()
    };
    let resize = Resize { group: 1, from: 1, to: 2, nodes: Vec::new() };
    let growing = ScaleUp { resizes: vec![resize], ..ScaleUp::default() };
    for (delays_per_group, added, wanted) in [
        (false, ScaleUp::default(), &[][..]),
        (true, ScaleUp::default(), &["b"]),
        (true, growing, &[]),
    ] {
        let mut settings = eager();
        settings.scale_down.delays_per_group = delays_per_group;
        let plan = Evaluation::new(&all, &settings, now()).scale_down(&status, &added);
        assert_eq!(names(&plan), wanted, "{delays_per_group}");
    }
}

#[test]
fn rule_2_3_the_first_reason_to_keep_a_node_is_reported() {
    let busy = || vec![pod("p", "n", "a", 3000)];
    type Change = fn(&mut Cluster, &mut Settings);
    let cases: [(Change, Vec<Pod>, &str); 8] = [
        (|c, _| c.nodes[0].group = None, busy(), "NotAutoscaled"),
        (|c, _| c.nodes[0].group = Some("other".into()), busy(), "NotAutoscaled"),
        (
            |c, _| {
                let value = now().as_second().to_string().into();
                let effect = plimsoll_decide::nodes::Effect::NoSchedule;
                let key = plimsoll_decide::nodes::TO_BE_DELETED_TAINT.into();
                c.nodes[0].taints = [Taint { key, value, effect }].into();
                c.nodes[0].scale_down_disabled = true;
            },
            busy(),
            "CurrentlyBeingDeleted",
        ),
        (|c, _| c.groups[0].min = 2, busy(), "NodeGroupMinSizeReached"),
        (|c, _| c.nodes[0].scale_down_disabled = true, busy(), "ScaleDownDisabledAnnotation"),
        (|c, _| c.nodes[0].allocatable = Resources::default(), vec![], "UnexpectedError"),
        (
            |c, s| {
                c.nodes[0].is_ready = false;
                s.scale_down.unready_enabled = false;
            },
            busy(),
            "ScaleDownUnreadyDisabled",
        ),
        (|_, _| {}, busy(), "NotUnderutilized"),
    ];
    for (change, pods, wanted) in cases {
        let nodes = vec![node("n", Some("g"), "z"), node("other", Some("g"), "z")];
        let (mut cluster, mut settings) = (cluster(nodes, pods), eager());
        change(&mut cluster, &mut settings);
        let plan = plan(&cluster, &settings, &Status::default());
        assert_eq!(code(&plan, "n"), wanted);
    }
}

#[test]
fn rule_2_5_12_the_pods_of_a_node_are_counted_against_a_budget() {
    let nodes = vec![node("n", Some("g"), "z"), node("rest", None, "z")];
    let pods = vec![pod("p", "n", "a", 100), pod("q", "n", "a", 100)];
    for (disruptions_allowed, wanted) in [(0, "BlockedByPod"), (1, "BlockedByPod"), (2, "")] {
        let mut all = cluster(nodes.clone(), pods.clone());
        all.budgets = vec![Budget {
            namespace: "default".into(),
            name: "budget".into(),
            selector: LabelSelector::of_labels([("app", "a")]),
            disruptions_allowed,
            ..Budget::default()
        }];
        let plan = plan(&all, &eager(), &Status::default());
        assert_eq!(code(&plan, "n"), wanted, "{disruptions_allowed} allowed");
        let kept = plan.unremovable.iter().find(|(node, _)| &**node == "n");
        let pod = kept.and_then(|(_, keep)| keep.pod());
        assert_eq!(pod, (!wanted.is_empty()).then_some("default/p"));
    }
}

#[test]
fn rule_2_7_groups_that_scale_as_a_whole_are_removed_completely_or_not_at_all() {
    let nodes = ["n", "o", "p"].map(|name| node(name, Some("g"), "z")).to_vec();
    for (busy, parallel, wanted) in [(true, 100, 0), (false, 100, 3), (false, 1, 3), (false, 0, 0)]
    {
        let pods = if busy { vec![pod("x", "p", "a", 3000)] } else { vec![] };
        let mut all = cluster(nodes.clone(), pods);
        all.groups[0].all_or_nothing = true;
        let mut settings = eager();
        settings.scale_down.max_parallel = parallel;
        let plan = plan(&all, &settings, &Status::default());
        assert_eq!(plan.delete.len(), wanted, "busy {busy}, {parallel} at once");
        if busy {
            assert_eq!(code(&plan, "n"), "AtomicScaleDownFailed");
        }
    }
}

#[test]
fn rule_2_7_of_groups_that_scale_as_a_whole_empty_ones_are_removed_first() {
    let nodes = [("n", "a"), ("o", "b"), ("p", "c")];
    let mut nodes = nodes.map(|(name, group)| node(name, Some(group), "z")).to_vec();
    nodes.push(node("stays", None, "z"));
    let mut all = cluster(nodes, vec![pod("x", "n", "a", 100)]);
    let group = |name: &str| Group {
        name: name.into(),
        all_or_nothing: true,
        max: 1,
        ..all.groups[0].clone()
    };
    all.groups = ["a", "b", "c"].map(group).to_vec();
    let mut settings = eager();
    for (parallel, wanted) in [(1, vec!["o"]), (2, vec!["o", "p"]), (3, vec!["n", "o", "p"])] {
        settings.scale_down.max_parallel = parallel;
        let plan = plan(&all, &settings, &Status::default());
        let mut found = names(&plan);
        found.sort_unstable();
        assert_eq!(found, wanted, "{parallel} at once");
    }
}

#[test]
fn a_node_that_is_being_removed_counts_towards_parallel_removals() {
    let mut nodes = ["n", "o", "p"].map(|name| node(name, Some("g"), "z")).to_vec();
    nodes[0].taints = [Taint {
        key: plimsoll_decide::nodes::TO_BE_DELETED_TAINT.into(),
        value: now().as_second().to_string().into(),
        effect: plimsoll_decide::nodes::Effect::NoSchedule,
    }]
    .into();
    let mut all = cluster(nodes, vec![]);
    all.groups[0].min = 1;
    let mut settings = eager();
    for (parallel, wanted) in [(1, 0), (2, 1), (100, 1)] {
        settings.scale_down.max_parallel = parallel;
        let plan = plan(&all, &settings, &Status::default());
        assert_eq!(plan.delete.len(), wanted, "{parallel} at once");
        assert_eq!(code(&plan, "n"), "CurrentlyBeingDeleted");
    }
}

#[test]
fn a_node_whose_removal_failed_rests() {
    let all = cluster(vec![node("n", Some("g"), "z"), node("o", Some("g"), "z")], vec![]);
    for (until, wanted) in [(1, "RecentlyFailed"), (0, "")] {
        let until = now() + SignedDuration::from_secs(until);
        let status = Status { resting: [("n".into(), until)].into(), ..Status::default() };
        let plan = plan(&all, &eager(), &status);
        let found = plan.unremovable.iter().find(|(name, _)| &**name == "n");
        assert_eq!(found.map_or("", |(_, why)| why.code()), wanted, "until {until}");
    }
}

#[test]
fn a_removal_is_validated_against_the_cluster_as_it_is() {
    let nodes = vec![node("n", Some("g"), "z"), node("o", Some("g"), "z")];
    let status = Status { removing: ["n".into()].into(), ..Status::default() };
    type Change = fn(&mut Cluster);
    let cases: [(&str, Change, Result<usize, &str>); 7] = [
        ("nothing changed", |_| {}, Ok(1)),
        ("it is empty by now", |c| c.pods.clear(), Ok(0)),
        ("another pod arrived", |c| c.pods.push(pod("q", "n", "a", 100)), Ok(2)),
        (
            "its pod lost its place",
            |c| c.pods.push(pod("q", "o", "a", 3950)),
            Err("NoPlaceToMovePods"),
        ),
        ("its pod lost its controller", |c| c.pods[0].owner = None, Err("BlockedByPod")),
        (
            "it is annotated",
            |c| c.nodes[0].scale_down_disabled = true,
            Err("ScaleDownDisabledAnnotation"),
        ),
        ("its group needs it", |c| c.groups[0].min = 2, Err("NodeGroupMinSizeReached")),
    ];
    for (what, change, wanted) in cases {
        let mut all = cluster(nodes.clone(), vec![pod("p", "n", "a", 100)]);
        change(&mut all);
        let settings = eager();
        let found = Evaluation::new(&all, &settings, now()).validate_removal(&status, "n");
        let found = found.as_ref().map(|plan| plan.evict.len()).map_err(Reason::code);
        assert_eq!(found, wanted, "{what}");
    }
}

/// Returns the pod of a game server.
fn game(name: &str, on: &str, game_server: GameServerUse) -> Pod {
    let mut pod = pod(name, on, "game", 500);
    pod.owner = Some(Arc::new(Owner {
        api_version: "agones.dev/v1".into(),
        kind: "GameServer".into(),
        name: name.into(),
        uid: name.into(),
    }));
    pod.drain.safe_to_evict = SafeToEvict::No;
    Pod { game_server: Some(game_server), ..pod }
}

#[test]
fn idle_game_servers_are_replaced_and_those_in_use_keep_their_node() {
    let nodes = ["a", "b", "c", "d", "e"].map(|name| node(name, Some("g"), "z")).to_vec();
    let pods = vec![
        game("a-idle", "a", GameServerUse::Idle),
        pod("a-web", "a", "a", 500),
        game("b-busy", "b", GameServerUse::Allocated),
        game("b-idle", "b", GameServerUse::Idle),
        game("c-kept", "c", GameServerUse::Reserved),
        game("d-ending", "d", GameServerUse::Ending),
        pod("e-full", "e", "b", 2500),
    ];
    let mut cluster = cluster(nodes, pods);
    // The budget that Agones installs allows no disruption. It is about evictions.
    let selector = LabelSelector::of_labels([("app", "game")]);
    cluster.budgets = vec![Budget {
        namespace: "default".into(),
        name: "agones-gameserver-safe-to-evict-false".into(),
        selector,
        ..Budget::default()
    }];
    let (settings, status) = (eager(), Status::default());
    let plan = plan(&cluster, &settings, &status);
    assert_eq!(names(&plan), ["a"]);
    let name = |pod: &usize| &*cluster.pods[*pod].name;
    assert_eq!(plan.delete[0].replaced.iter().map(name).collect::<Vec<_>>(), ["a-idle"]);
    assert_eq!(plan.delete[0].moves.len(), 2);
    let blocked = |node: &str| {
        let (_, keep) = plan.unremovable.iter().find(|(name, _)| **name == *node).unwrap();
        keep.to_string()
    };
    let text = "default/b-busy blocks the removal: its game server is Allocated";
    assert_eq!(blocked("b"), text);
    assert_eq!(blocked("c"), "default/c-kept blocks the removal: its game server is Reserved");
    assert_eq!(code(&plan, "d"), "BlockedByOnCompletionPod");
    let removing = Status { removing: ["a".into()].into(), ..Status::default() };
    let refused = Evaluation::new(&cluster, &settings, now()).validate_removal(&removing, "a");
    let text = "default/a-idle blocks the removal: its game server has not been replaced yet";
    assert_eq!(refused.unwrap_err().to_string(), text, "it is never evicted");
}

#[test]
fn additions_in_the_same_evaluation_hold_removals() {
    let nodes = vec![node("n", Some("g"), "z"), node("o", Some("g"), "z")];
    let all = cluster(nodes, vec![pod("p", "o", "a", 3000)]);
    let added = ScaleUp {
        resizes: vec![plimsoll_decide::nodes::Resize { group: 0, from: 2, to: 3, nodes: vec![] }],
        ..ScaleUp::default()
    };
    let mut settings = eager();
    let plan = Evaluation::new(&all, &settings, now()).scale_down(&Status::default(), &added);
    assert_eq!((unneeded(&plan), code(&plan, "n")), (vec!["n"], "RecentlyAdded"));
    assert_eq!(plan.wake_at, Some(now() + SignedDuration::from_mins(10)));
    settings.scale_down.delay_after_add = SignedDuration::ZERO;
    let plan = Evaluation::new(&all, &settings, now()).scale_down(&Status::default(), &added);
    assert_eq!(names(&plan), ["n"]);
}

/// Returns the pods of M and N fit on O only after both have been on one node.
fn near_each_other() -> Cluster {
    let nodes = [("m", "z1"), ("n", "z0"), ("o", "z0")].map(|(name, z)| node(name, Some("g"), z));
    let near = |pod: Pod, key: &str| {
        let mut spec = (*pod.spec).clone();
        spec.affinity = [PodTerm {
            topology_key: key.into(),
            selector: LabelSelector::of_labels([("app", "b")]),
            namespaces: ["default".into()].into(),
            namespace_selector: None,
        }]
        .into();
        Pod { spec: Arc::new(spec), ..pod }
    };
    let mut stays = pod("s", "o", "a", 100);
    stays.drain.safe_to_evict = SafeToEvict::No;
    let pods = vec![
        near(pod("p", "m", "b", 100), "kubernetes.io/hostname"),
        near(pod("q", "n", "b", 100), "zone"),
        stays,
    ];
    cluster(nodes.to_vec(), pods)
}

#[test]
fn nodes_stay_whose_pods_would_have_to_move_twice() {
    let mut all = near_each_other();
    all.nodes.push(node("empty", Some("g"), "z0"));
    let first = plan(&all, &eager(), &Status::default());
    assert_eq!(names(&first), ["empty"]);
    assert_eq!(unneeded(&first), ["empty", "m", "n"]);
    assert_eq!([code(&first, "m"), code(&first, "n")], ["PodWouldMoveTwice"; 2]);
    assert_eq!(code(&first, "o"), "BlockedByPod");
    let why = first.unremovable.iter().find(|(node, _)| &**node == "m").unwrap().1.to_string();
    assert_eq!(why, "default/p would move to n, and again when that node is removed right after");
    let after = carry_out(&all, &eager(), &first);
    assert!(plan(&after, &eager(), &Status::default()).delete.is_empty());
}

#[test]
fn nodes_whose_pods_move_twice_are_removed_in_two_evaluations_with_one_removal_at_a_time() {
    let mut settings = eager();
    settings.scale_down.max_drain_parallel = 1;
    let all = near_each_other();
    let first = plan(&all, &settings, &Status::default());
    assert_eq!(names(&first), ["m"]);
    let after = carry_out(&all, &settings, &first);
    assert_eq!(names(&plan(&after, &settings, &Status::default())), ["n"]);
}

/// A random pod: its app, cpu in hundreds, node, affinity or anti-affinity, whether it may be evicted.
type RandomPod = (usize, i64, usize, u8, bool);

fn random_world() -> impl Strategy<Value = (Cluster, Settings)> {
    let pods = prop::collection::vec(
        (0..3_usize, 1..16_i64, 0..7_usize, 0..12_u8, prop::bool::weighted(0.95)),
        0..24,
    );
    let nodes = prop::collection::vec((0..4_usize, 0..3_usize), 2..7);
    let budgets = prop::collection::vec((0..3_usize, 0..4), 0..3);
    let limits = (1..4_u32, 0..3_u32, 0..3_u32, 0..20_i64);
    (nodes, pods, budgets, limits).prop_map(|(nodes, pods, budgets, limits)| {
        let groups = [Some("g"), Some("h"), Some("g"), None];
        let nodes = nodes.iter().enumerate().map(|(at, (group, zone))| {
            node(&format!("n{at}"), groups[*group], ["z0", "z1", "z2"][*zone])
        });
        let mut all = cluster(nodes.collect(), Vec::new());
        let count = all.nodes.len();
        all.pods = pods.iter().enumerate().map(|(at, pod)| random_pod(at, pod, count)).collect();
        all.budgets = budgets.iter().map(|(app, allowed)| random_budget(*app, *allowed)).collect();
        let (parallel, drains, min, cores) = limits;
        all.groups.push(Group { name: "h".into(), max: 100, min, ..Group::default() });
        let mut settings = eager();
        settings.scale_down.max_parallel = parallel;
        settings.scale_down.max_drain_parallel = drains;
        settings.limits.cores.min = cores;
        (all, settings)
    })
}

const APPS: [&str; 3] = ["a", "b", "c"];

fn random_budget(app: usize, disruptions_allowed: i32) -> Budget {
    Budget {
        namespace: "default".into(),
        name: APPS[app].into(),
        selector: LabelSelector::of_labels([("app", APPS[app])]),
        disruptions_allowed,
        ..Budget::default()
    }
}

fn random_pod(at: usize, random: &RandomPod, nodes: usize) -> Pod {
    let (app, cpu, on, wish, may_move) = *random;
    let mut made = pod(&format!("p{at:02}"), &format!("n{}", on % nodes), APPS[app], cpu * 100);
    let mut spec = (*made.spec).clone();
    let topology = if wish % 2 == 0 { "zone" } else { "kubernetes.io/hostname" };
    let selector = LabelSelector::of_labels([("app", APPS[app])]);
    let term = PodTerm {
        topology_key: topology.into(),
        selector: selector.clone(),
        namespaces: ["default".into()].into(),
        namespace_selector: None,
    };
    match wish {
        0 | 1 => spec.anti_affinity = [term].into(),
        2 | 3 => spec.affinity = [term].into(),
        4 | 5 => {
            spec.spread = [SpreadConstraint {
                topology_key: topology.into(),
                max_skew: 1,
                selector,
                min_domains: 1,
                honor_affinity: true,
                honor_taints: false,
            }]
            .into();
        }
        6 => {
            // No budget covers it.
            spec.labels = [("app", "game")].into_iter().collect();
            made.game_server = Some(GameServerUse::Idle);
        }
        7 => made.game_server = Some(GameServerUse::Allocated),
        _ => {}
    }
    made.spec = Arc::new(spec);
    if !may_move {
        made.drain.safe_to_evict = SafeToEvict::No;
    }
    made
}

/// Carries a plan out: nodes are removed in its order, and each pod moves where the plan says.
fn carry_out(cluster: &Cluster, settings: &Settings, plan: &ScaleDown) -> Cluster {
    let evaluation = Evaluation::new(cluster, settings, now());
    let mut after = cluster.clone();
    for removal in &plan.delete {
        after.nodes.retain(|node| node.name != removal.node);
        for (pod, to) in &removal.moves {
            after.pods[*pod].scheduling = Scheduling::On(evaluation.snapshot.name(*to).into());
            let labels: &Labels = &cluster.pods[*pod].spec.labels;
            let over = after.budgets.iter_mut().filter(|b| b.selector.matches(labels));
            over.for_each(|budget| budget.disruptions_allowed -= 1);
        }
    }
    after.groups.iter_mut().for_each(|group| group.status = GroupStatus::default());
    after
}

/// Removes the nodes of a plan in its order. When a node is removed, each of its pods fits on a node that stays, while the nodes
/// that are removed later still exist: no pod waits for a later removal, and none is moved twice.
fn replay(cluster: &Cluster, plan: &ScaleDown) -> Result<(), TestCaseError> {
    let mut snapshot = Snapshot::new(cluster, |_| true);
    let gone: Vec<_> = plan.delete.iter().filter_map(|r| snapshot.node(&r.node)).collect();
    prop_assert_eq!(gone.len(), plan.delete.len(), "every node that goes is there");
    for (removal, node) in plan.delete.iter().zip(&gone) {
        let mut leaving = snapshot.pods_on(*node).to_vec();
        leaving.iter().for_each(|pod| snapshot.remove(*pod));
        snapshot.close(*node);
        for (pod, to) in &removal.moves {
            prop_assert!(!gone.contains(to), "{pod} is moved to a node that goes");
            let refusal = snapshot.why_not(*pod, *to);
            prop_assert!(refusal.is_none(), "{:?} at {}", refusal, snapshot.name(*to));
            snapshot.place(*pod, *to);
        }
        snapshot.remove_node(*node);
        let mut moved: Vec<_> = removal.moves.iter().map(|(pod, _)| *pod).collect();
        leaving.sort_unstable();
        moved.sort_unstable();
        prop_assert_eq!(leaving, moved, "every pod of {} is moved", removal.node);
    }
    Ok(())
}

fn summary(plan: &ScaleDown) -> (Vec<String>, Vec<String>, BTreeMap<String, &'static str>) {
    let texts = |all: Vec<&str>| all.into_iter().map(str::to_owned).collect();
    let kept = plan.unremovable.iter().map(|(node, keep)| (node.to_string(), keep.code()));
    (texts(unneeded(plan)), texts(names(plan)), kept.collect())
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn every_pod_of_a_removed_node_fits_elsewhere((cluster, settings) in random_world()) {
        for settings in [settings, eager()] {
            replay(&cluster, &plan(&cluster, &settings, &Status::default()))?;
        }
    }

    #[test]
    fn no_plan_exceeds_a_limit_or_a_budget((cluster, settings) in random_world()) {
        let plan = plan(&cluster, &settings, &Status::default());
        let drains = plan.delete.iter().filter(|r| r.is_drain()).count();
        prop_assert!(plan.delete.len() <= settings.scale_down.max_parallel as usize);
        prop_assert!(drains <= settings.scale_down.max_drain_parallel as usize);
        let after = carry_out(&cluster, &settings, &plan);
        for group in &cluster.groups {
            let size = |c: &Cluster| c.nodes.iter().filter(|n| n.group.as_ref() == Some(&group.name)).count();
            let least = size(&cluster).min(group.min as usize);
            prop_assert!(size(&after) >= least, "{} has too few nodes", group.name);
        }
        let least = (cluster.nodes.len() as i64 * 4).min(settings.limits.cores.min);
        prop_assert!(after.nodes.len() as i64 * 4 >= least, "too few cores are left");
        for budget in &after.budgets {
            prop_assert!(budget.disruptions_allowed >= 0, "{} is broken", budget.name);
        }
    }

    #[test]
    fn no_node_of_an_allocated_game_server_is_removed((cluster, settings) in random_world()) {
        let plan = plan(&cluster, &settings, &Status::default());
        let is_busy = |pod: &&Pod| pod.game_server == Some(GameServerUse::Allocated);
        for pod in cluster.pods.iter().filter(is_busy) {
            let Scheduling::On(node) = &pod.scheduling else { continue };
            prop_assert!(!names(&plan).contains(&&**node), "{} is on {node}", pod.name);
        }
        for removal in &plan.delete {
            let moved = removal.moves.iter().map(|(pod, _)| *pod);
            let idle = moved.filter(|pod| cluster.pods[*pod].game_server.is_some());
            prop_assert_eq!(idle.collect::<Vec<_>>(), removal.replaced.clone());
        }
    }

    #[test]
    fn a_second_evaluation_removes_nothing((cluster, settings) in random_world(), has_limits: bool) {
        let (mut cluster, mut settings) = (cluster, settings);
        // The limit on parallel removals is a reason for another evaluation; minimums are not.
        settings.scale_down = eager().scale_down;
        if !has_limits {
            settings = eager();
            cluster.groups.iter_mut().for_each(|group| group.min = 0);
        }
        let first = plan(&cluster, &settings, &Status::default());
        let after = carry_out(&cluster, &settings, &first);
        let second = plan(&after, &settings, &Status::default());
        prop_assert_eq!(names(&second), Vec::<&str>::new(), "after {:?}", names(&first));
    }

    #[test]
    fn every_node_is_removed_or_has_a_reason_to_stay((cluster, settings) in random_world()) {
        for settings in [settings, eager()] {
            let plan = plan(&cluster, &settings, &Status::default());
            for node in &cluster.nodes {
                let goes = plan.delete.iter().filter(|r| r.node == node.name).count();
                let stays = plan.unremovable.iter().filter(|(name, _)| *name == node.name).count();
                prop_assert_eq!(goes + stays, 1, "{}", node.name);
            }
            for removal in &plan.delete {
                prop_assert!(unneeded(&plan).contains(&&*removal.node));
            }
        }
    }

    #[test]
    fn the_order_of_the_input_does_not_matter((cluster, settings) in random_world()) {
        let mut turned = cluster.clone();
        turned.nodes.reverse();
        turned.pods.reverse();
        turned.groups.reverse();
        turned.budgets.reverse();
        turned.workloads.reverse();
        let status = Status::default();
        for settings in [settings, eager()] {
            prop_assert_eq!(
                summary(&plan(&cluster, &settings, &status)),
                summary(&plan(&turned, &settings, &status))
            );
        }
    }
}
