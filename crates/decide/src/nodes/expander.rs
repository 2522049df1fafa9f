//! Chooses between groups that could all help.

use std::collections::BTreeSet;

use super::{Expander, Settings};

/// The consequences of choosing a group.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    pub(super) group: usize,
    pub(super) nodes: u32,
    pub(super) pods: u32,
    /// The capacity of all new nodes: millicores, and bytes.
    pub(super) capacity: (f64, f64),
    /// The requests of the pods on them.
    pub(super) requested: (f64, f64),
    /// The price of a node, if known.
    pub(super) price: Option<f64>,
    /// The price of one core and one byte, to value the pods.
    pub(super) unit_prices: (f64, f64),
    pub(super) priority: Option<i32>,
    pub(super) has_gpu: bool,
    /// The current number of nodes in the cluster.
    pub(super) cluster_nodes: usize,
}

/// What the chain of expanders comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// The index of a choice, and whether the answer of another process was used.
    One { at: usize, is_answered: bool },
    /// Another process has to be asked about these choices.
    Ask(Vec<usize>),
}

/// Picks one choice: each expander of the chain keeps the best by its score, and the name breaks ties. `None`: there is no choice.
///
/// `choices` are sorted by group name; `round` distinguishes the picks of one plan; `answer` are the groups that another process prefers.
pub(super) fn pick(
    settings: &Settings,
    choices: &[Choice],
    round: u64,
    answer: Option<&BTreeSet<usize>>,
) -> Option<Pick> {
    let mut left: Vec<usize> = (0..choices.len()).collect();
    let mut is_answered = false;
    for expander in &settings.expanders {
        if left.len() <= 1 {
            break;
        }
        left = match expander {
            Expander::Random => {
                let at = random(settings.seed, round) % left.len() as u64;
                vec![left[at as usize]]
            }
            Expander::Grpc => {
                let Some(groups) = answer else { return Some(Pick::Ask(left)) };
                is_answered = true;
                let is_preferred = |at: &usize| groups.contains(&choices[*at].group);
                let preferred: Vec<usize> = left.iter().copied().filter(is_preferred).collect();
                if preferred.is_empty() { left } else { preferred }
            }
            Expander::MostPods
            | Expander::LeastWaste
            | Expander::LeastNodes
            | Expander::Price
            | Expander::Priority => keep(*expander, choices, left),
        };
    }
    left.first().map(|at| Pick::One { at: *at, is_answered })
}

/// Keeps the choices with the lowest score.
fn keep(expander: Expander, choices: &[Choice], left: Vec<usize>) -> Vec<usize> {
    let measured: Vec<(usize, f64)> =
        left.iter().map(|at| (*at, measure(expander, &choices[*at]))).collect();
    let least = measured.iter().map(|(_, m)| *m).fold(f64::INFINITY, f64::min);
    // Without any price or priority there is nothing to compare.
    if least == f64::INFINITY {
        return left;
    }
    measured.into_iter().filter(|(_, m)| *m == least).map(|(at, _)| at).collect()
}

/// Returns the score that an expander minimizes.
pub(super) fn measure(expander: Expander, choice: &Choice) -> f64 {
    match expander {
        Expander::MostPods => -f64::from(choice.pods),
        Expander::LeastNodes => f64::from(choice.nodes),
        Expander::LeastWaste => waste(choice),
        Expander::Priority => choice.priority.map_or(f64::INFINITY, |p| -f64::from(p)),
        Expander::Price => price(choice),
        Expander::Random | Expander::Grpc => 0.0,
    }
}

/// Returns the sum of the unused fractions of cpu and memory.
fn waste(choice: &Choice) -> f64 {
    let share = |has: f64, asked: f64| if has > 0.0 { (has - asked) / has } else { 0.0 };
    share(choice.capacity.0, choice.requested.0) + share(choice.capacity.1, choice.requested.1)
}

/// Returns the price of the nodes relative to the value of the pods, higher the less the node's size suits the cluster's.
fn price(choice: &Choice) -> f64 {
    let Some(node) = choice.price else { return f64::INFINITY };
    let worth =
        |cpu: f64, memory: f64| cpu / 1000.0 * choice.unit_prices.0 + memory * choice.unit_prices.1;
    // A small pod's price on both sides keeps tiny amounts from deciding.
    let small = worth(500.0, 500.0 * 1024.0 * 1024.0);
    let nodes = f64::from(choice.nodes);
    let ratio = (node * nodes + small) / (worth(choice.requested.0, choice.requested.1) + small);
    let cpu = choice.capacity.0 / nodes.max(1.0) / 1000.0;
    let preferred = preferred_cores(choice.cluster_nodes);
    let unfit = (preferred / cpu).max(cpu / preferred);
    let damped = (unfit - 1.0) * (1.0 - ((nodes - 1.0) / 15.0).tanh()) + 1.0;
    ratio * if choice.has_gpu { 1000.0 } else { damped }
}

