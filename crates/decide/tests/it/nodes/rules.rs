//! Rules about pending pods, templates and predicates, by paragraph of Cluster Autoscaler's rule sheet.

use std::sync::Arc;

use jiff::SignedDuration;
use plimsoll_decide::Reason as _;
use plimsoll_decide::nodes::{
    Cluster, DaemonSet, Effect, Evaluation, Group, HOSTNAME_LABEL, HostPort, LabelSelector, Node,
    NodeTerm, Operator, Owner, Pod, PodSpec, PodTerm, Refusal, Requirement, Resources, ScaleUp,
    Scheduling, Settings, SpreadConstraint, Taint, Template, Volume,
};

use super::world::{ZONE, node, now};

#[test]
fn rule_1_3_which_pods_count_as_pending() {
    let waiting = pod("a");
    let owned = Arc::new(Owner { kind: "DaemonSet".into(), name: "d".into(), ..Owner::default() });
    let at = |minutes| Some(now() - SignedDuration::from_mins(minutes));
    let terminating = Arc::new(PodSpec { terminating: true, ..PodSpec::clone(&waiting.spec) });
    let mut finished = waiting.clone();
    finished.drain.is_finished = true;
    let delayed = |minutes| Some(SignedDuration::from_mins(minutes));
    for (what, pod, wanted) in [
        ("unschedulable", waiting.clone(), 1),
        ("on a node (1)", Pod { scheduling: Scheduling::On("gone".into()), ..waiting.clone() }, 0),
        ("being deleted (2)", Pod { spec: terminating, ..waiting.clone() }, 0),
        (
            "nominated (3)",
            Pod { scheduling: Scheduling::Nominated("gone".into()), ..waiting.clone() },
            0,
        ),
        ("anything else (6)", Pod { scheduling: Scheduling::Other, ..waiting.clone() }, 0),
        ("finished", finished, 0),
        ("below the cutoff", Pod { priority: Some(-11), ..waiting.clone() }, 0),
        ("at the cutoff", Pod { priority: Some(-10), ..waiting.clone() }, 1),
        ("of a DaemonSet", Pod { owner: Some(owned), ..waiting.clone() }, 0),
        (
            "younger than its delay",
            Pod { scale_up_delay: delayed(5), created_at: at(4), ..waiting.clone() },
            0,
        ),
        (
            "older than its delay",
            Pod { scale_up_delay: delayed(5), created_at: at(6), ..waiting },
            1,
        ),
    ] {
        let cluster = Cluster { groups: vec![group()], pods: vec![pod], ..Cluster::default() };
        assert_eq!(grown(&plan(&cluster, &Settings::default())), wanted, "{what}");
    }
}

#[test]
fn rule_1_3_pods_that_fit_cause_no_scale_up() {
    let group = group();
    let nodes = vec![node("n", &group)];
    for (pods, wanted) in [(2, 0), (4, 0), (5, 1), (8, 1), (9, 2)] {
        let pods = (0..pods).map(|n| pod(&format!("p{n}"))).collect();
        let cluster = Cluster {
            groups: vec![group.clone()],
            nodes: nodes.clone(),
            pods,
            ..Cluster::default()
        };
        assert_eq!(grown(&plan(&cluster, &Settings::default())), wanted);
    }
}

#[test]
fn rule_1_6_an_established_node_takes_precedence_over_the_template() {
    let group = group();
    let small = Resources { cpu: 500, ..group.template.clone().unwrap().capacity };
    let real = |ready_for| {
        let mut real = node("real", &group);
        (real.allocatable, real.capacity) = (small.clone(), small.clone());
        real.ready_changed_at = Some(now() - SignedDuration::from_secs(ready_for));
        real
    };
    let mut closed = real(600);
    closed.unschedulable = true;
    // Four pods of 250m: by an established node of 500m two nodes are needed (it takes two itself), by the template one.
    for (what, real, wanted) in
        [("settled", real(60), 2), ("too young", real(59), 1), ("closed", closed, 2)]
    {
        let pods = (0..6).map(|n| pod(&format!("p{n}"))).collect();
        let cluster =
            Cluster { groups: vec![group.clone()], nodes: vec![real], pods, ..Cluster::default() };
        assert_eq!(grown(&plan(&cluster, &Settings::default())), wanted, "{what}");
    }
    let bare = Group { template: None, ..group };
    let cluster = Cluster { groups: vec![bare], pods: vec![pod("p")], ..Cluster::default() };
    assert_eq!(codes(&plan(&cluster, &Settings::default())), ["NoTemplate"]);
}

