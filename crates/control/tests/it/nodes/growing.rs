//! Stories of pods that get nodes: which group grows, and what happens when machines do not come.

use super::*;

pub(super) async fn pods_get_nodes_from_zero_and_reasons_are_reported(stage: Stage) {
    let Some(world) = World::run_on(stage, json!({"scaleDown": {"enabled": false}})).await else {
        return;
    };
    world.group("small", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    for n in 0..6 {
        world.pod(&format!("p{n}"), "1500m", json!({})).await;
    }
    until("six pods have nodes", async || world.bound().await == 6).await;
    assert_eq!(world.nodes("small").await.len(), 3, "two pods fit on each");
    assert_eq!(world.group_status("small").await["target"], 3);
    until("pods have events", async || world.has_event("p0", "TriggeredScaleUp").await).await;
    until("the group has an event", async || world.has_group_event("small", "ScaledUpGroup").await)
        .await;
    until("a decision is recorded", async || {
        let decisions: Api<Decision> = Api::all(world.client());
        let all = decisions.list(&ListParams::default()).await.unwrap().items;
        all.iter().any(|decision| decision.spec.subject.kind == "NodeAutoscaler")
    })
    .await;
    until("the scale-up is complete", async || {
        world.group_status("small").await["scaleUp"].is_null()
    })
    .await;
    world.end().await;
}

pub(super) async fn pods_of_a_bypassed_scheduler_get_nodes_at_once(stage: Stage) {
    let spec = json!({
        "scaleUp": {"bypassedSchedulers": ["nobody"]}, "scaleDown": {"enabled": false},
    });
    let Some(world) = World::run_on(stage, spec).await else { return };
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    for (name, scheduler) in [("waits", "nothing"), ("counts", "nobody")] {
        let mut pod = world.pod_object(name, "3", json!({}));
        pod.spec.as_mut().unwrap().scheduler_name = Some(scheduler.to_owned());
        world.cluster.api::<Pod>().create(&PostParams::default(), &pod).await.unwrap();
    }
    until("there is a node", async || !world.nodes("g").await.is_empty()).await;
    until("it has an event", async || world.has_event("counts", "TriggeredScaleUp").await).await;
    assert!(!world.has_event("waits", "TriggeredScaleUp").await);
    assert_eq!(world.nodes("g").await.len(), 1, "the other pod has to be looked at first");
    world.end().await;
}

pub(super) async fn the_expander_chooses_the_group(stage: Stage) {
    let spec = json!({"expanders": ["priority"], "scaleDown": {"enabled": false}});
    let Some(world) = World::run_on(stage, spec).await else { return };
    world.group("first", json!({"max": 5, "priority": 1}), json!({"startAfter": "0s"})).await;
    world.group("second", json!({"max": 5, "priority": 9}), json!({"startAfter": "0s"})).await;
    world.pod("p", "1", json!({})).await;
    until("the pod has a node", async || world.bound().await == 1).await;
    assert_eq!((world.nodes("first").await.len(), world.nodes("second").await.len()), (0, 1));
    world.end().await;
}

pub(super) async fn limits_hold_and_waiting_pods_get_events(stage: Stage) {
    let Some(world) = World::run_on(stage, json!({"scaleDown": {"enabled": false}})).await else {
        return;
    };
    world.group("one", json!({"max": 1}), json!({"startAfter": "0s"})).await;
    world.pod("fits", "3", json!({})).await;
    until("the pod has a node", async || world.bound().await == 1).await;
    world.pod("waits", "3", json!({})).await;
    world.pod("huge", "100", json!({})).await;
    until("the small pod has an event", async || {
        world.has_event("waits", "NotTriggerScaleUp").await
    })
    .await;
    until("the huge pod has an event", async || world.has_event("huge", "NotTriggerScaleUp").await)
        .await;
    assert_eq!(world.nodes("one").await.len(), 1);
    world.end().await;
}

pub(super) async fn a_group_without_machines_is_backed_off_and_the_next_best_grows(stage: Stage) {
    let spec = json!({"expanders": ["priority"], "scaleDown": {"enabled": false}});
    let Some(world) = World::run_on(stage, spec).await else { return };
    let empty = json!({"startAfter": "0s", "outOfStock": true});
    world.group("best", json!({"max": 5, "priority": 9}), empty).await;
    world.group("other", json!({"max": 5, "priority": 1}), json!({"startAfter": "0s"})).await;
    world.pod("p", "1", json!({})).await;
    until("the pod has a node", async || world.bound().await == 1).await;
    assert_eq!(world.nodes("other").await.len(), 1);
    until("backed off", async || world.has_condition("best", "BackedOff", "True").await).await;
    assert!(world.has_group_event("best", "FailedToScaleUpGroup").await);
    world.end().await;
}

pub(super) async fn machines_that_fail_to_start_are_given_up(stage: Stage) {
    let Some(world) = World::run_on(stage, json!({"scaleDown": {"enabled": false}})).await else {
        return;
    };
    let broken = json!({"startAfter": "0s", "failureRate": 1.0});
    world.group("broken", json!({"max": 5}), broken).await;
    world.pod("p", "1", json!({})).await;
    until("backed off", async || world.has_condition("broken", "BackedOff", "True").await).await;
    until("given up", async || world.group_status("broken").await["target"] == 0).await;
    assert!(world.has_group_event("broken", "ScaleUpFailed").await);
    world.end().await;
}

pub(super) async fn machines_that_do_not_appear_in_time_are_cancelled(stage: Stage) {
    let spec = json!({"scaleUp": {"maxProvisionTime": "1s"}, "scaleDown": {"enabled": false}});
    let Some(world) = World::run_on(stage, spec).await else { return };
    world.group("slow", json!({"max": 5}), json!({"startAfter": "1h"})).await;
    world.pod("p", "1", json!({})).await;
    until("timed out", async || world.has_group_event("slow", "ScaleUpTimedOut").await).await;
    until("cancelled", async || world.group_status("slow").await["target"] == 0).await;
    until("backed off", async || world.has_condition("slow", "BackedOff", "True").await).await;
    world.end().await;
}

pub(super) async fn new_nodes_are_distributed_over_similar_groups(stage: Stage) {
    let spec = json!({
        "scaleUp": {"balanceSimilarGroups": true, "balanceIgnoreLabels": ["kind"]},
        "scaleDown": {"enabled": false},
    });
    let Some(world) = World::run_on(stage, spec).await else { return };
    for name in ["a", "b"] {
        world.group(name, json!({"max": 5}), json!({"startAfter": "0s"})).await;
    }
    // Both groups are known before the first pod is.
    for name in ["a", "b"] {
        until("known", async || world.has_condition(name, "ProviderAvailable", "True").await).await;
    }
    for n in 0..4 {
        world.pod(&format!("p{n}"), "3", json!({})).await;
    }
    until("the pods have nodes", async || world.bound().await == 4).await;
    let (a, b) = (world.nodes("a").await.len(), world.nodes("b").await.len());
    // The pods may come in several evaluations, each of which is balanced.
    assert!(a + b == 4 && a >= 1 && b >= 1, "{a} {b}");
    world.end().await;
}

// On a real cluster other tests add nodes too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_of_the_cluster_holds() {
    let world = World::idle(json!({"scaleDown": {"enabled": false}})).await;
    let nodes: Api<Node> = Api::all(world.client());
    let present = nodes.list(&ListParams::default()).await.unwrap().items.len();
    let limits = json!({"spec": {"limits": {"nodes": present + 1}}});
    let autoscalers: Api<NodeAutoscaler> = Api::all(world.client());
    let limits = Patch::Merge(limits);
    autoscalers.patch("default", &PatchParams::default(), &limits).await.unwrap();
    let _control = JoinSet::from_iter([control(world.client(), world.cluster.settings())]);
    world.group("g", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    for n in 0..3 {
        world.pod(&format!("p{n}"), "3", json!({})).await;
    }
    until("a pod has a node", async || world.bound().await >= 1).await;
    until("the others are told", async || {
        let mut told = 0;
        for n in 0..3 {
            told += usize::from(world.has_event(&format!("p{n}"), "NotTriggerScaleUp").await);
        }
        told == 2
    })
    .await;
    assert!(world.nodes("g").await.len() <= 1, "the limit holds");
    world.end().await;
}
