//! Properties of all scale-up plans.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_decide::nodes::{
    Cluster, Evaluation, Expander, Group, LabelSelector, Limits, Node, Placement, Pod, PodId,
    PodSpec, PodTerm, Range, Resources, ScaleUp, ScaleUpSettings, Scheduling, Settings,
    SpreadConstraint, Template,
};
use proptest::prelude::*;

use super::oracle::World;
use super::world::{self, Dice};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(worlds()))]

    #[test]
    fn every_placement_passes_all_rules_when_replayed(seed: u64) {
        let (cluster, settings) = made(seed);
        let after = carried_out(&cluster, &settings);
        let left = replay(&cluster, &after);
        prop_assert!(left.is_empty(), "{:?}\n{:?} of {:#?}", left, after.plan, cluster);
    }

    #[test]
    fn no_limit_is_exceeded(seed: u64) {
        let (cluster, settings) = made(seed);
        let after = carried_out(&cluster, &settings);
        for group in &cluster.groups {
            let of = |c: &Cluster| c.nodes.iter().filter(|n| n.group.as_ref() == Some(&group.name)).count();
            prop_assert!(of(&after.cluster) <= of(&cluster).max(group.max as usize));
        }
        let cores = |c: &Cluster| c.nodes.iter().map(|n| (n.capacity.cpu + 999) / 1000).sum::<i64>();
        prop_assert!(cores(&after.cluster) <= cores(&cluster).max(settings.limits.cores.max));
        let nodes = after.cluster.nodes.len() - cluster.nodes.len();
        prop_assert!(nodes <= settings.scale_up.max_nodes as usize);
        if settings.limits.nodes > 0 {
            prop_assert!(after.cluster.nodes.len() <= cluster.nodes.len().max(settings.limits.nodes as usize));
        }
    }

    #[test]
    fn a_second_evaluation_adds_nothing(seed: u64) {
        let (cluster, settings) = made(seed);
        let after = carried_out(&cluster, &settings);
        // The limit on one plan is a reason for another evaluation.
        if after.cluster.nodes.len() - cluster.nodes.len() < settings.scale_up.max_nodes as usize {
            let mut evaluation = Evaluation::new(&after.cluster, &settings, world::now());
            let plan = evaluation.scale_up();
            prop_assert!(plan.resizes.is_empty(), "{:?}\nafter {:?} of {:#?}", plan, after.plan, cluster);
        }
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(seed: u64) {
        let (cluster, settings) = made(seed);
        let mut dice = Dice(seed ^ 99);
        let mut other = cluster.clone();
        dice.shuffle(&mut other.nodes);
        dice.shuffle(&mut other.pods);
        dice.shuffle(&mut other.groups);
        prop_assert_eq!(story(&cluster, &settings), story(&other, &settings));
    }
}

/// Returns the number of random worlds; PROPTEST_CASES can request more.
fn worlds() -> u32 {
    ProptestConfig::default().cases.max(1500)
}

fn made(seed: u64) -> (Cluster, Settings) {
    let mut dice = Dice(seed);
    let cluster = world::cluster(&mut dice);
    let all = [
        Expander::LeastWaste,
        Expander::MostPods,
        Expander::LeastNodes,
        Expander::Priority,
        Expander::Random,
    ];
    let cores = Range { min: 0, max: dice.pick(&[20, 40, 1000]) };
    let limits = Limits { nodes: dice.pick(&[0, 0, 8]), cores, ..Limits::default() };
    let scale_up = ScaleUpSettings {
        max_nodes: dice.pick(&[3, 1000, 1000]),
        balance_similar_groups: dice.once_in(3),
        ..ScaleUpSettings::default()
    };
    let expanders = vec![dice.pick(&all)];
    (cluster, Settings { expanders, seed, limits, scale_up, ..Settings::default() })
}

/// A cluster after its plan was carried out.
struct After {
    plan: ScaleUp,
    cluster: Cluster,
    /// The placed pods and their nodes' names: first those that need none of the new nodes.
    settled: Vec<(PodId, Box<str>)>,
    steps: Vec<Vec<(PodId, Box<str>)>>,
}

