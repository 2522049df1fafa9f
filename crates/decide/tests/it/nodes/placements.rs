//! A snapshot agrees with the reference implementation after any changes.

use plimsoll_decide::Reason;
use plimsoll_decide::nodes::{Cluster, PodId, Scheduling, Snapshot};
use proptest::prelude::*;

use super::oracle::World;
use super::world::{self, Dice};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn every_check_agrees_with_the_reference(seed: u64) {
        let mut dice = Dice(seed);
        let cluster = world::cluster(&mut dice);
        let mut snapshot = Snapshot::new(&cluster, |_| true);
        let mut marks = Vec::new();
        compare(&cluster, &snapshot)?;
        for _ in 0..dice.below(12) {
            let pod = dice.below(cluster.pods.len());
            if dice.once_in(4) {
                marks.push((snapshot.mark(), positions(&cluster, &snapshot)));
            }
            if snapshot.node_of(pod).is_some() {
                snapshot.remove(pod);
            } else if !cluster.nodes.is_empty() {
                // Anywhere, allowed or not: manual placements have to be counted too.
                snapshot.place(pod, dice.below(cluster.nodes.len()));
            }
        }
        compare(&cluster, &snapshot)?;
        while let Some((mark, before)) = marks.pop() {
            snapshot.undo_to(mark);
            prop_assert_eq!(positions(&cluster, &snapshot), before);
            compare(&cluster, &snapshot)?;
        }
    }
}

fn positions(cluster: &Cluster, snapshot: &Snapshot<'_>) -> Vec<Option<usize>> {
    (0..cluster.pods.len()).map(|pod| snapshot.node_of(pod)).collect()
}

fn compare(cluster: &Cluster, snapshot: &Snapshot<'_>) -> Result<(), TestCaseError> {
    let nodes: Vec<usize> = snapshot.nodes().collect();
    let placed = |pod: &PodId| snapshot.node_of(*pod);
    let world = World {
        nodes: nodes.iter().map(|node| snapshot.node_spec(*node)).collect(),
        pods: (0..cluster.pods.len())
            .filter_map(|pod| Some((&*cluster.pods[pod].spec, placed(&pod)?)))
            .collect(),
    };
    for pod in (0..cluster.pods.len()).filter(|pod| placed(pod).is_none()) {
        let spec = &cluster.pods[pod].spec;
        for node in &nodes {
            let refusal = snapshot.why_not(pod, *node).map(|refusal| refusal.code());
            prop_assert_eq!(refusal, world.refuses(spec, *node), "{:?} on {}", spec, node);
        }
        let first = snapshot.first_fit(pod, 0, |_| true).map(|node| snapshot.name(node));
        prop_assert_eq!(first, world.takers(spec).first().copied());
    }
    Ok(())
}

#[test]
fn pods_of_missing_nodes_use_no_resources() {
    let mut cluster = world::cluster(&mut Dice(1));
    cluster.pods.iter_mut().for_each(|pod| pod.scheduling = Scheduling::On("nowhere".into()));
    let snapshot = Snapshot::new(&cluster, |_| true);
    assert!((0..cluster.pods.len()).all(|pod| snapshot.node_of(pod).is_none()));
}