#[test]
fn rule_1_6_transient_taints_are_not_part_of_a_template() {
    let mut settings = Settings::default();
    settings.scale_up.startup_taints = vec!["warming".into()];
    settings.scale_up.startup_taint_prefixes = vec!["cold/".into()];
    settings.scale_up.status_taints = vec!["state".into()];
    for (key, wanted) in [
        ("node.kubernetes.io/not-ready", 1),
        ("node.cloudprovider.kubernetes.io/uninitialized", 1),
        ("ToBeDeletedByClusterAutoscaler", 1),
        ("startup-taint.cluster-autoscaler.kubernetes.io/x", 1),
        ("ignore-taint.cluster-autoscaler.kubernetes.io/x", 1),
        ("status-taint.cluster-autoscaler.kubernetes.io/x", 1),
        ("warming", 1),
        ("cold/disk", 1),
        ("warm/disk", 0),
        ("state", 1),
        ("gpu", 0),
    ] {
        let cluster =
            Cluster { groups: vec![tainted(key)], pods: vec![pod("p")], ..Cluster::default() };
        assert_eq!(grown(&plan(&cluster, &settings)), wanted, "{key}");
    }
}

#[test]
fn rule_1_6_daemons_use_resources_on_a_new_node() {
    let spec = |cpu| {
        Arc::new(PodSpec {
            requests: Resources { cpu, ..Resources::default() },
            ..PodSpec::default()
        })
    };
    let picky = PodSpec {
        node_selector: [("no", "where")].into_iter().collect(),
        ..PodSpec::clone(&spec(500))
    };
    for (what, spec, wanted) in
        [("no room taken", spec(0), 1), ("half", spec(500), 2), ("elsewhere", Arc::new(picky), 1)]
    {
        let set = DaemonSet { name: "d".into(), spec, is_node_critical: false };
        let pods = (0..4).map(|n| pod(&format!("p{n}"))).collect();
        let cluster =
            Cluster { groups: vec![group()], daemon_sets: vec![set], pods, ..Cluster::default() };
        assert_eq!(grown(&plan(&cluster, &Settings::default())), wanted, "{what}");
    }
}

/// Changes a spec so that it does not fit on a new node of the group.
type Change = fn(&mut PodSpec);

#[test]
fn section_3_each_predicate_has_its_reason() {
    let changes: [(&str, Change); 12] = [
        ("InsufficientCpu", |spec| spec.requests.cpu = 1001),
        ("InsufficientMemory", |spec| spec.requests.memory = (4 << 30) + 1),
        ("InsufficientResource", |spec| spec.requests.set("example.com/gpu", 1)),
        ("NodeSelectorMismatch", |spec| {
            spec.node_selector = [("disk", "ssd")].into_iter().collect()
        }),
        ("NodeSelectorMismatch", |spec| {
            let labels =
                [Requirement { key: ZONE.into(), operator: Operator::Exists, values: [].into() }]
                    .into();
            spec.node_affinity = Some([NodeTerm { labels, name: Box::default() }].into());
        }),
        ("PodAffinity", |spec| spec.affinity = [near(HOSTNAME_LABEL, "absent")].into()),
        ("PodAffinity", |spec| spec.affinity = [near(ZONE, "a")].into()),
        ("PodAntiAffinity", |spec| {
            spec.anti_affinity = [near("plimsoll.dev/node-group", "there")].into()
        }),
        ("TopologySpread", |spec| {
            let selector = LabelSelector::of_labels([("app", "a")]);
            spec.spread = [SpreadConstraint {
                topology_key: ZONE.into(),
                max_skew: 1,
                selector,
                min_domains: 1,
                honor_affinity: true,
                honor_taints: false,
            }]
            .into();
        }),
        ("VolumeZone", |spec| {
            let labels = [Requirement {
                key: ZONE.into(),
                operator: Operator::In,
                values: ["z".into()].into(),
            }]
            .into();
            let reachable = Some([NodeTerm { labels, name: Box::default() }].into());
            spec.volumes = [Volume { id: "v".into(), reachable, ..Volume::default() }].into();
        }),
        ("HostPortTaken", |spec| {
            spec.host_ports = [HostPort { protocol: "TCP".into(), ip: "".into(), port: 80 }].into()
        }),
        ("TaintNotTolerated", |spec| spec.namespace = "tainted".into()),
    ];
    for (wanted, change) in changes {
        let mut spec = PodSpec::clone(&pod("p").spec);
        change(&mut spec);
        let group = if &*spec.namespace == "tainted" { tainted("gpu") } else { group() };
        let cluster = full(group, spec);
        assert_eq!(codes(&plan(&cluster, &Settings::default())), [wanted]);
    }
}

