//! Sends a health ping every two seconds until it is stopped.

use std::time::Duration;

use agones::Sdk;
use tokio::task::AbortHandle;

const PERIOD: Duration = Duration::from_secs(2);

/// Starts the pings. Aborting the returned handle stops them.
pub(crate) fn start(sdk: &Sdk) -> AbortHandle {
    let sdk = sdk.clone();
    let task = tokio::spawn(async move {
        let mut pings = sdk.health_check();
        let mut ticks = tokio::time::interval(PERIOD);
        loop {
            ticks.tick().await;
            // The stream ended with the SDK server that it went to; the next one gets a new one.
            if pings.send(()).await.is_err() {
                pings = sdk.health_check();
            }
        }
    });
    task.abort_handle()
}
