//! One allocation, several clusters.

use api::allocation::AllocationState;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::World;
use super::certificates::{Authority, Pair, files};
use super::service::listen;
use super::world::allocation;

/// Says that a cluster may be asked.
pub(crate) async fn policy(world: &World, name: &str, priority: i32, info: Value) {
    let resource = ApiResource::erase::<api::multicluster::GameServerAllocationPolicy>(&());
    let policies: Api<DynamicObject> =
        Api::namespaced_with(world.engine.client(), "default", &resource);
    let policy = json!({
        "apiVersion": "multicluster.agones.dev/v1", "kind": "GameServerAllocationPolicy",
        "metadata": {"name": name, "labels": {"of": name}},
        "spec": {"priority": priority, "weight": 100, "connectionInfo": info},
    });
    policies
        .create(&PostParams::default(), &serde_json::from_value(policy).unwrap())
        .await
        .unwrap();
}

/// Keeps what this cluster shows to others, and whom it trusts.
pub(crate) async fn secret(world: &World, caller: &Pair, trusted: &str) {
    let secret = json!({
        "metadata": {"name": "client"},
        "stringData": {"tls.crt": caller.certificate, "tls.key": caller.key, "ca.crt": trusted},
    });
    let secrets: Api<k8s_openapi::api::core::v1::Secret> =
        Api::default_namespaced(world.engine.client());
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
}

#[tokio::test]
async fn the_next_cluster_is_tried_when_one_has_no_server() {
    let (here, there) = (World::with_ready(1).await, World::with_ready(1).await);
    let (servers, callers) = (Authority::new("servers"), Authority::new("callers"));
    let dir = tempfile::tempdir().unwrap();
    let tls = files(dir.path(), &servers.server(&["localhost"]), &callers);
    let listening = listen(&there, Some(tls)).await;
    let endpoint = format!("localhost:{}", listening.port);
    secret(&here, &callers.caller("other-cluster"), &servers.pem).await;
    policy(&here, "local", 1, json!({"clusterName": "here", "namespace": "default"})).await;
    let remote = json!({"clusterName": "there", "namespace": "default", "secretName": "client",
                        "allocationEndpoints": ["localhost:1", endpoint]});
    policy(&here, "remote", 2, remote).await;
    let allocator = here.allocator().await;
    let spec =
        json!({"multiClusterSetting": {"enabled": true}, "metadata": {"labels": {"by": "test"}}});
    let mut sources = Vec::new();
    for _ in 0..2 {
        let answer = allocator.allocate(&allocation(spec.clone())).await.unwrap();
        assert_eq!(answer.state, AllocationState::Allocated);
        sources.push(answer.source);
    }
    assert_eq!(
        sources,
        ["local", &*endpoint],
        "the lower priority first, then the endpoint that answers"
    );
    assert_eq!(there.server("s0000").await["metadata"]["labels"]["by"], "test");
    let answer = allocator.allocate(&allocation(spec)).await.unwrap();
    assert_eq!(
        answer.state,
        AllocationState::UnAllocated,
        "no cluster has one, and none is queried again"
    );
}

#[tokio::test]
async fn only_the_policies_that_are_asked_for_count() {
    let world = World::with_ready(1).await;
    policy(&world, "local", 1, json!({"namespace": "default"})).await;
    let allocator = world.allocator().await;
    let asked = |name: &str| {
        allocation(
            json!({"multiClusterSetting": {"enabled": true, "policySelector": {"matchLabels": {"of": name}}}}),
        )
    };
    let refused = allocator.allocate(&asked("nothing")).await.unwrap_err();
    assert!(refused.to_string().contains("no multi-cluster allocation policy"), "{refused}");
    let answer = allocator.allocate(&asked("local")).await.unwrap();
    assert_eq!(answer.game_server_name, "s0000");
}
