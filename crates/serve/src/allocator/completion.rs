//! Writes that are finished even if their caller is cancelled.
//!
//! A write that is abandoned has an unknown outcome. While the caller waits, the write runs in the caller's task; only when the caller is
//! dropped, the rest is spawned.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A future that is finished even if it is dropped, unless the runtime stops.
pub(super) struct RunToCompletion(Option<Work>);

impl RunToCompletion {
    pub(super) fn new(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Some(Box::pin(work)))
    }
}

impl Future for RunToCompletion {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Taken out while it is polled, so that a future that panicked is not polled again.
        let Some(mut work) = self.0.take() else { return Poll::Ready(()) };
        let polled = work.as_mut().poll(context);
        if polled.is_pending() {
            self.0 = Some(work);
        }
        polled
    }
}

impl Drop for RunToCompletion {
    fn drop(&mut self) {
        if let (Some(rest), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn dropped_work_is_finished() {
        let (go, wait) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let mut work = RunToCompletion::new(async move {
            let _ = wait.await;
            let _ = done.send(());
        });
        assert!((&mut work).now_or_never().is_none());
        drop(work);
        go.send(()).unwrap();
        is_done.await.unwrap();
    }

    #[tokio::test]
    async fn work_that_panicked_is_not_polled_again() {
        let mut work = RunToCompletion::new(async { panic!("on purpose") });
        let polled = std::panic::AssertUnwindSafe(&mut work).catch_unwind().await;
        assert!(polled.is_err());
        assert!(work.0.is_none());
    }
}
