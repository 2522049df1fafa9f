//! The rules of pending pods, templates and predicates, by the number of their paragraph in Cluster Autoscaler's sheet.

use std::sync::Arc;

use jiff::SignedDuration;
use plimsoll_decide::Reason as _;
use plimsoll_decide::nodes::{
    Cluster, DaemonSet, Effect, Group, HOSTNAME_LABEL, HostPort, LabelSelector, NodeTerm, Operator,
    Owner, Pod, PodSpec, PodTerm, Requirement, Resources, ScaleUp, Scheduling, Settings,
    SpreadConstraint, Taint, Template, Turn, Volume,
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
fn rule_1_3_what_fits_after_all_asks_for_nothing() {
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
fn rule_1_6_a_settled_node_goes_before_the_template() {
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
    // Four pods of 250m: a settled node of 500m says two nodes are needed (it takes two itself), the template one.
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
fn rule_1_6_passing_taints_are_not_part_of_a_template() {
    let mut settings = Settings::default();
    settings.scale_up.startup_taints = vec!["warming".into()];
    settings.scale_up.status_taints = vec!["state".into()];
    for (key, wanted) in [
        ("node.kubernetes.io/not-ready", 1),
        ("node.cloudprovider.kubernetes.io/uninitialized", 1),
        ("ToBeDeletedByClusterAutoscaler", 1),
        ("startup-taint.cluster-autoscaler.kubernetes.io/x", 1),
        ("ignore-taint.cluster-autoscaler.kubernetes.io/x", 1),
        ("status-taint.cluster-autoscaler.kubernetes.io/x", 1),
        ("warming", 1),
        ("state", 1),
        ("gpu", 0),
    ] {
        let cluster =
            Cluster { groups: vec![tainted(key)], pods: vec![pod("p")], ..Cluster::default() };
        assert_eq!(grown(&plan(&cluster, &settings)), wanted, "{key}");
    }
}

#[test]
fn rule_1_6_daemons_take_their_room_on_a_new_node() {
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

/// Turns a spec into one that a new node of the group does not take.
type Change = fn(&mut PodSpec);

#[test]
fn section_3_each_predicate_says_why_a_group_does_not_help() {
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
        ("PodAffinity", |spec| spec.affinity = [near(HOSTNAME_LABEL, "nobody")].into()),
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

/// A node with a pod that others avoid, a daemon that holds a port on every node, and a pod that waits.
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
fn rule_1_7_a_group_that_may_not_grow_says_so() {
    let full = Group { max: 0, ..group() };
    let mut backed_off = group();
    backed_off.status.backoff_until = Some(now() + SignedDuration::from_secs(1));
    for (wanted, group) in [("AtMaxSize", full), ("BackedOff", backed_off)] {
        let cluster = Cluster { groups: vec![group], pods: vec![pod("p")], ..Cluster::default() };
        assert_eq!(codes(&plan(&cluster, &Settings::default())), [wanted]);
    }
}

/// A group of nodes for four of the pods below.
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
    Turn::new(cluster, settings, now()).scale_up()
}

fn grown(plan: &ScaleUp) -> u32 {
    plan.resizes.iter().map(|resize| resize.to - resize.from).sum()
}

/// Why each group does not help each pod that nothing helps.
fn codes(plan: &ScaleUp) -> Vec<&'static str> {
    plan.unschedulable.iter().flat_map(|pod| pod.why.iter().map(|why| why.refusal.code())).collect()
}