fn carried_out(cluster: &Cluster, settings: &Settings) -> After {
    let mut evaluation = Evaluation::new(cluster, settings, world::now());
    let place = |pod: &PodId| evaluation.snapshot.node_of(*pod).expect("it fits one of the nodes");
    let settled: Vec<(PodId, Box<str>)> = evaluation
        .schedulable
        .iter()
        .map(|pod| (*pod, evaluation.snapshot.name(place(pod)).into()))
        .collect();
    let waits = |pod: &&Pod| pod.scheduling == Scheduling::Unschedulable;
    let waiting = cluster.pods.iter().filter(waits).count();
    assert_eq!(settled.len() + evaluation.pending.len(), waiting, "each fits or asks");
    let plan = evaluation.scale_up();
    let mut after = cluster.clone();
    for resize in &plan.resizes {
        let group = &cluster.groups[resize.group];
        assert_eq!(resize.nodes.len(), (resize.to - resize.from) as usize);
        let name = |at: usize| format!("{}-new-{at}", group.name);
        after.nodes.extend((0..resize.nodes.len()).map(|at| world::node(&name(at), group)));
    }
    let name = |place: &Placement| match *place {
        Placement::There(node) => evaluation.snapshot.name(node).into(),
        Placement::New { group, at } => format!("{}-new-{at}", cluster.groups[group].name).into(),
    };
    let named = |step: &Vec<(PodId, Placement)>| {
        step.iter().map(|(pod, place)| (*pod, name(place))).collect()
    };
    let steps: Vec<Vec<(PodId, Box<str>)>> = plan.steps.iter().map(named).collect();
    for (pod, node) in settled.iter().chain(steps.iter().flatten()) {
        after.pods[*pod].scheduling = Scheduling::On(node.clone());
    }
    let in_nodes: usize = plan.resizes.iter().flat_map(|r| &r.nodes).map(Vec::len).sum();
    assert_eq!(steps.iter().flatten().count(), in_nodes + plan.on_existing.len());
    After { plan, cluster: after, settled, steps }
}

/// Places the pods of a plan one by one, each as soon as all rules allow it, step by step as the new nodes are added; returns
/// those that are never allowed.
fn replay(before: &Cluster, after: &After) -> Vec<String> {
    let nodes: Vec<&Node> = before.nodes.iter().collect();
    let at = |nodes: &[&Node], name: &str| {
        nodes.iter().position(|n| &*n.name == name).expect("it is one of them")
    };
    let running = before.pods.iter().filter_map(|pod| match &pod.scheduling {
        Scheduling::On(node) => Some((&*pod.spec, at(&nodes, node))),
        Scheduling::Nominated(_)
        | Scheduling::Unschedulable
        | Scheduling::Unprocessed
        | Scheduling::Other => None,
    });
    let mut world = World { pods: running.collect(), nodes };
    let mut left = Vec::new();
    let settled = after.settled.iter().map(|(pod, node)| (*pod, node.clone())).collect();
    for mut step in std::iter::once(settled).chain(after.steps.iter().cloned()) {
        for (_, name) in &step {
            if world.nodes.iter().all(|node| node.name != *name) {
                world.nodes.extend(after.cluster.nodes.iter().find(|node| node.name == *name));
            }
        }
        let_in(&mut world, before, &mut step);
        left.extend(step.iter().map(|(pod, node)| format!("{} on {node}", before.pods[*pod].name)));
    }
    left
}

fn let_in<'a>(world: &mut World<'a>, cluster: &'a Cluster, left: &mut Vec<(PodId, Box<str>)>) {
    loop {
        let count = left.len();
        left.retain(|(pod, node)| {
            let spec = &*cluster.pods[*pod].spec;
            let at = world.nodes.iter().position(|n| n.name == *node).expect("it has joined");
            let is_refused = world.refuses(spec, at).is_some();
            if !is_refused {
                world.pods.push((spec, at));
            }
            is_refused
        });
        if left.len() == count {
            return;
        }
    }
}

/// A plan with names instead of indices.
type Story = (BTreeMap<Box<str>, (u32, u32, BTreeSet<Box<str>>)>, BTreeSet<Box<str>>);

