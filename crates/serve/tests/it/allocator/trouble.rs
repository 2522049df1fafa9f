//! Allocation when the API fails, the caller disconnects or another allocator wins.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::allocation::AllocationState;
use cluster::Key;
use decide::gameserver::State;
use plimsoll_serve::allocator::{AllocationError, AllocationRecorder, Allocator, Bounds, Settings};
use serde_json::json;
use tokio::sync::Semaphore;

use super::World;
use super::world::{Hook, allocation, followed, start};

/// A hook that holds up writes until they are let through.
fn held(writes: &Arc<Semaphore>, sent: &Arc<Semaphore>) -> Hook {
    let (writes, sent) = (Arc::clone(writes), Arc::clone(sent));
    Arc::new(move |passing| {
        let (writes, sent) = (Arc::clone(&writes), Arc::clone(&sent));
        Box::pin(async move {
            if passing.is_write() && !passing.is_answer {
                sent.add_permits(1);
                writes.acquire().await?.forget();
            }
            Ok(())
        })
    })
}

/// A hook that keeps everything from an allocator that happens after its first list.
fn deaf() -> Hook {
    Arc::new(|passing| {
        Box::pin(async move {
            if passing.path.contains("watch=true") {
                std::future::pending::<()>().await;
            }
            Ok(())
        })
    })
}

fn settings(writes: usize, waiting: usize) -> Settings {
    let bounds = Bounds { writes, waiting_per_namespace: waiting, waiting };
    Settings { bounds, events: false, ..Settings::default() }
}

/// Starts an allocation in a task of its own.
fn start_allocation(
    allocator: &Allocator,
) -> tokio::task::JoinHandle<Result<api::allocation::GameServerAllocationStatus, AllocationError>> {
    let allocator = allocator.clone();
    tokio::spawn(async move { allocator.allocate(&allocation(json!({}))).await })
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what).await.expect("it happens within a while")
}

#[tokio::test]
async fn a_caller_who_leaves_before_the_write_costs_nothing() {
    let world = World::with_ready(2).await;
    let (writes, sent) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let client = world.client_through(held(&writes, &sent));
    let allocator = start(client, true, settings(1, 10)).await;
    let first = start_allocation(&allocator);
    soon(sent.acquire()).await.unwrap().forget();
    let second = start_allocation(&allocator);
    tokio::task::yield_now().await;
    second.abort();
    assert!(second.await.is_err());
    writes.add_permits(10);
    assert_eq!(soon(first).await.unwrap().unwrap().game_server_name, "s0000");
    assert_eq!(world.in_state("Ready").await, ["s0001"], "it is not allocated");
    assert_eq!(
        soon(start_allocation(&allocator)).await.unwrap().unwrap().game_server_name,
        "s0001"
    );
}

#[tokio::test]
async fn a_write_that_was_sent_is_finished_though_its_caller_left() {
    let world = World::with_ready(2).await;
    let (writes, sent) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let client = world.client_through(held(&writes, &sent));
    let allocator = start(client, true, settings(1, 10)).await;
    let first = start_allocation(&allocator);
    soon(sent.acquire()).await.unwrap().forget();
    first.abort();
    writes.add_permits(10);
    assert_eq!(
        soon(start_allocation(&allocator)).await.unwrap().unwrap().game_server_name,
        "s0001",
        "the first one is taken"
    );
    assert_eq!(world.in_state("Allocated").await, ["s0000", "s0001"]);
}

#[tokio::test]
async fn a_full_queue_refuses_at_once() {
    let world = World::with_ready(5).await;
    let (writes, sent) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let client = world.client_through(held(&writes, &sent));
    let allocator = start(client, true, settings(1, 1)).await;
    let first = start_allocation(&allocator);
    soon(sent.acquire()).await.unwrap().forget();
    let second = start_allocation(&allocator);
    tokio::task::yield_now().await;
    let refused = soon(start_allocation(&allocator)).await.unwrap();
    assert!(matches!(refused, Err(AllocationError::Overloaded(_))), "{refused:?}");
    writes.add_permits(10);
    for asked in [first, second] {
        assert_eq!(soon(asked).await.unwrap().unwrap().state, AllocationState::Allocated);
    }
}

#[tokio::test]
async fn who_is_behind_learns_what_changed_and_chooses_again() {
    let world = World::with_ready(3).await;
    let deaf = start(world.client_through(deaf()), true, settings(10, 10)).await;
    world.patch("s0000", json!({"status": {"state": "Shutdown"}})).await;
    world.patch("s0001", json!({"metadata": {"labels": {"by": "sdk"}}})).await;
    let mut names = Vec::new();
    for _ in 0..2 {
        names.push(deaf.allocate(&allocation(json!({}))).await.unwrap().game_server_name);
    }
    names.sort();
    assert_eq!(names, ["s0001", "s0002"], "what is going is not given out");
    let answer = deaf.allocate(&allocation(json!({}))).await.unwrap();
    assert_eq!(answer.state, AllocationState::UnAllocated);
}

