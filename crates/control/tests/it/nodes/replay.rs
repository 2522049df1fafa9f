//! Recorded decisions about nodes are decided again from their inputs.

use std::collections::BTreeSet;

use api::plimsoll::DecisionOutcome;
use cluster::decisions::cut;
use decide::nodes::Evaluation;
use plimsoll_control::nodes::describe::describe;
use plimsoll_control::nodes::observe::observe;
use plimsoll_control::{Lister, ObjectName, Unreadable};

use super::*;

/// The inputs of a recorded decision.
struct Inputs(Vec<Value>);

impl<K: Resource<DynamicType = ()> + DeserializeOwned> Lister<K> for Inputs {
    type Item = K;

    fn list(&self, _: Option<&str>) -> impl Iterator<Item = Result<K, Unreadable>> {
        let of_kind = self.0.iter().filter(|object| object["kind"] == *K::kind(&()));
        of_kind.map(|object| Ok(serde_json::from_value(object.clone()).unwrap()))
    }
}

/// Repeats a recorded decision.
pub(super) fn replayed(decision: &Decision) -> Value {
    let inputs = Inputs(decision.spec.inputs.clone());
    let autoscaler: NodeAutoscaler = inputs.list(None).next().unwrap().unwrap();
    let observed = observe(&autoscaler, &inputs).unwrap();
    let now = decision.spec.at.0;
    let mut evaluation = Evaluation::new(&observed.cluster, &observed.settings, now);
    let added = evaluation.scale_up_answered(&observed.answers);
    let removed = evaluation.scale_down(&observed.status, &added);
    let description = describe(&ObjectName::new(&autoscaler), &added, &removed, &evaluation);
    Value::Object(cut(&description.json))
}

/// Messages name times, of which the record has whole seconds only.
pub(super) fn without_messages(mut decision: Value) -> Value {
    match &mut decision {
        Value::Object(fields) => {
            fields.remove("message");
            fields.values_mut().for_each(|value| *value = without_messages(value.take()));
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|value| *value = without_messages(value.take()));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    decision
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_decided_is_decided_again() {
    let world = World::start(json!({"scaleDown": {"unneededFor": "2s"}})).await;
    world.group("g", json!({"min": 0, "max": 5}), json!({"startAfter": "1s"})).await;
    world.group("empty", json!({"max": 5}), json!({"outOfStock": true})).await;
    for n in 0..3 {
        world.pod(&format!("p{n}"), "3", json!({"annotations": {"note": "secret"}})).await;
    }
    world.pod_of("empty", "waits").await;
    until("three pods have nodes", async || world.bound().await == 3).await;
    for n in 0..3 {
        world.delete_pod(&format!("p{n}")).await;
    }
    until("the nodes are gone", async || world.nodes("g").await.is_empty()).await;
    let decisions: Api<Decision> = Api::all(world.client());
    let mut outcomes = BTreeSet::new();
    let is_removal = |decision: &Decision| decision.spec.decision["delete"] != json!([]);
    let mut all = Vec::new();
    until("the removal is recorded", async || {
        all = decisions.list(&ListParams::default()).await.unwrap().items;
        all.iter().any(is_removal)
    })
    .await;
    for decision in &all {
        assert!(!decision.spec.truncated);
        let text = json!(decision.spec.inputs).to_string();
        assert!(!text.contains("secret") && !text.contains("game:1"), "{text}");
        let recorded = without_messages(json!(decision.spec.decision));
        let again = without_messages(replayed(decision));
        assert_eq!(again, recorded, "{:#}", json!(decision.spec));
        outcomes.insert(format!("{:?}", decision.spec.outcome));
    }
    let wanted = [DecisionOutcome::Applied, DecisionOutcome::Failed, DecisionOutcome::Held];
    assert_eq!(outcomes, wanted.map(|outcome| format!("{outcome:?}")).into());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_does_not_record_the_same_decision_again() {
    let world = World::idle(json!({"scaleDown": {"enabled": false}})).await;
    world.group("g", json!({"max": 0}), json!({})).await;
    world.pod("waits", "3", json!({})).await;
    let decisions: Api<Decision> = Api::all(world.client());
    let count = async || decisions.list(&ListParams::default()).await.unwrap().items.len();
    let refused = async || {
        let all = decisions.list(&ListParams::default()).await.unwrap().items;
        all.iter().any(|d| d.spec.decision["unschedulable"][0]["why"][0]["reason"] == "AtMaxSize")
    };
    let first = tokio::spawn(control(world.client(), world.cluster.settings()));
    until("the decision is recorded", refused).await;
    first.abort();
    drop(first.await);
    let before = count().await;
    let second = tokio::spawn(control(world.client(), world.cluster.settings()));
    // Each change of the group is evaluated; the last one makes another decision, which is recorded after the others.
    let groups: Api<NodeGroup> = Api::all(world.client());
    let change = Patch::Merge(json!({"spec": {"max": 1}}));
    tokio::time::sleep(Duration::from_secs(2)).await;
    groups.patch("g", &PatchParams::default(), &change).await.unwrap();
    until("another one is recorded", async || count().await > before).await;
    let all = decisions.list(&ListParams::default()).await.unwrap().items;
    let same = all.iter().filter(|decision| {
        decision.spec.decision["unschedulable"][0]["why"][0]["reason"] == "AtMaxSize"
    });
    assert_eq!(same.count(), 1);
    second.abort();
}
