//! The choice of game servers for concurrent allocations.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use api::allocation::AllocationState;
use serde_json::json;

use plimsoll_serve::allocator::{AllocationRecorder, Settings};

use super::World;
use super::world::{allocate_at_once, allocation, start};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_at_once_get_different_servers_until_there_are_none() {
    let world = World::with_ready(50).await;
    let allocator = world.allocator().await;
    let answers = allocate_at_once(&[&allocator], &json!({}), 60).await;
    let names: Vec<String> = answers
        .into_iter()
        .map(Result::unwrap)
        .filter(|answer| answer.state == AllocationState::Allocated)
        .map(|answer| answer.game_server_name)
        .collect();
    let different: BTreeSet<&String> = names.iter().collect();
    assert_eq!((names.len(), different.len()), (50, 50));
    assert_eq!(world.in_state("Allocated").await.len(), 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_allocators_never_give_out_the_same_server_and_both_get_along() {
    let world = World::with_ready(100).await;
    let (one, other) = (world.allocator().await, world.allocator().await);
    let answers = allocate_at_once(&[&one, &other], &json!({}), 100).await;
    let names: BTreeSet<String> =
        answers.into_iter().map(|answer| answer.unwrap().game_server_name).collect();
    assert_eq!(names.len(), 100, "each got one of its own");
    assert!(!names.contains(""));
}

#[tokio::test]
async fn replacing_a_server_has_the_same_result_as_patching_it() {
    let mut left = Vec::new();
    for replaces in [true, false] {
        let world = World::new().await;
        let counters =
            json!({"rooms": {"count": 1, "capacity": 20}, "frames": {"count": 3, "capacity": 9}});
        world.ready("a", json!({"counters": counters})).await;
        world.patch("a", json!({"metadata": {"finalizers": ["agones.dev/controller"], "labels": {"mode": "ranked"}}})).await;
        let methods = Arc::new(Mutex::new(BTreeSet::new()));
        let recorded = Arc::clone(&methods);
        let client = world.client_through(Arc::new(move |passing| {
            if passing.path.contains("/gameservers/") {
                recorded.lock().unwrap().insert(passing.method);
            }
            Box::pin(async { Ok(()) })
        }));
        let allocator = start(client, replaces, Settings::default()).await;
        // The second time, it is written with the version that the answer to the first brought.
        let spec = json!({
            "selectors": [{"gameServerState": "Allocated"}, {"gameServerState": "Ready"}],
            "counters": {"rooms": {"action": "Increment", "amount": 1}},
            "metadata": {"labels": {"match": "m1"}, "annotations": {"map": "harbour"}},
        });
        for _ in 0..2 {
            let answer = allocator.allocate(&allocation(spec.clone())).await.unwrap();
            assert_eq!(answer.state, AllocationState::Allocated);
        }
        let expected = if replaces { "PUT" } else { "PATCH" };
        assert_eq!(*methods.lock().unwrap(), BTreeSet::from([expected.to_owned()]));
        let mut server = world.server("a").await;
        assert_eq!(server["status"]["counters"]["rooms"]["count"], 3);
        let metadata = server["metadata"].as_object_mut().unwrap();
        for name in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
            metadata.remove(name);
        }
        metadata["annotations"]
            .as_object_mut()
            .unwrap()
            .remove("agones.dev/last-allocated")
            .unwrap();
        left.push(server);
    }
    assert_eq!(left[0], left[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_players_share_a_server_and_none_is_lost() {
    let world = World::new().await;
    for name in ["a", "b"] {
        world.ready(name, json!({"counters": {"rooms": {"count": 0, "capacity": 20}}})).await;
    }
    let (one, other) = (world.allocator().await, world.allocator().await);
    let spec = json!({
        "selectors": [
            {"gameServerState": "Allocated", "counters": {"rooms": {"minAvailable": 1}}},
            {"counters": {"rooms": {"minAvailable": 1}}},
        ],
        "counters": {"rooms": {"action": "Increment", "amount": 1}},
    });
    let answers = allocate_at_once(&[&one, &other], &spec, 45).await;
    let given = answers
        .iter()
        .filter(|answer| answer.as_ref().unwrap().state == AllocationState::Allocated)
        .count();
    assert_eq!(given, 40, "two servers with twenty rooms each");
    for name in ["a", "b"] {
        assert_eq!(world.server(name).await["status"]["counters"]["rooms"]["count"], 20);
    }
}

#[tokio::test]
async fn a_server_that_others_use_is_filled_before_a_new_one_is_opened() {
    let world = World::new().await;
    for name in ["a", "b"] {
        world.ready(name, json!({"lists": {"players": {"capacity": 2, "values": []}}})).await;
    }
    let allocator = world.allocator().await;
    let mut got = Vec::new();
    for player in ["ann", "bob", "cy"] {
        let spec = json!({
            "selectors": [
                {"gameServerState": "Allocated", "lists": {"players": {"minAvailable": 1}}},
                {"lists": {"players": {"minAvailable": 1}}},
            ],
            "lists": {"players": {"addValues": [player]}},
            "metadata": {"labels": {"last": player}},
        });
        let answer = allocator.allocate(&allocation(spec)).await.unwrap();
        let players = answer.lists.unwrap()["players"].values.join(" ");
        let labels = answer.metadata.unwrap().labels;
        got.push((answer.game_server_name, players, labels["last"].clone()));
    }
    let expected = [("a", "ann", "ann"), ("a", "ann bob", "bob"), ("b", "cy", "cy")];
    assert_eq!(got, expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));
}

#[tokio::test]
async fn changes_during_a_write_are_considered_by_the_next_choice() {
    let world = World::with_ready(1).await;
    let allocator = world.allocator().await;
    world.patch("s0000", json!({"metadata": {"labels": {"mode": "ranked"}}})).await;
    let spec = json!({"selectors": [{"matchLabels": {"mode": "ranked"}}]});
    // The watch may be a moment behind the change.
    let answered = tokio::time::timeout(std::time::Duration::from_secs(30), async {
        loop {
            let answer = allocator.allocate(&allocation(spec.clone())).await.unwrap();
            if answer.state == AllocationState::Allocated {
                return answer;
            }
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(answered.await.unwrap().game_server_name, "s0000");
}

#[tokio::test]
async fn the_recorder_is_called_for_each_allocation() {
    let world = World::with_ready(1).await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let recorder = AllocationRecorder::new(move |measured| {
        hears.lock().unwrap().push((measured.fleet.clone(), measured.status));
    });
    let settings = Settings { recorder: Some(recorder), ..Settings::default() };
    let allocator = start(world.engine.client(), true, settings).await;
    for _ in 0..2 {
        allocator.allocate(&allocation(json!({}))).await.unwrap();
    }
    let expected = [("f".to_owned(), "Allocated"), ("none".to_owned(), "UnAllocated")];
    assert_eq!(*heard.lock().unwrap(), expected);
}