#[tokio::test]
async fn an_allocation_is_in_the_shared_cache_before_the_watch_delivers_it() {
    let world = World::with_ready(1).await;
    let (client, settings) = (world.client_through(deaf()), settings(1, 1));
    let caches = followed(&client, true, &settings.supervisor);
    let allocator = Allocator::start(client, Arc::clone(&caches), settings).await;
    allocator.allocate(&allocation(json!({}))).await.unwrap();
    let server = caches.servers.get(&Key::new("default", "s0000")).unwrap();
    assert_eq!(server.view.state, State::Allocated);
}

#[tokio::test]
async fn an_allocator_that_may_not_list_nodes_takes_all_of_them_for_ready() {
    let world = World::with_ready(1).await;
    let hook: Hook = Arc::new(|passing| {
        let is_refused = passing.path.contains("/api/v1/nodes");
        Box::pin(async move { if is_refused { Err("forbidden".into()) } else { Ok(()) } })
    });
    let allocator = soon(start(world.client_through(hook), true, settings(1, 1))).await;
    let answer = allocator.allocate(&allocation(json!({}))).await.unwrap();
    assert_eq!(answer.state, AllocationState::Allocated);
}

#[tokio::test]
async fn the_number_of_attempts_is_measured() {
    let world = World::with_ready(2).await;
    let tries = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&tries);
    let recorder =
        AllocationRecorder::new(move |measured| heard.lock().unwrap().push(measured.tries));
    let settings = Settings { recorder: Some(recorder), ..settings(10, 10) };
    let allocator = start(world.client_through(deaf()), true, settings).await;
    // The first choice is going, and the allocator has not heard of it.
    world.patch("s0000", json!({"status": {"state": "Shutdown"}})).await;
    for _ in 0..2 {
        allocator.allocate(&allocation(json!({}))).await.unwrap();
    }
    assert_eq!(*tries.lock().unwrap(), [Some(2), None], "then there is none");
}

#[tokio::test]
async fn an_answer_that_was_lost_on_the_way_is_found_again() {
    for replaces in [true, false] {
        an_answer_is_found_again(replaces).await;
    }
}

async fn an_answer_is_found_again(replaces: bool) {
    let world = World::with_ready(3).await;
    let writes = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&writes);
    // Every other write is done and its answer lost; every fifth does not arrive at all.
    let hook: Hook = Arc::new(move |passing| {
        let is_lost = passing.is_write()
            && match passing.is_answer {
                true => count.load(Ordering::Relaxed) % 2 == 1,
                false => count.fetch_add(1, Ordering::Relaxed) % 5 == 4,
            };
        Box::pin(async move { if is_lost { Err("the connection broke".into()) } else { Ok(()) } })
    });
    let allocator = start(world.client_through(hook), replaces, settings(10, 10)).await;
    for expected in ["s0000", "s0001", "s0002"] {
        let answer = soon(allocator.allocate(&allocation(json!({})))).await.unwrap();
        assert_eq!(answer.game_server_name, expected);
    }
    assert!(writes.load(Ordering::Relaxed) > 3, "some were sent again");
    assert_eq!(world.in_state("Allocated").await.len(), 3);
}

#[tokio::test]
async fn actions_that_cannot_be_applied_are_reported_by_events() {
    let world = World::with_ready(1).await;
    let allocator = world.allocator().await;
    let spec = json!({
        "counters": {"nokey": {"action": "Increment", "amount": 1}},
        "lists": {"nolist": {"capacity": 5}},
    });
    let answer = allocator.allocate(&allocation(spec)).await.unwrap();
    assert_eq!(answer.state, AllocationState::Allocated);
    let events: kube::Api<k8s_openapi::api::core::v1::Event> =
        kube::Api::default_namespaced(world.engine.client());
    let reported = soon(async {
        loop {
            let all = events.list(&Default::default()).await.unwrap().items;
            let mut reasons: Vec<String> = all.into_iter().filter_map(|e| e.reason).collect();
            if reasons.len() == 3 {
                reasons.sort();
                return reasons;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert_eq!(reported.await, ["Allocated", "CounterActionError", "ListActionError"]);
}

#[tokio::test]
async fn a_panicking_write_affects_neither_its_caller_nor_the_next_one() {
    let world = World::with_ready(3).await;
    let writes = Arc::new(AtomicUsize::new(0));
    let hook: Hook = Arc::new(move |passing| {
        let writes = Arc::clone(&writes);
        Box::pin(async move {
            if passing.is_write() && !passing.is_answer {
                assert_ne!(writes.fetch_add(1, Ordering::SeqCst), 0, "on purpose");
            }
            Ok(())
        })
    });
    let allocator = start(world.client_through(hook), true, settings(1, 10)).await;
    let mut allocated = Vec::new();
    for _ in 0..2 {
        allocated.push(soon(start_allocation(&allocator)).await.unwrap().unwrap().game_server_name);
    }
    allocated.sort();
    assert_eq!(allocated, ["s0001", "s0002"]);
}
