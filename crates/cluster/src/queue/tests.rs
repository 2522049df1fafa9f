use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn key(name: &str) -> Key {
    Key::new("ns", name)
}

#[tokio::test(start_paused = true)]
async fn a_key_is_queued_once_and_reconciled_by_one_worker_at_a_time() {
    let queue = WorkQueue::default();
    (0..3).for_each(|_| queue.add(key("a")));
    queue.add(key("b"));
    assert_eq!(queue.next().await, key("a"));
    queue.add(key("a"));
    queue.add(key("a"));
    assert_eq!(queue.next().await, key("b"));
    assert!(queue.next().now_or_never().is_none(), "it is being reconciled");
    queue.done(&key("a"), Ok(None));
    assert_eq!(queue.next().await, key("a"));
    queue.done(&key("a"), Ok(None));
    assert!(queue.next().now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_delay_after_failures_doubles_up_to_a_bound() {
    let queue = WorkQueue::default();
    queue.add(key("a"));
    let mut waits = Vec::new();
    for _ in 0..20 {
        let began_at = Instant::now();
        let key = queue.next().await;
        waits.push(began_at.elapsed());
        queue.done(&key, Err(Error::Panicked));
    }
    assert_eq!(waits[0], Duration::ZERO);
    assert!(waits.is_sorted() && waits[1] < Duration::from_millis(10));
    assert!(waits[19] <= LONGEST_RETRY + Duration::from_millis(1));
    queue.next().await;
    queue.done(&key("a"), Ok(None));
    queue.add(key("a"));
    queue.next().await;
    queue.done(&key("a"), Err(Error::Panicked));
    let began_at = Instant::now();
    queue.next().await;
    assert!(began_at.elapsed() < Duration::from_millis(10), "a success starts over");
}

#[tokio::test(start_paused = true)]
async fn the_earlier_of_two_times_counts_and_a_panic_is_a_failure() {
    let queue = Arc::new(WorkQueue::default());
    let now = Instant::now();
    queue.add_at(key("a"), now + Duration::from_secs(9));
    queue.add_at(key("a"), now + Duration::from_secs(1));
    queue.add_at(key("a"), now + Duration::from_secs(5));
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let work = queue.run(2, move |_| {
        let counted = Arc::clone(&counted);
        async move {
            assert_ne!(
                counted.fetch_add(1, Ordering::Relaxed),
                0,
                "the first reconciliation panics"
            );
            Ok(None)
        }
    });
    assert!(tokio::time::timeout(Duration::from_millis(1500), work).await.is_err());
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}
