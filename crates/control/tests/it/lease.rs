//! One of several controllers is active, and another takes over from it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use api::agones::Fleet;
use cluster::{LeaderElection, claim_lease};
use k8s_openapi::api::coordination::v1::Lease as Object;
use plimsoll_control::Settings;
use serde_json::json;
use tokio::task::JoinSet;

use crate::client;
use crate::cluster::{Cluster, fleet, until};

fn terms(cluster: &Cluster, identity: &str) -> Settings {
    let lease = LeaderElection {
        duration: Duration::from_secs(2),
        renew_within: Duration::from_secs(1),
        retry_every: Duration::from_millis(100),
        ..LeaderElection::new(cluster.namespace.clone(), identity)
    };
    Settings { lease: Some(lease), ..cluster.settings() }
}

async fn holder(cluster: &Cluster) -> Option<String> {
    let lease = cluster.api::<Object>().get_opt("plimsoll-controller-lock").await.unwrap()?;
    lease.spec?.holder_identity
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_takes_over_from_one_that_falls_silent_and_only_one_acts() {
    let cluster = Cluster::embedded().await;
    let (first, writes) = client::counted(cluster.client.clone());
    let mut one = JoinSet::new();
    one.spawn(cluster.controllers(first, terms(&cluster, "one"), std::future::pending()));
    until("one is active", async || holder(&cluster).await.as_deref() == Some("one")).await;
    let (second, idle) = client::counted(cluster.client.clone());
    let mut two = JoinSet::new();
    two.spawn(cluster.controllers(second, terms(&cluster, "two"), std::future::pending()));
    cluster.create::<Fleet>(fleet("f", 3)).await;
    cluster.settles("f", 3, 0).await;
    assert!(idle.lock().unwrap().is_empty(), "the other one writes nothing");
    assert_eq!(writes.lock().unwrap()["POST gameservers"], 3);
    one.shutdown().await;
    cluster.patch::<Fleet>("f", json!({"spec": {"replicas": 5}})).await;
    cluster.settles("f", 5, 0).await;
    assert_eq!(holder(&cluster).await.as_deref(), Some("two"));
    assert_eq!(idle.lock().unwrap()["POST gameservers"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_stops_releases_the_lease() {
    let cluster = Cluster::embedded().await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async { drop(stopped.await) };
    let work =
        tokio::spawn(cluster.controllers(cluster.client.clone(), terms(&cluster, "one"), stopped));
    until("one is active", async || holder(&cluster).await.as_deref() == Some("one")).await;
    stop.send(()).unwrap();
    work.await.unwrap();
    assert_eq!(holder(&cluster).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_loses_the_lease_stops_at_once() {
    let cluster = Cluster::embedded().await;
    let (first, writes) = client::counted(cluster.client.clone());
    let mut one = JoinSet::new();
    one.spawn(cluster.controllers(first, terms(&cluster, "one"), std::future::pending()));
    cluster.create::<Fleet>(fleet("f", 2)).await;
    cluster.settles("f", 2, 0).await;
    let taken = json!({"spec": {"holderIdentity": "other", "leaseDurationSeconds": 3600}});
    cluster.patch::<Object>("plimsoll-controller-lock", taken).await;
    until("it has stopped", async || {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let before = writes.lock().unwrap().clone();
        tokio::time::sleep(Duration::from_millis(300)).await;
        before == *writes.lock().unwrap()
    })
    .await;
    let before = writes.lock().unwrap().clone();
    cluster.patch::<Fleet>("f", json!({"spec": {"replicas": 5}})).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(before, *writes.lock().unwrap(), "nothing is written any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_term_begins_on_the_caches_of_the_one_before() {
    let cluster = Cluster::embedded().await;
    let (client, lists) = client::counting_lists(cluster.client.clone(), &client::FOLLOWED);
    let mut one = JoinSet::new();
    one.spawn(cluster.controllers(client, terms(&cluster, "one"), std::future::pending()));
    cluster.create::<Fleet>(fleet("f", 2)).await;
    cluster.settles("f", 2, 0).await;
    assert_eq!(lists.load(Ordering::Relaxed), 6, "one for each kind");
    // It loses the lease to another process, which does not renew it.
    let taken = json!({"spec": {"holderIdentity": "other", "leaseDurationSeconds": 1}});
    cluster.patch::<Object>("plimsoll-controller-lock", taken).await;
    until("it leads again", async || holder(&cluster).await.as_deref() == Some("one")).await;
    cluster.patch::<Fleet>("f", json!({"spec": {"replicas": 4}})).await;
    cluster.settles("f", 4, 0).await;
    assert_eq!(lists.load(Ordering::Relaxed), 6, "nothing is listed again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_identity_takes_its_lease_over_at_once_and_another_does_not() {
    let cluster = Cluster::embedded().await;
    // The lease lasts longer than any test.
    let terms = |identity: &str| LeaderElection {
        duration: Duration::from_secs(3600),
        ..LeaderElection::new(cluster.namespace.clone(), identity)
    };
    assert!(claim_lease(&cluster.client, &terms("one")).await, "it is new");
    assert!(!claim_lease(&cluster.client, &terms("two")).await, "it is taken");
    assert!(claim_lease(&cluster.client, &terms("one")).await, "it was ours");
    assert_eq!(holder(&cluster).await.as_deref(), Some("one"));
}
