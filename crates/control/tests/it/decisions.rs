//! The journal: the recorded decisions of autoscalers and fleets.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use api::agones::Fleet;
use api::autoscaling::FleetAutoscaler;
use api::plimsoll::{Decision, DecisionOutcome};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::autoscalers::{autoscaler, buffer, wanted, webhook};
use crate::client;
use crate::cluster::{Cluster, fleet, until};

/// Lists the decisions about an object by its kind and name, oldest first.
async fn decisions(cluster: &Cluster, kind: &str, name: &str) -> Vec<Decision> {
    let selector = format!("spec.subject.kind={kind},spec.subject.name={name}");
    let selected = ListParams::default().fields(&selector);
    let mut found = cluster.api::<Decision>().list(&selected).await.unwrap().items;
    found.sort_by_key(sequence);
    found
}

fn sequence(decision: &Decision) -> u64 {
    let name = decision.name_any();
    name.rsplit_once('-').unwrap().1.parse().unwrap()
}

/// Waits until the newest decision about an autoscaler has this outcome and size.
async fn newest(cluster: &Cluster, name: &str, outcome: DecisionOutcome, to: i32) -> Decision {
    let mut newest = None;
    until(&format!("{name} is {outcome:?} at {to}"), async || {
        newest = decisions(cluster, "FleetAutoscaler", name).await.pop();
        let spec = newest.as_ref().map(|decision| &decision.spec);
        spec.is_some_and(|spec| spec.outcome == outcome && spec.decision["to"] == to)
    })
    .await;
    newest.unwrap()
}

/// Starts controllers that end when the returned guard is dropped.
fn controllers(cluster: &Cluster) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let (client, stop) = (cluster.client.clone(), std::future::pending());
    tasks.spawn(cluster.controllers(client, cluster.settings(), stop));
    tasks
}

async fn resize(cluster: &Cluster, name: &str, spare: i32) {
    let change = json!({"spec": {"policy": buffer(spare, 0, 50)}});
    cluster.patch::<FleetAutoscaler>(name, change).await;
}

#[tokio::test]
async fn a_scale_up_is_recorded_with_its_reasons_inputs_and_owner_and_is_deleted_with_its_subject()
{
    let cluster = Cluster::start().await;
    cluster.create::<Fleet>(fleet("f", 1)).await;
    let made: FleetAutoscaler = cluster.create(autoscaler("a", "f", buffer(3, 0, 8))).await;
    newest(&cluster, "a", DecisionOutcome::Held, 3).await;
    let all = decisions(&cluster, "FleetAutoscaler", "a").await;
    let applied = &all[0];
    let spec = &applied.spec;
    assert_eq!(spec.outcome, DecisionOutcome::Applied);
    assert_eq!((&spec.decision["from"], &spec.decision["to"]), (&json!(1), &json!(3)));
    assert_eq!(spec.decision["reasons"][0]["code"], "BufferShort");
    assert_eq!(spec.decision["subject"]["name"], "a");
    assert_eq!(spec.subject.uid, made.metadata.uid);
    let owner = &applied.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(
        (owner.kind.as_str(), Some(&owner.uid)),
        ("FleetAutoscaler", made.metadata.uid.as_ref())
    );
    let kinds: Vec<_> = spec.inputs.iter().map(|input| input["kind"].clone()).collect();
    assert_eq!(kinds, ["FleetAutoscaler", "Fleet"], "a buffer reads no single servers");
    assert!(applied.name_any().starts_with("fleetautoscaler-"), "{}", applied.name_any());

    let grown = decisions(&cluster, "Fleet", "f").await;
    let sizes: Vec<_> = grown.iter().map(|d| d.spec.decision["to"].clone()).collect();
    assert_eq!(sizes.last(), Some(&json!(3)));
    cluster.delete::<FleetAutoscaler>("a").await;
    until("its decisions go with it", async || {
        decisions(&cluster, "FleetAutoscaler", "a").await.is_empty()
    })
    .await;
    let left = decisions(&cluster, "Fleet", "f").await.len();
    assert!(left >= grown.len(), "those of others stay");
}

#[tokio::test]
async fn a_fleet_that_shrinks_records_which_servers_are_deleted() {
    let cluster = Cluster::start().await;
    cluster.create::<Fleet>(fleet("f", 3)).await;
    cluster.ready("f", 3).await;
    cluster.patch::<Fleet>("f", json!({"spec": {"replicas": 1}})).await;
    cluster.ready("f", 1).await;
    until("it is recorded", async || decisions(&cluster, "Fleet", "f").await.len() == 2).await;
    let shrunk = decisions(&cluster, "Fleet", "f").await.pop().unwrap();
    let decision = &shrunk.spec.decision;
    assert_eq!((&decision["from"], &decision["to"]), (&json!(3), &json!(1)));
    assert_eq!(decision["delete"].as_array().unwrap().len(), 2);
    let left = cluster.in_state("Ready").await.remove(0).name_any();
    assert!(!decision["delete"].as_array().unwrap().contains(&json!(left)));
    let servers = shrunk.spec.inputs.iter().filter(|input| input["kind"] == "GameServer");
    assert_eq!(servers.count(), 3);
}