fn story(cluster: &Cluster, settings: &Settings) -> Story {
    let plan = Evaluation::new(cluster, settings, world::now()).scale_up();
    let grown = plan.resizes.iter().map(|resize| {
        let pods = resize.nodes.iter().flatten().map(|pod| cluster.pods[*pod].name.clone());
        (cluster.groups[resize.group].name.clone(), (resize.from, resize.to, pods.collect()))
    });
    let left = plan.unschedulable.iter().map(|left| cluster.pods[left.pod].name.clone());
    (grown.collect(), left.collect())
}

#[test]
fn a_zone_opened_for_one_class_exists_for_the_others() {
    // The fifth pod with a spread constraint would fit in the first zone if the pods with anti-affinity did not open the third.
    let mut pods = vec![apart("running")];
    pods[0].scheduling = Scheduling::On("open".into());
    pods.extend((0..5).map(|n| spread(&format!("spread-{n}"), "ssd", 2)));
    pods.extend((0..2).map(|n| apart(&format!("apart-{n}"))));
    let cluster = two_of_three_zones(pods);
    let expanders = vec![Expander::Priority];
    let after = carried_out(&cluster, &Settings { expanders, ..Settings::default() });
    assert_eq!(replay(&cluster, &after), [""; 0]);
    assert_eq!(after.plan.unschedulable.len(), 0);
    assert_eq!(after.cluster.nodes.len(), 4);
}

#[test]
fn a_zone_that_cannot_take_the_pods_of_a_constraint_still_counts() {
    // The zone of the slow disks has no pods of the constraint, so only one of them fits.
    let groups = vec![group("fast", "a", "ssd"), group("slow", "b", "hdd")];
    let mut pods: Vec<Pod> = (0..2).map(|n| spread(&format!("spread-{n}"), "ssd", 1)).collect();
    pods.extend((0..2).map(|n| apart(&format!("apart-{n}"))));
    let cluster = Cluster { groups, pods, ..Cluster::default() };
    let after = carried_out(&cluster, &Settings::default());
    assert_eq!(replay(&cluster, &after), [""; 0]);
    assert_eq!(after.plan.unschedulable.len(), 1);
}

#[test]
fn nodes_are_not_balanced_into_a_zone_that_would_keep_pods_out() {
    // Nodes for the large pods could be in any zone, but the fifth pod with a spread constraint requires that the third is not opened.
    let mut pods: Vec<Pod> = (0..5).map(|n| spread(&format!("spread-{n}"), "ssd", 2)).collect();
    pods.extend((0..2).map(|n| waiting(&format!("whole-{n}"), spec("whole", 2000))));
    let cluster = two_of_three_zones(pods);
    let expanders = vec![Expander::Priority];
    let scale_up = ScaleUpSettings { balance_similar_groups: true, ..ScaleUpSettings::default() };
    let after = carried_out(&cluster, &Settings { expanders, scale_up, ..Settings::default() });
    assert_eq!(replay(&cluster, &after), [""; 0]);
    assert_eq!(after.plan.unschedulable.len(), 0);
}

#[test]
fn fitting_pods_are_listed_in_the_order_of_placement() {
    // Followers do not fit until a leader is placed, and a third follower would keep further leaders out.
    let groups = vec![group("g", "a", "ssd")];
    let mut follower = spec("follower", 100);
    follower.affinity = [near("leader")].into();
    let mut leader = spec("leader", 100);
    leader.spread = [rule("follower", 2)].into();
    leader.spread[0].min_domains = 2;
    let names = ["0-follower", "1-leader", "2-follower", "3-follower", "4-leader"];
    let of = |name: &&str| if name.ends_with("leader") { leader.clone() } else { follower.clone() };
    let pods = names.iter().map(|name| waiting(name, of(name))).collect();
    let nodes = vec![world::node("n", &groups[0])];
    let cluster = Cluster { groups, nodes, pods, ..Cluster::default() };
    let settings = Settings::default();
    assert_eq!(Evaluation::new(&cluster, &settings, world::now()).schedulable, [1, 4, 0, 2, 3]);
    assert_eq!(replay(&cluster, &carried_out(&cluster, &settings)), [""; 0]);
}

