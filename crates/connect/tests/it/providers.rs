//! Simulated node groups on an embedded engine, under tokio's paused time.

use std::sync::Arc;
use std::time::Duration;

use api::plimsoll::NodeGroup;
use http::Request;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Client, ResourceExt as _};
use plimsoll_connect::Context;
use plimsoll_connect::providers::{
    self, Group, InstanceState, NodeGroupProvider, ProviderError, provider_name,
};
use serde_json::{Value, json};

use crate::engine;

async fn create_group(context: &Context, name: &str, provider: Value) {
    let group = json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeGroup", "metadata": {"name": name},
        "spec": {"min": 1, "max": 4, "provider": provider, "template": {
            "labels": {"disk": "ssd"}, "capacity": {"cpu": "4", "memory": "16Gi"},
        }},
    });
    let api: Api<NodeGroup> = Api::all(context.client.clone());
    api.create(&PostParams::default(), &serde_json::from_value(group).unwrap()).await.unwrap();
}

fn open(context: &Context) -> Arc<dyn NodeGroupProvider> {
    providers::open(context, "simulated", &Value::Null).map_err(|err| err.to_string()).unwrap()
}

async fn only(provider: &Arc<dyn NodeGroupProvider>) -> Group {
    let mut groups = provider.snapshot().await.unwrap();
    assert_eq!(groups.len(), 1);
    groups.remove(0)
}

fn count(group: &Group, state: InstanceState) -> usize {
    group.instances.iter().filter(|instance| instance.state == state).count()
}

async fn nodes(context: &Context) -> Vec<Node> {
    let api: Api<Node> = Api::all(context.client.clone());
    api.list(&ListParams::default()).await.unwrap().items
}

