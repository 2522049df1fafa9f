//! Decisions about nodes are those of Cluster Autoscaler, or better.

use std::fs;

use api::agones::{Fleet, GameServer};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::laptop::{Laptop, until};
use crate::plimsoll;
use crate::vectors::check;

#[test]
fn pods_fit_where_cluster_autoscaler_says() {
    check("nodes-predicates.jsonl", &[]);
}

#[test]
fn groups_grow_as_cluster_autoscaler_lets_them_or_by_less() {
    check("nodes-scaleup.jsonl", &[]);
}

#[test]
fn nodes_go_and_stay_as_cluster_autoscaler_says() {
    check("nodes-scaledown.jsonl", &[]);
}

#[test]
fn bad_objects_are_refused_by_their_field() {
    let folder = tempfile::tempdir().unwrap();
    for (text, wanted) in [
        (
            "apiVersion: plimsoll.dev/v1alpha1\nkind: NodeAutoscaler\nmetadata: {name: a}\nspec: {scaleDown: {unneededTime: 5m}}\n",
            "spec.scaleDown.unneededTime: unknown field, did you mean `",
        ),
        (
            "apiVersion: plimsoll.dev/v1alpha1\nkind: NodeGroup\nmetadata: {name: a}\nspec: {min: 3, max: 2}\n",
            "spec.max: 2 is less than min, which is 3",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, resources: {requests: {cpu: lots}}}]}\n",
            "spec.containers[0].resources.requests.cpu: `lots` is not a quantity",
        ),
        ("apiVersion: v1\nkind: Node\nmetadata: {name: [n]}\n", "metadata.name: invalid type"),
    ] {
        let path = folder.path().join("objects.yaml");
        fs::write(&path, text).unwrap();
        let done = plimsoll().args(["evaluate", "-f"]).arg(&path).output().unwrap();
        let stderr = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(wanted), "{stderr}");
    }
}

#[test]
fn a_pod_is_placed_with_its_volume_regardless_of_the_order_of_the_files() {
    let group = |zone: &str| {
        format!(
            "apiVersion: plimsoll.dev/v1alpha1\nkind: NodeGroup\nmetadata: {{name: {zone}}}\nspec:\n  min: 0\n  max: 3\n  template:\n    \
             capacity: {{cpu: \"4\", memory: 8Gi, pods: \"110\"}}\n    labels: {{topology.kubernetes.io/zone: {zone}}}\n"
        )
    };
    let autoscaler = "apiVersion: plimsoll.dev/v1alpha1\nkind: NodeAutoscaler\nmetadata: {name: nodes}\nspec: {}\n";
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: db, uid: db, creationTimestamp: \"2026-01-01T00:00:00Z\"}\n\
        spec:\n  containers: [{name: c, image: i, resources: {requests: {cpu: \"1\"}}}]\n  \
        volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]\n\
        status: {phase: Pending, conditions: [{type: PodScheduled, status: \"False\", reason: Unschedulable}]}\n";
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, uid: data}\n\
        spec: {volumeName: disk, storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n\
        status: {phase: Bound}\n";
    let volume = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: disk, uid: disk}\n\
        spec:\n  capacity: {storage: 1Gi}\n  accessModes: [ReadWriteOnce]\n  storageClassName: fast\n  csi: {driver: d, volumeHandle: v}\n  \
        claimRef: {namespace: default, name: data, uid: data}\n  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: \
        [{key: topology.kubernetes.io/zone, operator: In, values: [b]}]}]}}\n";
    let class = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast}\nprovisioner: d\n";
    let (a, b) = (group("a"), group("b"));
    let mut documents = [autoscaler, pod, claim, volume, class, a.as_str(), b.as_str()];
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..documents.len() {
        documents.rotate_left(1);
        let path = folder.path().join("objects.yaml");
        fs::write(&path, documents.join("---\n")).unwrap();
        let done = plimsoll().args(["evaluate", "-f"]).arg(&path).output().unwrap();
        let printed = String::from_utf8(done.stdout).unwrap();
        let stderr = String::from_utf8(done.stderr).unwrap();
        assert_eq!(printed, "NodeAutoscaler nodes\n  grow b from 0 to 1 for 1 pod\n", "{stderr}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_come_and_go_with_the_fleet_of_the_example() {
    let laptop = Laptop::start("nodes-live.yaml");
    let client = laptop.client().await;
    let (nodes, fleets) =
        (Api::<Node>::all(client.clone()), Api::<Fleet>::default_namespaced(client.clone()));
    let count = async || {
        let of_groups = ListParams::default().labels("pool=battle");
        nodes.list(&of_groups).await.unwrap().items.len()
    };
    let ready = async || {
        let fleet = fleets.get_opt("battle").await.unwrap();
        let status = fleet.and_then(|fleet| fleet.status).unwrap_or_default();
        (status.ready_replicas, status.replicas)
    };
    until("the fleet is ready on a node", async || ready().await == (3, 3)).await;
    let before = count().await;
    assert!(before > 0, "the fleet has a node");
    until("players need another node", async || {
        let mut allocate = plimsoll();
        allocate.args(["allocate", "battle", "--count", "3"]);
        drop(laptop.connect(allocate).output().unwrap());
        count().await > before
    })
    .await;
    let servers: Api<GameServer> = Api::default_namespaced(client);
    let end = Patch::Merge(json!({"status": {"state": "Shutdown"}}));
    until("all games are over", async || {
        let all = servers.list(&ListParams::default()).await.unwrap().items;
        let is_played =
            |s: &&GameServer| s.status.as_ref().is_some_and(|status| status.state == "Allocated");
        let mut is_over = true;
        for server in all.iter().filter(is_played) {
            is_over = false;
            let name = server.metadata.name.as_deref().unwrap();
            drop(servers.patch(name, &PatchParams::default(), &end).await);
        }
        is_over
    })
    .await;
    until("the fleet is small again", async || ready().await == (3, 3)).await;
    until("its nodes are gone", async || count().await <= before).await;
}
