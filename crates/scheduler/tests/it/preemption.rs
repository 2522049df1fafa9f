//! A more important pod gets the room of others, as their budgets allow.

use engine::{Engine, Settings as EngineSettings};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{Api, DeleteParams, PostParams};
use plimsoll_scheduler::Settings;
use serde_json::json;

use crate::{node, node_name, pod, wait_for_event, wait_for_pod};

#[tokio::test]
async fn an_important_pod_preempts_the_one_that_no_budget_protects() {
    let engine = Engine::open(EngineSettings::ephemeral()).await.unwrap();
    let client = engine.client();
    let (create, now) = (PostParams::default(), DeleteParams::default().grace_period(0));
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.create(&create, &node("a", "2")).await.unwrap();
    let classes: Api<PriorityClass> = Api::all(client.clone());
    let class = json!({"metadata": {"name": "important"}, "value": 1000});
    classes.create(&create, &serde_json::from_value(class).unwrap()).await.unwrap();
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(client.clone());
    let budget = json!({
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "protected"}}},
    });
    budgets.create(&create, &serde_json::from_value(budget).unwrap()).await.unwrap();
    let settings = Settings { scheduler_name: "s".to_owned(), ..Settings::default() };
    let scheduler = plimsoll_scheduler::start(client.clone(), settings);

    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for name in ["protected", "other"] {
        let mut pod = pod(name, "s", "1");
        pod.metadata.labels = Some([("app".to_owned(), name.to_owned())].into());
        pods.create(&create, &pod).await.unwrap();
        wait_for_pod(&pods, name, |pod| node_name(pod).is_some()).await;
    }
    let mut important = pod("important", "s", "1");
    important.spec.as_mut().unwrap().priority_class_name = Some("important".to_owned());
    pods.create(&create, &important).await.unwrap();
    let nominated = wait_for_pod(&pods, "important", |pod| {
        pod.status.as_ref().is_some_and(|s| s.nominated_node_name.as_deref() == Some("a"))
    })
    .await;
    assert_eq!(nominated.spec.as_ref().unwrap().priority, Some(1000));
    assert_eq!(node_name(&nominated), None, "the victim has its grace period");

    let is_ending = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    let victim = wait_for_pod(&pods, "other", is_ending).await;
    let conditions = victim.status.clone().unwrap().conditions.unwrap();
    let reason = conditions.iter().find(|c| c.type_ == "DisruptionTarget").unwrap().reason.clone();
    assert_eq!(reason.as_deref(), Some("PreemptionByScheduler"));
    let event = wait_for_event(&client, "default", &victim, "Preempted").await;
    let uid = nominated.metadata.uid.as_ref().unwrap();
    assert_eq!(event.message, Some(format!("Preempted by pod {uid} on node a")));

    pods.delete("other", &now).await.unwrap();
    let bound = wait_for_pod(&pods, "important", |pod| node_name(pod).is_some()).await;
    assert_eq!(node_name(&bound), Some("a"));
    let protected = pods.get("protected").await.unwrap();
    assert!(!is_ending(&protected), "the budget protects it");
    scheduler.stop().await;
}
