//! What holds for every plan to add nodes.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_decide::nodes::{
    Cluster, Expander, Limits, Node, Place, PodId, Range, ScaleUp, ScaleUpSettings, Scheduling,
    Settings, Turn,
};
use proptest::prelude::*;

use super::oracle::World;
use super::world::{self, Dice};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

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
    fn a_second_look_wants_nothing_more(seed: u64) {
        let (cluster, settings) = made(seed);
        let after = carried_out(&cluster, &settings);
        // The limit on one plan is a reason to look again.
        if after.cluster.nodes.len() - cluster.nodes.len() < settings.scale_up.max_nodes as usize {
            let mut turn = Turn::new(&after.cluster, &settings, world::now());
            let plan = turn.scale_up();
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

/// A cluster after its plan.
struct After {
    plan: ScaleUp,
    cluster: Cluster,
    /// Which pods were given a node, and its name: first those that need none of the new nodes.
    settled: Vec<(PodId, Box<str>)>,
    steps: Vec<Vec<(PodId, Box<str>)>>,
}

fn carried_out(cluster: &Cluster, settings: &Settings) -> After {
    let mut turn = Turn::new(cluster, settings, world::now());
    let settled: Vec<(PodId, Box<str>)> = (0..cluster.pods.len())
        .filter(|pod| cluster.pods[*pod].scheduling == Scheduling::Unschedulable)
        .filter_map(|pod| Some((pod, turn.snapshot.name(turn.snapshot.node_of(pod)?).into())))
        .collect();
    let plan = turn.scale_up();
    let mut after = cluster.clone();
    for resize in &plan.resizes {
        let group = &cluster.groups[resize.group];
        assert_eq!(resize.nodes.len(), (resize.to - resize.from) as usize);
        let name = |at: usize| format!("{}-new-{at}", group.name);
        after.nodes.extend((0..resize.nodes.len()).map(|at| world::node(&name(at), group)));
    }
    let name = |place: &Place| match *place {
        Place::There(node) => turn.snapshot.name(node).into(),
        Place::New { group, at } => format!("{}-new-{at}", cluster.groups[group].name).into(),
    };
    let named =
        |step: &Vec<(PodId, Place)>| step.iter().map(|(pod, place)| (*pod, name(place))).collect();
    let steps: Vec<Vec<(PodId, Box<str>)>> = plan.steps.iter().map(named).collect();
    for (pod, node) in settled.iter().chain(steps.iter().flatten()) {
        after.pods[*pod].scheduling = Scheduling::On(node.clone());
    }
    let in_nodes: usize = plan.resizes.iter().flat_map(|r| &r.nodes).map(Vec::len).sum();
    assert_eq!(steps.iter().flatten().count(), in_nodes + plan.elsewhere.len());
    After { plan, cluster: after, settled, steps }
}

/// Places the pods of a plan one by one, each as soon as all rules let it, step by step as the new nodes come; gives
/// those that never are let in.
fn replay(before: &Cluster, after: &After) -> Vec<String> {
    let nodes: Vec<&Node> = before.nodes.iter().collect();
    let at = |nodes: &[&Node], name: &str| {
        nodes.iter().position(|n| &*n.name == name).expect("it is one of them")
    };
    let running = before.pods.iter().filter_map(|pod| match &pod.scheduling {
        Scheduling::On(node) => Some((&*pod.spec, at(&nodes, node))),
        Scheduling::Nominated(_) | Scheduling::Unschedulable | Scheduling::Other => None,
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

/// A plan in names only.
type Story = (BTreeMap<Box<str>, (u32, u32, BTreeSet<Box<str>>)>, BTreeSet<Box<str>>);

fn story(cluster: &Cluster, settings: &Settings) -> Story {
    let plan = Turn::new(cluster, settings, world::now()).scale_up();
    let grown = plan.resizes.iter().map(|resize| {
        let pods = resize.nodes.iter().flatten().map(|pod| cluster.pods[*pod].name.clone());
        (cluster.groups[resize.group].name.clone(), (resize.from, resize.to, pods.collect()))
    });
    let left = plan.unschedulable.iter().map(|left| cluster.pods[left.pod].name.clone());
    (grown.collect(), left.collect())
}
