//! The limit on concurrent allocations, fair between namespaces.
//!
//! A bounded number of allocations is in progress at a time. The others wait in a queue for each namespace, and the queues are served round
//! robin, so that a burst in one namespace delays no caller of another. A full queue rejects new requests at once, so that their callers can try
//! elsewhere.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// How many allocations may be in progress, and how many may wait.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Allocations in progress.
    pub writes: usize,
    /// Waiting callers of one namespace.
    pub waiting_per_namespace: usize,
    /// Waiting callers of all namespaces.
    pub waiting: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { writes: 128, waiting_per_namespace: 1024, waiting: 8192 }
    }
}

/// Issues a bounded number of permits, round robin between namespaces.
pub(super) struct ConcurrencyLimit {
    inner: Arc<Mutex<Inner>>,
    bounds: Bounds,
}

struct Inner {
    free: usize,
    waiting: usize,
    queues: HashMap<Arc<str>, VecDeque<oneshot::Sender<Permit>>>,
    /// The namespaces with a queue, the next one first.
    round_robin: VecDeque<Arc<str>>,
}

/// The queue is full.
#[derive(Debug)]
pub(super) struct QueueFull;

/// Permits one allocation to be in progress, until it is dropped.
pub(super) struct Permit(Option<Arc<Mutex<Inner>>>);

impl ConcurrencyLimit {
    pub(super) fn new(bounds: Bounds) -> Self {
        let inner = Inner {
            free: bounds.writes.max(1),
            waiting: 0,
            queues: HashMap::new(),
            round_robin: VecDeque::new(),
        };
        Self { inner: Arc::new(Mutex::new(inner)), bounds }
    }

    /// Waits for a permit. A caller that stops waiting leaves the queue.
    pub(super) async fn acquire(&self, namespace: &Arc<str>) -> Result<Permit, QueueFull> {
        let receiver = {
            let mut inner = lock(&self.inner);
            if inner.free > 0 {
                inner.free -= 1;
                return Ok(Permit(Some(Arc::clone(&self.inner))));
            }
            inner.queue(namespace, self.bounds)?
        };
        // The sender is dropped only together with the limit.
        receiver.await.map_err(|_| QueueFull)
    }
}

impl Inner {
    fn queue(
        &mut self,
        namespace: &Arc<str>,
        bounds: Bounds,
    ) -> Result<oneshot::Receiver<Permit>, QueueFull> {
        // Callers that waited longest usually give up first; any others are skipped in `next`.
        while let Some(queue) = self.queues.get_mut(namespace)
            && queue.front().is_some_and(oneshot::Sender::is_closed)
        {
            queue.pop_front();
            self.waiting -= 1;
        }
        if self.is_full(namespace, bounds) {
            return Err(QueueFull);
        }
        let (sender, receiver) = oneshot::channel();
        let queue = self.queues.entry(Arc::clone(namespace)).or_default();
        queue.push_back(sender);
        self.waiting += 1;
        if queue.len() == 1 && !self.round_robin.contains(namespace) {
            self.round_robin.push_back(Arc::clone(namespace));
        }
        Ok(receiver)
    }

    fn is_full(&self, namespace: &Arc<str>, bounds: Bounds) -> bool {
        let in_namespace = self.queues.get(namespace).map_or(0, VecDeque::len);
        in_namespace >= bounds.waiting_per_namespace || self.waiting >= bounds.waiting
    }

    /// Removes the caller that is next: the first of the next namespace.
    fn next(&mut self) -> Option<oneshot::Sender<Permit>> {
        while let Some(namespace) = self.round_robin.pop_front() {
            let Some(queue) = self.queues.get_mut(&namespace) else { continue };
            let next = queue.pop_front();
            self.waiting -= usize::from(next.is_some());
            if queue.is_empty() {
                self.queues.remove(&namespace);
            } else {
                self.round_robin.push_back(namespace);
            }
            if let Some(next) = next.filter(|sender| !sender.is_closed()) {
                return Some(next);
            }
        }
        None
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(limit) = self.0.take() else { return };
        loop {
            let next = {
                let mut inner = lock(&limit);
                let next = inner.next();
                inner.free += usize::from(next.is_none());
                next
            };
            let Some(next) = next else { return };
            match next.send(Permit(Some(Arc::clone(&limit)))) {
                Ok(()) => return,
                // That caller has just given up: pass the permit to the next one here, not by dropping the returned permit.
                Err(mut unused) => unused.0 = None,
            }
        }
    }
}

fn lock(inner: &Mutex<Inner>) -> std::sync::MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn limit(writes: usize, waiting_per_namespace: usize, waiting: usize) -> ConcurrencyLimit {
        ConcurrencyLimit::new(Bounds { writes, waiting_per_namespace, waiting })
    }

    #[tokio::test]
    async fn namespaces_are_served_round_robin() {
        let limit = limit(1, 100, 100);
        let (noisy, quiet): (Arc<str>, Arc<str>) = ("noisy".into(), "quiet".into());
        let mut holds = limit.acquire(&noisy).await.unwrap();
        let mut waiting: Vec<_> = (0..10)
            .map(|_| ("noisy", Box::pin(limit.acquire(&noisy))))
            .chain([("quiet", Box::pin(limit.acquire(&quiet)))])
            .collect();
        for (_, waiter) in &mut waiting {
            assert!(waiter.now_or_never_mut().is_none(), "only one may be in progress");
        }
        let mut order = Vec::new();
        while !waiting.is_empty() {
            drop(holds);
            let (at, permit) = waiting
                .iter_mut()
                .enumerate()
                .find_map(|(at, (_, waiter))| Some((at, waiter.now_or_never_mut()?)))
                .expect("the permit goes to a waiting caller");
            order.push(waiting.remove(at).0);
            holds = permit.unwrap();
        }
        assert_eq!(
            order[..3],
            ["noisy", "quiet", "noisy"],
            "one namespace does not delay the other"
        );
    }

    #[tokio::test]
    async fn a_full_queue_rejects_new_callers_until_waiting_ones_leave() {
        let limit = limit(1, 2, 3);
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let holds = limit.acquire(&a).await.unwrap();
        let mut first = Box::pin(limit.acquire(&a));
        let mut second = Box::pin(limit.acquire(&a));
        assert!(first.now_or_never_mut().is_none() && second.now_or_never_mut().is_none());
        assert!(limit.acquire(&a).await.is_err(), "two of one namespace wait already");
        let mut third = Box::pin(limit.acquire(&b));
        assert!(third.now_or_never_mut().is_none(), "another namespace has room");
        assert!(limit.acquire(&b).await.is_err(), "three wait in all");
        drop(first);
        let mut fourth = Box::pin(limit.acquire(&a));
        assert!(fourth.now_or_never_mut().is_none(), "a caller that left makes room");
        drop(holds);
        assert!(second.now_or_never_mut().is_some(), "and is skipped");
    }

    #[tokio::test]
    async fn a_permit_is_free_again_after_its_waiting_caller_left() {
        let limit = limit(1, 2, 2);
        let a: Arc<str> = "a".into();
        let holds = limit.acquire(&a).await.unwrap();
        let mut left = Box::pin(limit.acquire(&a));
        assert!(left.now_or_never_mut().is_none());
        drop(left);
        drop(holds);
        assert!(limit.acquire(&a).now_or_never().is_some());
    }

    trait Poll: Future + Unpin + Sized {
        fn now_or_never_mut(&mut self) -> Option<Self::Output> {
            self.now_or_never()
        }
    }

    impl<F: Future + Unpin> Poll for F {}
}
