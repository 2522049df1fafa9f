//! Tests of tasks that end or panic.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// Waits until something is so.
async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_is_restarted_and_reported_until_it_keeps_running() {
    let supervisor = Supervisor::new();
    let starts = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&starts);
    let _task = supervisor.spawn("collector", move || {
        let start = count.fetch_add(1, Ordering::Relaxed);
        async move {
            assert!(start >= 3, "start {start} is unlucky");
            std::future::pending().await
        }
    });
    assert_eq!(supervisor.problems(), Vec::<String>::new());
    until(|| !supervisor.problems().is_empty()).await;
    let problems = supervisor.problems();
    assert_eq!(problems, ["collector ended unexpectedly: it panicked: start 0 is unlucky"]);
    until(|| starts.load(Ordering::Relaxed) == 4).await;
    assert_eq!(supervisor.problems(), ["collector was started again a moment ago"]);
    until(|| supervisor.problems().is_empty()).await;
    assert_eq!(starts.load(Ordering::Relaxed), 4);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_only_ever_fails_is_started_less_and_less_often() {
    let supervisor = Supervisor::new();
    let starts = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&starts);
    let _task = supervisor.spawn("scheduler", move || {
        count.fetch_add(1, Ordering::Relaxed);
        std::future::ready(())
    });
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let starts = starts.load(Ordering::Relaxed);
    assert!((100..=130).contains(&starts), "{starts} starts in an hour");
    assert_eq!(supervisor.problems(), ["scheduler ended unexpectedly: it returned"]);
}

#[tokio::test]
async fn a_task_that_may_not_be_started_anew_ends_the_process_with_its_name_and_cause() {
    let supervisor = Supervisor::new();
    let _well = supervisor.spawn_critical("well", std::future::pending());
    let _task = supervisor.spawn_critical("dispatcher", async { panic!("no {}", "luck") });
    let ended = supervisor.ended().await;
    assert_eq!(ended.to_string(), "dispatcher ended unexpectedly: it panicked: no luck");
    assert_eq!(supervisor.problems(), [ended.to_string()]);
}

#[tokio::test]
async fn a_thread_that_panics_ends_the_process() {
    let supervisor = Supervisor::new();
    let well = supervisor.spawn_thread("reader", || {}).unwrap();
    well.join().unwrap();
    assert_eq!(supervisor.problems(), Vec::<String>::new());
    let thread = supervisor.spawn_thread("store", || panic!("a torn page")).unwrap();
    let ended = supervisor.ended().await;
    assert_eq!(ended.to_string(), "store ended unexpectedly: it panicked: a torn page");
    thread.join().unwrap();
}

#[tokio::test]
async fn a_dropped_task_is_not_reported_as_a_problem() {
    let supervisor = Supervisor::new();
    let (sender, mut receiver) = tokio::sync::mpsc::channel::<()>(1);
    let task = supervisor.spawn_critical("events", async move { sender.closed().await });
    drop(task);
    assert_eq!(receiver.recv().await, None, "it ends");
    let task = supervisor.spawn_critical("pods", std::future::ready(()));
    task.finished().await;
    supervisor.stop();
    let _task = supervisor.spawn("nodes", || std::future::ready(()));
    tokio::task::yield_now().await;
    assert_eq!(supervisor.problems(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn work_is_repeated_until_it_completes() {
    let supervisor = Supervisor::new();
    let starts = AtomicU32::new(0);
    let work = || async {
        let start = starts.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(start >= 2, "start {start} is unlucky");
    };
    let logged = async {
        until(|| !supervisor.problems().is_empty()).await;
        supervisor.problems()
    };
    let ((), logged) = tokio::join!(supervisor.complete("deletion", work), logged);
    assert_eq!(logged, ["deletion ended unexpectedly: it panicked: start 0 is unlucky"]);
    assert_eq!(starts.load(Ordering::Relaxed), 3);
    assert_eq!(supervisor.problems(), Vec::<String>::new(), "it is done");
}

#[tokio::test(start_paused = true)]
async fn cancelled_work_is_not_reported_as_a_problem() {
    let supervisor = Supervisor::new();
    let forever = supervisor.complete("deletion", || async { panic!("no luck") });
    assert!(tokio::time::timeout(Duration::from_secs(5), forever).await.is_err());
    assert_eq!(supervisor.problems(), Vec::<String>::new());
}