#[tokio::test(start_paused = true)]
async fn nodes_are_created_from_the_template_and_run_pods() {
    let (engine, context) = engine().await;
    let simulated = Some(kubelet::Simulated::default());
    let runtime = engine.run(kubelet::Settings { simulated, local: None }).await.unwrap();
    create_group(&context, "pool-a", json!({"simulated": {"startAfter": "0s"}})).await;
    create_group(&context, "other", json!({"kwok": {}})).await;
    let provider = open(&context);
    assert_eq!(only(&provider).await.target, 0);
    provider.increase("pool-a", 2).await.unwrap();
    let group = only(&provider).await;
    assert_eq!((group.id.as_str(), group.min, group.max, group.target), ("pool-a", 1, 4, 2));
    assert_eq!(count(&group, InstanceState::Running), 2);
    assert_eq!(group.template.unwrap().capacity.cpu, 4000);
    let ids: Vec<_> =
        nodes(&context).await.into_iter().map(|n| n.spec.unwrap().provider_id).collect();
    let listed: Vec<_> = group.instances.iter().map(|i| Some(i.id.clone())).collect();
    assert_eq!(ids, listed);

    let pods: Api<Pod> = Api::namespaced(context.client.clone(), "default");
    let pod = json!({
        "metadata": {"name": "a"},
        "spec": {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "a", "image": "a"}]},
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let is_running = async || {
        let pod = pods.get("a").await.unwrap();
        pod.status.and_then(|status| status.phase).as_deref() == Some("Running")
    };
    while !is_running().await {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    drop(runtime);
}

#[tokio::test(start_paused = true)]
async fn limits_hold_and_deletion_lowers_the_target() {
    let (_engine, context) = engine().await;
    create_group(&context, "pool-a", json!({"simulated": {"startAfter": "0s"}})).await;
    let provider = open(&context);
    provider.increase("pool-a", 3).await.unwrap();
    let refused = provider.increase("pool-a", 2).await.unwrap_err().to_string();
    assert_eq!(refused, "group `pool-a`: 5 nodes are more than max, which is 4");
    let unknown = ProviderError::UnknownGroup { group: "pool-b".to_owned() };
    assert_eq!(provider.increase("pool-b", 1).await, Err(unknown));

    let ids: Vec<String> = only(&provider).await.instances.into_iter().map(|i| i.id).collect();
    let refused = provider.delete_nodes("pool-a", &ids).await.unwrap_err().to_string();
    assert_eq!(refused, "group `pool-a`: 0 nodes are fewer than min, which is 1");
    for _ in 0..2 {
        // The second time, the node no longer exists.
        provider.delete_nodes("pool-a", &ids[..1]).await.unwrap();
        let group = only(&provider).await;
        assert_eq!((group.target, count(&group, InstanceState::Running)), (2, 2));
    }
    assert_eq!(nodes(&context).await.len(), 2);
    let refused = provider.decrease_target("pool-a", 1).await.unwrap_err().to_string();
    assert_eq!(refused, "group `pool-a`: a target of 1 would delete nodes: 2 exist");
}

#[tokio::test(start_paused = true)]
async fn machines_take_their_time_and_may_be_cancelled() {
    let (_engine, context) = engine().await;
    create_group(&context, "pool-a", json!({"simulated": {}})).await;
    let provider = open(&context);
    provider.increase("pool-a", 3).await.unwrap();
    let group = only(&provider).await;
    assert_eq!((group.target, count(&group, InstanceState::Creating)), (3, 3));
    provider.decrease_target("pool-a", 1).await.unwrap();
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert!(nodes(&context).await.is_empty());
    // No snapshot is requested: the nodes appear without one.
    while nodes(&context).await.len() < 2 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let group = only(&provider).await;
    assert_eq!((group.target, count(&group, InstanceState::Running)), (2, 2));

    // After a restart, requested machines still appear.
    provider.increase("pool-a", 1).await.unwrap();
    drop(provider);
    let provider = open(&context);
    assert_eq!(count(&only(&provider).await, InstanceState::Creating), 1);
    while nodes(&context).await.len() < 3 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_fails_to_start_is_reported_until_it_is_deleted() {
    let (_engine, context) = engine().await;
    let failing = json!({"simulated": {"startAfter": "0s", "failureRate": 1}});
    create_group(&context, "pool-a", failing).await;
    let provider = open(&context);
    provider.increase("pool-a", 2).await.unwrap();
    let group = only(&provider).await;
    assert_eq!((group.target, count(&group, InstanceState::Creating)), (2, 2));
    assert!(group.instances.iter().all(|instance| instance.error.is_some()));
    assert!(nodes(&context).await.is_empty());
    provider.delete_nodes("pool-a", &[group.instances[0].id.clone()]).await.unwrap();
    let group = only(&provider).await;
    assert_eq!((group.target, group.instances.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_group_with_a_mistake_does_not_hide_the_others() {
    let (_engine, context) = engine().await;
    create_group(&context, "pool-a", json!({"simulated": {"startAfter": "0s"}})).await;
    create_group(&context, "pool-b", json!({"simulated": {"startsAfter": "0s"}})).await;
    let provider = open(&context);
    provider.increase("pool-a", 1).await.unwrap();
    let refused = provider.increase("pool-b", 1).await.unwrap_err().to_string();
    let wanted = "group `pool-b`: spec.provider.simulated: unknown field `startsAfter`";
    assert!(refused.starts_with(wanted), "{refused}");
    let targets: Vec<u32> =
        provider.snapshot().await.unwrap().iter().map(|group| group.target).collect();
    assert_eq!(targets, [1, 0]);

    let api: Api<NodeGroup> = Api::all(context.client.clone());
    let merge = json!({"spec": {"provider": {"kwok": {}}}});
    let group = api.patch("pool-b", &PatchParams::default(), &Patch::Merge(merge)).await.unwrap();
    assert_eq!(group.name_any(), "pool-b");
    let two = provider_name(&group).unwrap_err().to_string();
    assert_eq!(
        two,
        "expected exactly one provider, found kwok, simulated; known are aws, clusterApi, externalGrpc, kwok, simulated"
    );
    let unknown = providers::open(&context, "cloud", &Value::Null).map(drop).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "there is no provider `cloud`; known are aws, clusterApi, externalGrpc, kwok, simulated"
    );
}

/// Returns a client whose lists of a kind also contain an object.
fn client_with(client: Client, plural: &'static str, object: Value) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, object) = (client.clone(), object.clone());
        async move {
            let is_list = request.uri().path().ends_with(plural)
                && request.method() == http::Method::GET
                && !request.uri().query().is_some_and(|query| query.contains("watch="));
            let answer = client.send(request).await?;
            if !is_list {
                return Ok::<_, kube::Error>(answer);
            }
            let (parts, body) = answer.into_parts();
            let body = axum::body::to_bytes(axum::body::Body::new(body), usize::MAX).await.unwrap();
            let mut list: Value = serde_json::from_slice(&body).unwrap();
            list["items"].as_array_mut().unwrap().insert(0, object);
            let body = Body::from(serde_json::to_vec(&list).unwrap());
            Ok(http::Response::from_parts(parts, body))
        }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn objects_that_cannot_be_decoded_do_not_stop_the_other_groups() {
    let (_engine, context) = engine().await;
    create_group(&context, "pool-a", json!({"simulated": {"startAfter": "0s"}})).await;
    let group = json!({"metadata": {"name": "bad"}, "spec": {"max": "many"}});
    let with_group = Context {
        client: client_with(context.client.clone(), "/nodegroups", group),
        ..context.clone()
    };
    let provider = open(&with_group);
    provider.increase("pool-a", 2).await.unwrap();
    assert_eq!(count(&only(&provider).await, InstanceState::Running), 2);
    drop(provider);

    // A node that cannot be decoded is an instance all the same: another machine would be one too many.
    let node = json!({"metadata": {"name": "bad"}, "spec": 7});
    let with_node =
        Context { client: client_with(context.client.clone(), "/nodes", node), ..context.clone() };
    let provider = open(&with_node);
    assert_eq!(count(&only(&provider).await, InstanceState::Running), 3);
    provider.increase("pool-a", 1).await.unwrap();
    assert_eq!(nodes(&context).await.len(), 2);
}