#[test]
fn a_plan_ends_at_a_question_and_goes_on_with_its_answer() {
    let groups = vec![group("a", "a", "ssd"), group("b", "b", "ssd")];
    let pods = (0..3).map(|n| waiting(&format!("p{n}"), spec("p", 1500))).collect();
    let cluster = Cluster { groups, pods, ..Cluster::default() };
    let settings = Settings { expanders: vec![Expander::Grpc], ..Settings::default() };
    let plan = |answers: &[Vec<Box<str>>]| {
        Evaluation::new(&cluster, &settings, world::now()).scale_up_answered(answers)
    };
    let asked = plan(&[]);
    assert!(asked.resizes.is_empty());
    let options = asked.question.unwrap().options;
    let found: Vec<_> = options.iter().map(|o| (o.group, o.nodes, o.pods.clone())).collect();
    assert_eq!(found, [(0, 3, vec![0, 1, 2]), (1, 3, vec![0, 1, 2])]);
    assert_eq!(options[0].template.capacity.cpu, 2000);
    for (answer, grows) in [(vec!["b".into()], 1), (vec![], 0), (vec!["unknown".into()], 0)] {
        let plan = plan(&[answer]);
        assert!(plan.question.is_none());
        let resizes: Vec<_> = plan.resizes.iter().map(|r| (r.group, r.to)).collect();
        assert_eq!(resizes, [(grows, 3)]);
    }
}

/// Returns a zone with a node, one whose node takes no pods but whose group grows first, and one that only has a group.
fn two_of_three_zones(pods: Vec<Pod>) -> Cluster {
    let [first, third] =
        [("first", "a"), ("third", "c")].map(|(name, zone)| group(name, zone, "ssd"));
    let second = Group { priority: Some(1), ..group("second", "b", "ssd") };
    let shut = Node { unschedulable: true, ..world::node("shut", &second) };
    let nodes = vec![world::node("open", &first), shut];
    Cluster { groups: vec![first, second, third], nodes, pods, ..Cluster::default() }
}

fn group(name: &str, zone: &str, disk: &str) -> Group {
    let labels = [(world::ZONE, zone), ("disk", disk)].into_iter().collect();
    let size = Resources { cpu: 2000, memory: 4 << 30, pods: 10, ..Resources::default() };
    let template =
        Template { labels, capacity: size.clone(), allocatable: size, ..Template::default() };
    Group { name: name.into(), max: 4, template: Some(template), ..Group::default() }
}

fn waiting(name: &str, spec: PodSpec) -> Pod {
    let scheduling = Scheduling::Unschedulable;
    Pod { name: name.into(), spec: Arc::new(spec), scheduling, ..Pod::default() }
}

fn spec(app: &str, cpu: i64) -> PodSpec {
    let labels = [("app", app)].into_iter().collect();
    let requests = Resources { cpu, ..Resources::default() };
    PodSpec { namespace: "default".into(), labels, requests, ..PodSpec::default() }
}

fn near(app: &str) -> PodTerm {
    let selector = LabelSelector::of_labels([("app", app)]);
    PodTerm { topology_key: world::ZONE.into(), selector, ..PodTerm::default() }
}

/// Returns a small pod with anti-affinity to its own class by zone.
fn apart(name: &str) -> Pod {
    waiting(name, PodSpec { anti_affinity: [near("apart")].into(), ..spec("apart", 100) })
}

/// Returns a pod that spreads over zones, including those that its disk excludes.
fn spread(name: &str, disk: &str, max_skew: u32) -> Pod {
    let node_selector = [("disk", disk)].into_iter().collect();
    let spread = [rule("spread", max_skew)].into();
    waiting(name, PodSpec { node_selector, spread, ..spec("spread", 500) })
}

fn rule(app: &str, max_skew: u32) -> SpreadConstraint {
    SpreadConstraint {
        topology_key: world::ZONE.into(),
        max_skew,
        selector: LabelSelector::of_labels([("app", app)]),
        min_domains: 1,
        honor_affinity: false,
        honor_taints: false,
    }
}
