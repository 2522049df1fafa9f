//! Groups of Cluster API, with the stand-in for its controllers that the tests of the provider use.

#[allow(dead_code, reason = "the tests of the provider use all of it")]
#[path = "../../../../connect/tests/it/cluster_api/stand_in.rs"]
mod stand_in;

use std::collections::BTreeSet;

use super::*;
use stand_in::{Parts, StandIn, define_kinds};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_of_cluster_api_come_and_go_with_pods() {
    let world = World::start(json!({})).await;
    define_kinds(&world.client()).await;
    let parts = Parts {
        management: world.client(),
        workload: world.client(),
        namespace: world.name.clone(),
        version: "v1beta2",
        labels: json!({"pool": world.name, "kind": "workers"}),
    };
    let _stand_in = StandIn::start(parts.clone());
    let spec = json!({"replicas": 0, "template": {"spec": {}}});
    parts.create("MachineDeployment", json!({"name": "pool"}), spec).await;
    let block = json!({"kind": "MachineDeployment", "namespace": world.name, "name": "pool"});
    world.group_of("clusterApi", "workers", json!({"max": 5}), block).await;
    for n in 0..3 {
        world.pod(&format!("p{n}"), "3", json!({})).await;
    }
    until("three pods have nodes", async || world.bound().await == 3).await;
    let machines = async || -> BTreeSet<String> {
        parts.list("Machine").await.unwrap().iter().map(|machine| machine.name_any()).collect()
    };
    let before = machines().await;
    assert_eq!(before.len(), 3);

    // The Machine of the node that becomes empty goes, and no other.
    let pod = world.cluster.api::<Pod>().get("p1").await.unwrap();
    let node = pod.spec.and_then(|spec| spec.node_name).unwrap();
    let at_once = DeleteParams::default().grace_period(0);
    world.cluster.api::<Pod>().delete("p1", &at_once).await.unwrap();
    until("one machine is gone", async || machines().await.len() == 2).await;
    let left: BTreeSet<String> = before.into_iter().filter(|name| *name != node).collect();
    assert_eq!(machines().await, left);
    until("its node is gone", async || {
        Api::<Node>::all(world.client()).get_opt(&node).await.unwrap().is_none()
    })
    .await;
    assert_eq!(world.bound().await, 2);

    // A mistake in the object is reported by its group.
    let key = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
    let mistake = json!({"metadata": {"annotations": {key: "many"}}});
    parts.merge("MachineDeployment", "pool", mistake).await.unwrap();
    until("the mistake is reported", async || {
        let status = world.group_status("workers").await.to_string();
        status.contains(&format!("annotation {key}: `many` is not a whole number from 0"))
    })
    .await;
}
