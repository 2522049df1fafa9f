//! The state under events and outcomes, without an API server.

use cluster::Undecoded;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::*;
use crate::watched_pod::WatchedPod;
use crate::write::{PodWrite, WriteOutcome};

fn parse<K: serde::de::DeserializeOwned>(object: &Value) -> Undecoded<K> {
    serde_json::from_str(&object.to_string()).unwrap()
}

fn node(name: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "capacity": {"cpu": cpu, "memory": "1Gi", "pods": "10"},
        },
    })
}

fn pod(name: &str, uid: &str, on: Option<&str>) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "n", "uid": uid, "resourceVersion": "1"},
        "spec": {
            "schedulerName": "s",
            "nodeName": on,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        },
    })
}

/// Returns a state after first lists with these nodes and pods.
fn synced(nodes: &[Value], pods: &[Value]) -> ClusterState {
    let mut state = ClusterState::new("s", Random::seeded(1));
    assert!(!state.is_synced());
    state.handle(WatchEvent::Namespace(Event::InitDone.into()));
    state.handle(WatchEvent::Claim(Event::InitDone.into()));
    state.handle(WatchEvent::Volume(Event::InitDone.into()));
    state.handle(WatchEvent::StorageClass(Event::InitDone.into()));
    state.handle(WatchEvent::CsiNode(Event::InitDone.into()));
    state.handle(WatchEvent::Budget(Event::InitDone.into()));
    state.handle(WatchEvent::Node(Event::Init.into()));
    nodes.iter().for_each(|n| state.handle(WatchEvent::Node(Event::InitApply(parse(n)).into())));
    state.handle(WatchEvent::Node(Event::InitDone.into()));
    assert!(!state.is_synced());
    list_pods(&mut state, pods);
    assert!(state.is_synced());
    state
}

fn list_pods(state: &mut ClusterState, pods: &[Value]) {
    state.handle(WatchEvent::Pod(Event::Init.into()));
    pods.iter().for_each(|p| state.handle(WatchEvent::Pod(Event::InitApply(parse(p)).into())));
    state.handle(WatchEvent::Pod(Event::InitDone.into()));
}

fn apply(state: &mut ClusterState, pod: &Value) {
    state.handle(WatchEvent::Pod(Event::Apply(parse(pod)).into()));
}

/// Returns the names of pods with their nodes, or with why they have none.
fn decided(writes: &[PodWrite]) -> Vec<(String, String)> {
    let text = |write: &PodWrite| match write {
        PodWrite::Bind { node, .. } => node.to_string(),
        PodWrite::MarkUnschedulable { why, .. } => why.message.clone(),
    };
    writes.iter().map(|write| (write.pod().key.name.to_string(), text(write))).collect()
}

fn placed(name: &str, on: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), on.to_owned())]
}

fn cpu_used(state: &ClusterState, node: &str) -> i64 {
    state.usage.get(node).map_or(0, |usage| usage.requests.cpu)
}

const NO_CPU: &str = "0/1 nodes are available: 1 Insufficient cpu.";

