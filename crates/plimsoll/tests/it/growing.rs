//! The example of a service that grows under load and shrinks after it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::plimsoll::{Decision, DecisionOutcome};
use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Event;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};

use crate::laptop::{Laptop, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_grows_under_load_and_shrinks_after_it() {
    let laptop = Laptop::start("service.yaml");
    let client = laptop.client().await;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    until("the service is ready", async || {
        let web = deployments.get_opt("web").await.unwrap().and_then(|web| web.status);
        web.and_then(|status| status.ready_replicas) == Some(1)
    })
    .await;
    let sizes = record_sizes(&client);
    let newest = || sizes.lock().unwrap().last().copied();
    until("the size is watched", async || newest() == Some(1)).await;

    let mut load = laptop.load(&["--rate", "60", "--for", "30s"]);
    while load.try_wait().unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let grown = sizes.lock().unwrap().iter().copied().max();
    assert!(grown >= Some(2), "it does not grow within the load: {:?}", sizes.lock().unwrap());
    until("the service shrinks to one pod", async || newest() == Some(1)).await;
    let sizes = sizes.lock().unwrap().clone();
    assert!(sizes.iter().all(|size| (1..=5).contains(size)), "outside min and max: {sizes:?}");
    events_and_decisions(&client, sizes.len() - 1).await;
}

/// Returns the sizes that the Deployment had, in their order; it grows while the Deployment is watched.
fn record_sizes(client: &Client) -> Arc<Mutex<Vec<i32>>> {
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let (recording, deployments) = (Arc::clone(&sizes), Api::default_namespaced(client.clone()));
    tokio::spawn(async move {
        let changes = watcher::<Deployment>(deployments, watcher::Config::default());
        let mut changes = std::pin::pin!(changes.default_backoff().applied_objects());
        while let Some(change) = changes.next().await {
            let Some(size) = change.ok().and_then(|web| web.spec?.replicas) else { continue };
            let mut sizes = recording.lock().unwrap();
            if sizes.last() != Some(&size) {
                sizes.push(size);
            }
        }
    });
    sizes
}

/// Waits until each change of the size has an event and a decision that was carried out.
async fn events_and_decisions(client: &Client, changes: usize) {
    let events: Api<Event> = Api::default_namespaced(client.clone());
    let decisions: Api<Decision> = Api::all(client.clone());
    until("each change has an event and a decision", async || {
        let events = events.list(&Default::default()).await.unwrap();
        let rescales = events.iter().filter(|event| {
            event.reason.as_deref() == Some("SuccessfulRescale")
                && event.involved_object.kind.as_deref() == Some("ScalingPolicy")
        });
        let rescales: i32 = rescales.map(|event| event.count.unwrap_or(1)).sum();
        let decisions = decisions.list(&Default::default()).await.unwrap();
        let applied = decisions.iter().filter(|decision| {
            decision.spec.subject.kind == "ScalingPolicy"
                && decision.spec.outcome == DecisionOutcome::Applied
        });
        usize::try_from(rescales).unwrap() >= changes && applied.count() >= changes
    })
    .await;
}