fn preferred_cores(nodes: usize) -> f64 {
    match nodes {
        0..=2 => 1.0,
        3..=6 => 2.0,
        7..=20 => 4.0,
        21..=60 => 8.0,
        61..=200 => 16.0,
        _ => 32.0,
    }
}

/// Returns a pseudo-random number for a seed and round.
fn random(seed: u64, round: u64) -> u64 {
    let mut x = seed.wrapping_add(round.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(group: usize, nodes: u32, pods: u32, cpu: f64, price: f64, priority: i32) -> Choice {
        let requested = (f64::from(pods) * 100.0, f64::from(pods) * 100.0);
        let capacity = (f64::from(nodes) * cpu, f64::from(nodes) * cpu);
        let unit_prices = (0.01, 0.0);
        Choice {
            group,
            nodes,
            pods,
            capacity,
            requested,
            price: Some(price),
            priority: Some(priority),
            unit_prices,
            cluster_nodes: 5,
            ..Choice::default()
        }
    }

    fn picked(settings: &Settings, choices: &[Choice]) -> Option<usize> {
        match pick(settings, choices, 0, None)? {
            Pick::One { at, is_answered: false } => Some(at),
            other @ (Pick::One { .. } | Pick::Ask(_)) => panic!("{other:?}"),
        }
    }

    #[test]
    fn another_process_is_asked_about_what_the_expanders_before_it_left() {
        let all = [
            choice(0, 1, 5, 1.0, 1.0, 0),
            choice(4, 2, 9, 1.0, 1.0, 0),
            choice(7, 2, 9, 1.0, 1.0, 0),
            choice(9, 1, 9, 1.0, 1.0, 0),
        ];
        let expanders = vec![Expander::MostPods, Expander::Grpc, Expander::LeastNodes];
        let settings = Settings { expanders, ..Settings::default() };
        assert_eq!(pick(&settings, &all, 0, None), Some(Pick::Ask(vec![1, 2, 3])));
        for (answer, at) in
            [(vec![4, 7], 1), (vec![7], 2), (vec![4, 9], 3), (vec![0], 3), (vec![], 3)]
        {
            let groups = answer.iter().copied().collect();
            let found = pick(&settings, &all, 0, Some(&groups));
            assert_eq!(found, Some(Pick::One { at, is_answered: true }), "{answer:?}");
        }
        assert_eq!(picked(&settings, &all[..2]), Some(1), "nothing is left to ask");
    }

    #[test]
    fn rule_1_10_each_expander_keeps_the_best_by_its_score() {
        // Small nodes waste little; big ones are few; the cheap one is the third.
        let all = [
            choice(0, 10, 40, 400.0, 1.0, 1),
            choice(1, 2, 40, 4000.0, 9.0, 5),
            choice(2, 11, 44, 800.0, 0.1, 5),
        ];
        for (chain, best) in [
            (vec![Expander::LeastWaste], 0),
            (vec![Expander::LeastNodes], 1),
            (vec![Expander::MostPods], 2),
            (vec![Expander::Price], 2),
            (vec![Expander::Priority, Expander::LeastNodes], 1),
            (vec![Expander::Priority, Expander::MostPods], 2),
            (vec![], 0),
        ] {
            let settings = Settings { expanders: chain.clone(), ..Settings::default() };
            assert_eq!(picked(&settings, &all), Some(best), "{chain:?}");
        }
    }

    #[test]
    fn trap_7_13_groups_without_a_priority_are_dropped_unless_none_has_one() {
        let with = |priorities: [Option<i32>; 3]| {
            let choices = priorities.into_iter().enumerate();
            choices
                .map(|(at, priority)| {
                    let pods = u32::try_from(at).unwrap();
                    Choice { priority, ..choice(at, 1, pods, 1.0, 1.0, 0) }
                })
                .collect::<Vec<_>>()
        };
        for (priorities, best) in [
            ([Some(1), Some(5), None], 1),
            ([Some(5), Some(5), None], 1),
            ([Some(-1), None, None], 0),
            ([None, None, None], 2),
        ] {
            let expanders = vec![Expander::Priority, Expander::MostPods];
            let settings = Settings { expanders, ..Settings::default() };
            assert_eq!(picked(&settings, &with(priorities)), Some(best), "{priorities:?}");
        }
    }

    #[test]
    fn random_follows_the_seed_and_reaches_every_choice() {
        let all = [choice(0, 1, 1, 1.0, 1.0, 0), choice(1, 1, 1, 1.0, 1.0, 0)];
        let picks: Vec<_> = (0..20)
            .map(|seed| {
                let settings =
                    Settings { expanders: vec![Expander::Random], seed, ..Settings::default() };
                assert_eq!(picked(&settings, &all), picked(&settings, &all));
                picked(&settings, &all)
            })
            .collect();
        assert!(picks.contains(&Some(0)) && picks.contains(&Some(1)));
    }
}