#[test]
fn section_3_spread_by_host_fills_nodes_evenly() {
    let spread = |max_skew, min_domains| SpreadConstraint {
        topology_key: HOSTNAME_LABEL.into(),
        max_skew,
        selector: LabelSelector::of_labels([("app", "a")]),
        min_domains,
        honor_affinity: true,
        honor_taints: false,
    };
    // Four pods fit on a node.
    for (what, pods, max_skew, min_domains, unrelated, wanted) in [
        ("one class", 12, 1, 1, 0, 3),
        ("minDomains that the plan reaches", 12, 1, 3, 0, 3),
        ("minDomains above 1", 12, 1, 2, 0, 3),
        ("minDomains above what resources need", 12, 1, 5, 0, 5),
        ("fewer pods than minDomains", 2, 1, 5, 0, 2),
        ("an unrelated pod", 12, 1, 1, 1, 4),
        ("unrelated pods", 12, 1, 1, 4, 4),
        ("unrelated pods and minDomains", 12, 1, 4, 4, 4),
        ("an uneven rest", 7, 1, 1, 1, 2),
        ("a larger skew", 12, 2, 1, 1, 4),
    ] {
        let mut spec = PodSpec::clone(&pod("p").spec);
        spec.spread = [spread(max_skew, min_domains)].into();
        let spec = Arc::new(spec);
        let mut other = PodSpec::clone(&pod("p").spec);
        other.labels = [("app", "other")].into_iter().collect();
        let other = Arc::new(other);
        let mut all: Vec<Pod> = (0..pods)
            .map(|n| Pod { spec: Arc::clone(&spec), ..pod(&format!("p{n:02}")) })
            .collect();
        all.extend(
            (0..unrelated).map(|n| Pod { spec: Arc::clone(&other), ..pod(&format!("other{n}")) }),
        );
        let group = Group { max: 50, ..group() };
        let cluster = Cluster { groups: vec![group], pods: all, ..Cluster::default() };
        let plan = plan(&cluster, &Settings::default());
        assert_eq!((grown(&plan), codes(&plan).len()), (wanted, 0), "{what}");
    }
}

#[test]
fn section_3_anti_affinity_of_a_daemon_is_the_reason() {
    let daemon = |labels: &str, avoids: Option<&str>| PodSpec {
        namespace: "default".into(),
        labels: [("app", labels)].into_iter().collect(),
        anti_affinity: avoids.map(|app| near(HOSTNAME_LABEL, app)).into_iter().collect(),
        ..PodSpec::default()
    };
    let mut shy = PodSpec::clone(&pod("p").spec);
    shy.anti_affinity = [near(HOSTNAME_LABEL, "daemon")].into();
    for (what, daemon, pending) in [
        ("the daemon avoids the pod", daemon("daemon", Some("a")), pod("p")),
        (
            "the pod avoids the daemon",
            daemon("daemon", None),
            Pod { spec: Arc::new(shy), ..pod("p") },
        ),
    ] {
        let set = DaemonSet { name: "d".into(), spec: Arc::new(daemon), is_node_critical: false };
        let cluster = Cluster {
            groups: vec![group()],
            daemon_sets: vec![set],
            pods: vec![pending],
            ..Cluster::default()
        };
        assert_eq!(codes(&plan(&cluster, &Settings::default())), ["PodAntiAffinity"], "{what}");
    }
}

/// Returns a node with a pod that others avoid, a daemon with a host port on every node, and a pending pod.
fn full(group: Group, spec: PodSpec) -> Cluster {
    let there = PodSpec {
        namespace: "default".into(),
        labels: [("app", "there")].into_iter().collect(),
        requests: Resources { cpu: 1000, ..Resources::default() },
        ..PodSpec::default()
    };
    let there = Pod {
        name: "there".into(),
        spec: Arc::new(there),
        scheduling: Scheduling::On("n".into()),
        ..Pod::default()
    };
    let port = PodSpec {
        host_ports: [HostPort { protocol: "TCP".into(), ip: "".into(), port: 80 }].into(),
        ..PodSpec::default()
    };
    let daemon = DaemonSet { name: "d".into(), spec: Arc::new(port), is_node_critical: true };
    Cluster {
        nodes: vec![node("n", &group)],
        groups: vec![group],
        pods: vec![there, Pod { spec: Arc::new(spec), ..pod("p") }],
        daemon_sets: vec![daemon],
        ..Cluster::default()
    }
}