#[test]
fn a_pod_counts_on_its_node_from_the_decision_on() {
    let mut state = synced(&[node("a", "1")], &[pod("one", "1", None)]);
    assert_eq!(decided(&state.schedule()), placed("one", "a"));
    assert_eq!(cpu_used(&state, "a"), 1000);
    apply(&mut state, &pod("two", "2", None));
    assert_eq!(decided(&state.schedule()), placed("two", NO_CPU));
    // A late event from before the binding does not undo it; the one with the node confirms it.
    apply(&mut state, &pod("one", "1", None));
    assert!(state.schedule().is_empty());
    apply(&mut state, &pod("one", "1", Some("a")));
    assert_eq!(cpu_used(&state, "a"), 1000);
    assert!(state.pods[&Key::new("n", "one")].pending.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_failed_binding_frees_the_node_and_is_decided_again_after_a_delay() {
    let mut state = synced(&[node("a", "1")], &[pod("one", "1", None)]);
    let mut delays = Vec::new();
    for _ in 0..10 {
        let writes = state.schedule();
        assert_eq!(decided(&writes), placed("one", "a"));
        assert!(state.is_still_wanted(&writes[0]));
        state.complete(&writes[0], WriteOutcome::Failed);
        assert_eq!(cpu_used(&state, "a"), 0);
        assert!(state.schedule().is_empty(), "not before the delay is over");
        let due = state.queue.next_due().unwrap();
        delays.push(due - Instant::now());
        state.activate_due(due);
    }
    assert!(delays[0] >= std::time::Duration::from_millis(50), "{delays:?}");
    assert!(delays[9] >= std::time::Duration::from_secs(5), "{delays:?}");
    assert!(delays.iter().all(|delay| *delay <= std::time::Duration::from_secs(10)));
    let writes = state.schedule();
    state.complete(&writes[0], WriteOutcome::Bound);
    assert_eq!(cpu_used(&state, "a"), 1000);
}

#[tokio::test(start_paused = true)]
async fn a_failed_binding_of_a_pod_that_is_gone_or_replaced_changes_nothing() {
    let mut state = synced(&[node("a", "1")], &[pod("one", "1", None)]);
    let writes = state.schedule();
    apply(&mut state, &pod("one", "2", None));
    assert_eq!(cpu_used(&state, "a"), 0, "another pod has its name");
    assert!(!state.is_still_wanted(&writes[0]));
    let again = state.schedule();
    assert_eq!(decided(&again), placed("one", "a"));
    state.complete(&writes[0], WriteOutcome::Failed);
    assert_eq!(cpu_used(&state, "a"), 1000);
    state.handle(WatchEvent::Pod(Event::Delete(parse(&pod("one", "2", None))).into()));
    state.complete(&again[0], WriteOutcome::Failed);
    assert_eq!((cpu_used(&state, "a"), state.queue.next_due()), (0, None));
}

#[test]
fn an_assumed_pod_that_vanishes_frees_its_node() {
    let pods = [pod("one", "1", None), pod("two", "2", None)];
    for relist in [false, true] {
        let mut state = synced(&[node("a", "1")], &pods);
        let writes = state.schedule();
        assert_eq!(decided(&writes)[1], ("two".to_owned(), NO_CPU.to_owned()));
        let marked = pod("two", "2", None);
        let answer: WatchedPod = serde_json::from_str(&marked.to_string()).unwrap();
        state.complete(&writes[1], WriteOutcome::Marked(answer.into()));
        assert!(state.schedule().is_empty());
        if relist {
            list_pods(&mut state, &pods[1..]);
        } else {
            state.handle(WatchEvent::Pod(Event::Delete(parse(&pods[0])).into()));
        }
        assert_eq!(decided(&state.schedule()), placed("two", "a"));
    }
}

#[test]
fn a_list_removes_what_it_does_not_name() {
    let pods = [pod("one", "1", Some("a")), pod("two", "2", Some("a"))];
    let mut state = synced(&[node("a", "4"), node("b", "4")], &pods);
    assert_eq!(cpu_used(&state, "a"), 2000);
    list_pods(&mut state, &pods[..1]);
    assert_eq!(cpu_used(&state, "a"), 1000);
    assert_eq!(state.pods.len(), 1);
    state.handle(WatchEvent::Node(Event::Init.into()));
    state.handle(WatchEvent::Node(Event::InitApply(parse(&node("b", "4"))).into()));
    assert_eq!(state.nodes.len(), 2, "the list is not complete");
    state.handle(WatchEvent::Node(Event::InitDone.into()));
    assert_eq!(state.nodes.keys().map(|name| &**name).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn a_binding_to_a_node_that_vanished_before_it_was_sent_is_decided_again() {
    let mut state = synced(&[node("a", "4"), node("b", "1")], &[pod("one", "1", None)]);
    let writes = state.schedule();
    assert_eq!(decided(&writes), placed("one", "a"));
    state.handle(WatchEvent::Node(Event::Delete(parse(&node("a", "4"))).into()));
    assert!(!state.is_still_wanted(&writes[0]));
    assert_eq!(decided(&state.schedule()), placed("one", "b"));
}

#[test]
fn the_condition_is_written_only_when_it_is_news() {
    let mut state = synced(&[node("a", "1")], &[]);
    let mut refused = pod("large", "1", None);
    refused["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("9");
    refused["status"] = json!({"conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NO_CPU,
    }]});
    apply(&mut state, &refused);
    assert!(state.schedule().is_empty(), "it says so already");
    let closed = json!({"spec": {"unschedulable": true}});
    let mut closed_node = node("a", "1");
    closed_node["spec"] = closed["spec"].clone();
    state.handle(WatchEvent::Node(Event::Apply(parse(&closed_node)).into()));
    let message = "0/1 nodes are available: 1 node(s) were unschedulable.";
    assert_eq!(decided(&state.schedule()), placed("large", message));
}

#[test]
fn a_pod_waits_for_its_claim() {
    let mut claiming = pod("one", "1", None);
    claiming["spec"]["volumes"] =
        json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
    let mut state = synced(&[node("a", "1")], &[claiming]);
    let writes = state.schedule();
    let message = "0/1 nodes are available: 1 node(s) cannot reach volume n/c.";
    assert_eq!(decided(&writes), placed("one", message));
    let mut answer: WatchedPod = serde_json::from_str(&pod("one", "1", None).to_string()).unwrap();
    answer.metadata.resource_version = Some("2".to_owned());
    state.complete(&writes[0], WriteOutcome::Marked(answer.into()));
    let claim = json!({"metadata": {"name": "c", "namespace": "n"}, "spec": {"volumeName": "pv"}});
    state.handle(WatchEvent::Claim(Event::Apply(parse(&claim)).into()));
    let volume = json!({"metadata": {"name": "pv"}, "spec": {}});
    state.handle(WatchEvent::Volume(Event::Apply(parse(&volume)).into()));
    assert_eq!(decided(&state.schedule()), placed("one", "a"));
}

#[test]
fn preferred_affinity_follows_pods_that_come_and_go() {
    let near = |name: &str| {
        let mut pod = pod(name, name, None);
        pod["metadata"]["labels"] = json!({"app": "x"});
        let term = json!({"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "x"}}});
        let preferred = json!([{"weight": 100, "podAffinityTerm": term}]);
        pod["spec"]["affinity"] =
            json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}});
        pod
    };
    let host = |name: &str| {
        let mut node = node(name, "9");
        node["metadata"]["labels"] = json!({"host": name});
        node
    };
    let mut there = near("there");
    there["spec"]["nodeName"] = json!("b");
    let mut state = synced(&[host("a"), host("b")], &[there.clone(), near("one")]);
    assert_eq!(decided(&state.schedule()), placed("one", "b"));
    apply(&mut state, &near("two"));
    assert_eq!(decided(&state.schedule()), placed("two", "b"));
    for gone in [&there, &near("one"), &near("two")] {
        state.handle(WatchEvent::Pod(Event::Delete(parse(gone)).into()));
    }
    apply(&mut state, &near("three"));
    assert_eq!(decided(&state.schedule()), placed("three", "a"), "of equals, the first by name");
}

fn with_priority(mut pod: Value, priority: i32) -> Value {
    pod["spec"]["priority"] = priority.into();
    pod
}

/// Returns the nominated node and the victims of the only write.
fn preempted(writes: &[PodWrite]) -> (Option<&str>, Vec<&str>) {
    let [PodWrite::MarkUnschedulable { why, .. }] = writes else { panic!("{writes:?}") };
    let victims = why.victims.iter().map(|victim| &*victim.key.name).collect();
    (why.nominated.as_deref(), victims)
}

#[test]
fn a_preempted_pods_room_is_reserved_for_the_preemptor() {
    let low = pod("low", "1", Some("a"));
    let mut state = synced(&[node("a", "1")], std::slice::from_ref(&low));
    apply(&mut state, &with_priority(pod("high", "2", None), 10));
    let writes = state.schedule();
    assert_eq!(preempted(&writes), (Some("a"), vec!["low"]));
    assert!(state.schedule().is_empty(), "it is done once");

    // The victim takes its time.
    let mut ending = low;
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    apply(&mut state, &ending);
    let mut nominated = with_priority(pod("high", "2", None), 10);
    nominated["metadata"]["resourceVersion"] = "5".into();
    nominated["status"] = json!({"nominatedNodeName": "a"});
    let answer: WatchedPod = serde_json::from_str(&nominated.to_string()).unwrap();
    state.complete(&writes[0], WriteOutcome::Marked(Box::new(answer)));
    apply(&mut state, &nominated);
    state.queue.activate_unschedulable();
    assert_eq!(preempted(&state.schedule()), (Some("a"), Vec::new()), "it waits");

    // A pod that comes now, and would fit, does not get the room.
    state.handle(WatchEvent::Pod(Event::Delete(parse(&ending)).into()));
    let writes = {
        apply(&mut state, &pod("late", "3", None));
        state.schedule()
    };
    let late: Vec<_> = decided(&writes).into_iter().filter(|(name, _)| name == "late").collect();
    assert_eq!(late[0].1, "0/1 nodes are available: 1 Insufficient cpu.");
}

#[test]
fn no_pod_is_preempted_by_a_pod_that_never_preempts_or_is_no_more_important() {
    let mut state = synced(&[node("a", "1")], &[with_priority(pod("low", "1", Some("a")), 5)]);
    apply(&mut state, &with_priority(pod("same", "2", None), 5));
    assert_eq!(preempted(&state.schedule()), (None, Vec::new()));
    let mut never = with_priority(pod("never", "3", None), 10);
    never["spec"]["preemptionPolicy"] = "Never".into();
    apply(&mut state, &never);
    assert_eq!(preempted(&state.schedule()), (None, Vec::new()));
}
