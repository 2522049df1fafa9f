//! Automatic shutdown: some time after an allocation, possibly after several rounds.

use std::time::Duration;

use agones::Sdk;

use crate::commands::why;

/// The annotation that distinguishes one allocation from the next.
const ALLOCATED_AT: &str = "agones.dev/last-allocated";

/// Shuts down `span` after an allocation; the first `rounds` times it goes back to Ready instead.
pub(crate) async fn shut_down_after(mut sdk: Sdk, span: Duration, mut rounds: u64) {
    let mut handled = None;
    loop {
        let mut changes = match sdk.watch_gameserver().await {
            Ok(changes) => changes,
            Err(err) => {
                eprintln!("could not watch the game server: {}", why(err));
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        while let Ok(Some(server)) = changes.message().await {
            let is_allocated = server.status.is_some_and(|status| status.state == "Allocated");
            let at =
                server.object_meta.and_then(|meta| meta.annotations.get(ALLOCATED_AT).cloned());
            if !is_allocated || (handled.is_some() && handled == Some(at.clone())) {
                continue;
            }
            handled = Some(at);
            tokio::time::sleep(span).await;
            let done = if rounds > 0 { sdk.ready().await } else { sdk.shutdown().await };
            if let Err(err) = done {
                eprintln!("could not end the round: {}", why(err));
            }
            match rounds.checked_sub(1) {
                Some(left) => rounds = left,
                None => return,
            }
        }
    }
}