#[test]
fn rule_1_7_a_group_that_may_not_grow_has_a_reason() {
    let full = Group { max: 0, ..group() };
    let mut backed_off = group();
    backed_off.status.backoff_until = Some(now() + SignedDuration::from_secs(1));
    for (wanted, group) in [("AtMaxSize", full), ("BackedOff", backed_off)] {
        let cluster = Cluster { groups: vec![group], pods: vec![pod("p")], ..Cluster::default() };
        assert_eq!(codes(&plan(&cluster, &Settings::default())), [wanted]);
    }
}

#[test]
fn a_limit_that_is_reached_is_named() {
    let limited = |change: fn(&mut Settings)| {
        let mut settings = Settings::default();
        change(&mut settings);
        settings
    };
    let whole = Group { all_or_nothing: true, max: 3, ..group() };
    for (what, group, settings, wanted) in [
        ("cores", group(), limited(|s| s.limits.cores.max = 0), "cpu"),
        ("a whole group's cores", whole.clone(), limited(|s| s.limits.cores.max = 2), "cpu"),
        (
            "a whole group's memory",
            whole.clone(),
            limited(|s| s.limits.memory.max = 9 << 30),
            "memory",
        ),
        ("a whole group's nodes", whole.clone(), limited(|s| s.limits.nodes = 2), "nodes"),
        ("a plan", whole, limited(|s| s.scale_up.max_nodes = 2), "nodes of one plan"),
    ] {
        let cluster = Cluster { groups: vec![group], pods: vec![pod("p")], ..Cluster::default() };
        let plan = plan(&cluster, &settings);
        let why: Vec<&Refusal> = plan.unschedulable[0].why.iter().map(|why| &why.refusal).collect();
        assert_eq!(why, [&Refusal::LimitReached(wanted.into())], "{what}");
    }
}

#[test]
fn an_unhealthy_cluster_is_the_reason_and_no_limit() {
    let nodes = (0..6).map(|n| Node { is_ready: false, ..node(&format!("n{n}"), &group()) });
    let closed = |node| Node { group: None, unschedulable: true, ..node };
    let nodes = nodes.map(closed).collect();
    let cluster =
        Cluster { nodes, groups: vec![group()], pods: vec![pod("p")], ..Cluster::default() };
    assert_eq!(codes(&plan(&cluster, &Settings::default())), ["ClusterUnhealthy"]);
}

/// Returns a group whose nodes fit four of the pods below.
fn group() -> Group {
    let size = Resources { cpu: 1000, memory: 4 << 30, pods: 10, ..Resources::default() };
    let template = Template { capacity: size.clone(), allocatable: size, ..Template::default() };
    Group { name: "g".into(), max: 10, template: Some(template), ..Group::default() }
}

fn tainted(key: &str) -> Group {
    let mut group = group();
    let taint = Taint { key: key.into(), value: "".into(), effect: Effect::NoSchedule };
    group.template.as_mut().expect("it has one").taints = [taint].into();
    group
}

fn pod(name: &str) -> Pod {
    let requests = Resources { cpu: 250, ..Resources::default() };
    let labels = [("app", "a")].into_iter().collect();
    let spec = PodSpec { namespace: "default".into(), labels, requests, ..PodSpec::default() };
    Pod {
        name: name.into(),
        spec: Arc::new(spec),
        scheduling: Scheduling::Unschedulable,
        ..Pod::default()
    }
}

fn near(key: &str, app: &str) -> PodTerm {
    PodTerm {
        topology_key: key.into(),
        selector: LabelSelector::of_labels([("app", app)]),
        ..PodTerm::default()
    }
}

fn plan(cluster: &Cluster, settings: &Settings) -> ScaleUp {
    Evaluation::new(cluster, settings, now()).scale_up()
}

fn grown(plan: &ScaleUp) -> u32 {
    plan.resizes.iter().map(|resize| resize.to - resize.from).sum()
}

/// Returns the reason of each group for each pod that no group helps.
fn codes(plan: &ScaleUp) -> Vec<&'static str> {
    plan.unschedulable.iter().flat_map(|pod| pod.why.iter().map(|why| why.refusal.code())).collect()
}
