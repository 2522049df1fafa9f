//! What becomes of a write when who asked for it leaves?
//!
//! It is finished all the same, since nobody could tell how far it came. As long as the caller stays, the write is part of
//! the caller's own task; only when it leaves, the rest becomes a task of its own.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Work that is finished even if it is dropped; unless the runtime stops, too.
pub(super) struct Underway(Option<Work>);

impl Underway {
    pub(super) fn new(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Some(Box::pin(work)))
    }
}

impl Future for Underway {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Out of its place while it works, so that work that panicked is not taken up again.
        let Some(mut work) = self.0.take() else { return Poll::Ready(()) };
        let polled = work.as_mut().poll(context);
        if polled.is_pending() {
            self.0 = Some(work);
        }
        polled
    }
}

impl Drop for Underway {
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
    async fn work_goes_on_without_who_asked_for_it() {
        let (go, wait) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let mut underway = Underway::new(async move {
            let _ = wait.await;
            let _ = done.send(());
        });
        assert!((&mut underway).now_or_never().is_none());
        drop(underway);
        go.send(()).unwrap();
        is_done.await.unwrap();
    }

    #[tokio::test]
    async fn work_that_panicked_is_not_taken_up_again() {
        let mut underway = Underway::new(async { panic!("on purpose") });
        let polled = std::panic::AssertUnwindSafe(&mut underway).catch_unwind().await;
        assert!(polled.is_err());
        assert!(underway.0.is_none());
    }
}
