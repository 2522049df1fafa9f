//! Runs writes concurrently, up to a limit.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use cluster::Error;
use futures::StreamExt as _;

/// Runs `act` for each item, at most `limit` at a time. After a failure no more are started, and those in flight are awaited. Returns the
/// first failure.
pub(crate) async fn each<T, F, Fut>(
    all: impl IntoIterator<Item = T>,
    limit: usize,
    act: F,
) -> Result<(), Error>
where
    F: Fn(T) -> Fut,
    Fut: Future<Output = Result<(), Error>>,
{
    let failed: Mutex<Option<Error>> = Mutex::new(None);
    let has_failed = || failed.lock().unwrap_or_else(PoisonError::into_inner).is_some();
    futures::stream::iter(all)
        .take_while(|_| std::future::ready(!has_failed()))
        .map(act)
        .buffer_unordered(limit)
        .for_each(|outcome| {
            if let Err(error) = outcome {
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
            std::future::ready(())
        })
        .await;
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}