#[tokio::test]
async fn an_unchanged_decision_is_not_written_again_by_any_process() {
    let cluster = Cluster::embedded().await;
    let first = controllers(&cluster);
    cluster.create::<Fleet>(fleet("f", 1)).await;
    cluster.create::<FleetAutoscaler>(autoscaler("a", "f", buffer(3, 0, 50))).await;
    let held = newest(&cluster, "a", DecisionOutcome::Held, 3).await;
    for round in 0..5 {
        // Each annotation leads to an evaluation.
        let change = json!({"metadata": {"annotations": {"round": round.to_string()}}});
        cluster.patch::<FleetAutoscaler>("a", change).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(first);
    let _second = controllers(&cluster);
    // The second ones come to the same decision before the next change, or with it; both are fine.
    tokio::time::sleep(Duration::from_millis(200)).await;
    resize(&cluster, "a", 4).await;
    newest(&cluster, "a", DecisionOutcome::Held, 4).await;
    let all = decisions(&cluster, "FleetAutoscaler", "a").await;
    let story: Vec<_> =
        all.iter().map(|d| (sequence(d), d.spec.outcome, d.spec.decision["to"].clone())).collect();
    let wanted = [
        (1, DecisionOutcome::Applied, json!(3)),
        (2, DecisionOutcome::Held, json!(3)),
        (3, DecisionOutcome::Applied, json!(4)),
        (4, DecisionOutcome::Held, json!(4)),
    ];
    assert_eq!(story, wanted, "the sequence goes on, and nothing is there twice");
    assert_eq!(all[1].spec.at, held.spec.at);
}

#[tokio::test]
async fn the_stored_decisions_of_all_objects_are_listed_once() {
    let cluster = Cluster::embedded().await;
    let names = ["a", "b", "c"];
    for name in names {
        cluster.create::<Fleet>(fleet(name, 1)).await;
        cluster.create::<FleetAutoscaler>(autoscaler(name, name, buffer(2, 0, 50))).await;
    }
    let first = controllers(&cluster);
    for name in names {
        newest(&cluster, name, DecisionOutcome::Held, 2).await;
    }
    drop(first);
    let (counting, lists) = client::counting_lists(cluster.client.clone(), &["decisions"]);
    let mut second = JoinSet::new();
    second.spawn(cluster.controllers(counting, cluster.settings(), std::future::pending()));
    for name in names {
        resize(&cluster, name, 4).await;
        newest(&cluster, name, DecisionOutcome::Held, 4).await;
        let all = decisions(&cluster, "FleetAutoscaler", name).await;
        let sequences: Vec<u64> = all.iter().map(sequence).collect();
        assert_eq!(sequences, (1..=sequences.len() as u64).collect::<Vec<_>>(), "{name}");
    }
    assert_eq!(lists.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn the_last_twenty_are_kept() {
    let cluster = Cluster::start().await;
    cluster.create::<Fleet>(fleet("f", 1)).await;
    cluster.create::<FleetAutoscaler>(autoscaler("a", "f", buffer(1, 0, 50))).await;
    for round in 0..12 {
        let spare = 2 + round % 2;
        resize(&cluster, "a", spare).await;
        newest(&cluster, "a", DecisionOutcome::Held, spare).await;
    }
    until("those before are deleted", async || {
        let all = decisions(&cluster, "FleetAutoscaler", "a").await;
        let sequences: Vec<u64> = all.iter().map(sequence).collect();
        let last = *sequences.last().unwrap();
        last >= 24 && sequences == (last - 19..=last).collect::<Vec<_>>()
    })
    .await;
}

#[tokio::test]
async fn without_the_kind_nothing_is_recorded_and_fleets_scale_all_the_same() {
    let cluster = Cluster::embedded().await;
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    crds.delete("decisions.plimsoll.dev", &DeleteParams::default()).await.unwrap();
    until("the kind is gone", async || {
        cluster.api::<Decision>().list(&ListParams::default()).await.is_err()
    })
    .await;
    let (counting, writes) = client::counted(cluster.client.clone());
    let mut tasks = JoinSet::new();
    let settings = cluster.settings();
    let counts = settings.decisions.counts.clone();
    tasks.spawn(cluster.controllers(counting, settings, std::future::pending()));
    cluster.create::<Fleet>(fleet("f", 1)).await;
    cluster.create::<FleetAutoscaler>(autoscaler("a", "f", buffer(3, 0, 50))).await;
    cluster.ready("f", 3).await;
    resize(&cluster, "a", 5).await;
    wanted(&cluster, "f", 5).await;
    assert_eq!((counts.recorded(), counts.dropped()), (0, 0));
    let writes: BTreeMap<String, u32> = writes.lock().unwrap().clone();
    assert!(!writes.keys().any(|what| what.ends_with(" decisions")), "{writes:?}");
}

#[tokio::test]
async fn credentials_are_not_recorded() {
    let cluster = Cluster::start().await;
    let mut made = fleet("f", 2);
    let pod = &mut made["spec"]["template"]["spec"]["template"];
    pod["metadata"] = json!({"annotations": {"key": "hunter2"}});
    pod["spec"]["containers"][0]["env"] = json!([{"name": "KEY", "value": "hunter2"}]);
    made["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied": "hunter2"});
    cluster.create::<Fleet>(made).await;
    // Nothing listens there: the error names the URL.
    let asked = webhook("http://user:hunter2@127.0.0.1:1/scale?key=hunter2");
    cluster.create::<FleetAutoscaler>(autoscaler("a", "f", asked)).await;
    until("it is recorded", async || {
        let all = decisions(&cluster, "FleetAutoscaler", "a").await;
        all.iter().any(|d| d.spec.decision["error"]["code"] == "ReplyFailed")
    })
    .await;
    for decision in cluster.list::<Decision>().await {
        let text = json!(decision).to_string();
        assert!(!text.contains("hunter2"), "{text}");
    }
    let recorded = decisions(&cluster, "FleetAutoscaler", "a").await.remove(0);
    let url: &Value = &recorded.spec.inputs[0]["spec"]["policy"]["webhook"]["url"];
    assert_eq!(url, "http://127.0.0.1:1/scale?redacted");
}
