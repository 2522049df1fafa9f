//! How nodes are removed: the cordon, annotations that hold a deletion, and several nodes in one call.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use connect::providers::{Group, NodeGroupProvider, ProviderError};
use futures::future::BoxFuture;
use plimsoll_control::NodeProviders;
use plimsoll_control::nodes::NodeMetrics;
use tower::ServiceExt as _;

use super::*;

/// A provider that records how many instances each deletion names.
struct Recording {
    inner: Arc<dyn NodeGroupProvider>,
    deletions: Arc<Mutex<Vec<usize>>>,
}

impl NodeGroupProvider for Recording {
    fn snapshot(&self) -> BoxFuture<'_, Result<Vec<Group>, ProviderError>> {
        self.inner.snapshot()
    }

    fn increase<'a>(&'a self, group: &'a str, by: u32) -> BoxFuture<'a, Result<(), ProviderError>> {
        self.inner.increase(group, by)
    }

    fn delete_nodes<'a>(
        &'a self,
        group: &'a str,
        instances: &'a [String],
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        self.deletions.lock().unwrap().push(instances.len());
        self.inner.delete_nodes(group, instances)
    }

    fn decrease_target<'a>(
        &'a self,
        group: &'a str,
        by: u32,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        self.inner.decrease_target(group, by)
    }
}

/// Returns a provider of a world, on a client of its own.
pub(super) fn machines(world: &World) -> Arc<dyn NodeGroupProvider> {
    let (clock, random) = (world.cluster.clock.clone(), world.cluster.settings().random);
    let context = connect::Context::new(world.client(), clock, random, Supervisor::new());
    connect::providers::open(&context, world.provider, &Value::Null).unwrap()
}

/// Starts controllers, and returns the sizes of the deletions that they request.
fn recorded(world: &mut World) -> Arc<Mutex<Vec<usize>>> {
    let deletions = Arc::<Mutex<Vec<usize>>>::default();
    let provider = Recording { inner: machines(world), deletions: Arc::clone(&deletions) };
    let provider: Arc<dyn NodeGroupProvider> = Arc::new(provider);
    let node_providers = NodeProviders(BTreeMap::from([(world.provider.to_owned(), provider)]));
    let settings = Settings { node_providers, ..world.cluster.settings() };
    world.tasks.spawn(control(world.client(), settings));
    deletions
}

pub(super) async fn a_deletion_waits_for_annotations_and_its_node_is_cordoned(stage: Stage) {
    let spec = json!({"scaleDown": {"unneededFor": "3s", "maxDeletionDelay": "1h"}});
    let Some(mut world) = World::on(stage, spec).await else { return };
    let metrics = NodeMetrics::default();
    let settings = Settings { node_metrics: metrics.clone(), ..world.cluster.settings() };
    world.tasks.spawn(control(world.client(), settings));
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    world.pod("p", "3", json!({})).await;
    until("the pod has a node", async || world.bound().await == 1).await;
    let node = world.node_of("p").await;
    let hold = "delay-deletion.cluster-autoscaler.kubernetes.io/test";
    world.patch_node(&node, json!({"metadata": {"annotations": {hold: "true"}}})).await;
    world.delete_pod("p").await;
    until("the removal has begun", async || world.is_tainted(&node).await).await;
    let object = Api::<Node>::all(world.client()).get(&node).await.unwrap();
    assert_eq!(object.spec.unwrap().unschedulable, Some(true), "it is cordoned");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.nodes("g").await.len(), 1, "the annotation holds the deletion");
    world.patch_node(&node, json!({"metadata": {"annotations": {hold: null}}})).await;
    until("the node is gone", async || world.nodes("g").await.is_empty()).await;
    until("the removal is measured", async || {
        let text = scraped(&metrics).await;
        let lines = [
            r#"cluster_autoscaler_scaled_up_nodes_total{gpu_resource_name="",gpu_name="",dra_drivers=""} 1"#,
            r#"cluster_autoscaler_scaled_down_nodes_total{reason="empty",gpu_resource_name="",gpu_name="",dra_drivers=""} 1"#,
            "cluster_autoscaler_cluster_safe_to_autoscale 1",
            r#"cluster_autoscaler_function_duration_seconds_count{function="main"}"#,
            r#"cluster_autoscaler_last_activity{activity="scaleDown"}"#,
        ];
        lines.iter().all(|line| text.contains(line))
    })
    .await;
    world.end().await;
}

async fn scraped(metrics: &NodeMetrics) -> String {
    let request = http::Request::get("/metrics").body(axum::body::Body::empty()).unwrap();
    let answer = serve::metrics::node_router(metrics.clone()).oneshot(request).await.unwrap();
    let body = axum::body::to_bytes(answer.into_body(), 1 << 24).await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

pub(super) async fn nodes_of_a_group_are_deleted_in_one_call(stage: Stage) {
    let spec = json!({"scaleDown": {"unneededFor": "3s", "batchInterval": "4s"}});
    let Some(mut world) = World::on(stage, spec).await else { return };
    let deletions = recorded(&mut world);
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    for n in 0..3 {
        world.pod(&format!("p{n}"), "3", json!({})).await;
    }
    until("the pods have nodes", async || world.bound().await == 3).await;
    for n in 0..3 {
        world.delete_pod(&format!("p{n}")).await;
    }
    until("the nodes are gone", async || world.nodes("g").await.is_empty()).await;
    let deletions = deletions.lock().unwrap().clone();
    assert!(deletions.len() < 3 && deletions.iter().sum::<usize>() == 3, "{deletions:?}");
    world.end().await;
}

pub(super) async fn a_group_is_removed_as_a_whole(stage: Stage) {
    let spec = json!({"scaleDown": {"unneededFor": "2s"}});
    let Some(mut world) = World::on(stage, spec).await else { return };
    let deletions = recorded(&mut world);
    let whole = json!({"max": 3, "allOrNothing": true});
    world.group("g", whole, json!({"startAfter": "0s"})).await;
    world.pod("p", "3", json!({})).await;
    until("the pod has a node", async || world.bound().await == 1).await;
    until("the group is whole", async || world.nodes("g").await.len() == 3).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(world.nodes("g").await.len(), 3, "one of its nodes is needed");
    world.delete_pod("p").await;
    until("the nodes are gone", async || world.nodes("g").await.is_empty()).await;
    assert_eq!(*deletions.lock().unwrap(), [3]);
    world.end().await;
}
