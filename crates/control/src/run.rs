//! Which controllers run, and when? All that were asked for, while this process is the active one.

use std::future::Future;
use std::sync::Arc;

use cluster::EventRecorder;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use kube::Client;

use crate::context::Context;
use crate::settings::Settings;
use crate::{fleet, fleet_autoscaler, gameserver, gameserverset};

/// A controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Game servers.
    GameServer,
    /// Sets of game servers.
    GameServerSet,
    /// Fleets.
    Fleet,
    /// Fleet autoscalers.
    FleetAutoscaler,
}

impl Part {
    /// Every controller.
    pub const ALL: [Self; 4] =
        [Self::GameServer, Self::GameServerSet, Self::Fleet, Self::FleetAutoscaler];

    /// Returns the name of the kind that it controls.
    fn name(self) -> &'static str {
        match self {
            Self::GameServer => "GameServer",
            Self::GameServerSet => "GameServerSet",
            Self::Fleet => "Fleet",
            Self::FleetAutoscaler => "FleetAutoscaler",
        }
    }

    fn watch(self, cx: &Arc<Context>) {
        match self {
            Self::GameServer => gameserver::watch(cx),
            Self::GameServerSet => gameserverset::watch(cx),
            Self::Fleet => fleet::watch(cx),
            // It watches its own kind too, and begins with everything it finds there.
            Self::FleetAutoscaler => {}
        }
    }

    fn run(self, cx: Arc<Context>) -> BoxFuture<'static, ()> {
        match self {
            Self::GameServer => gameserver::run(cx).boxed(),
            Self::GameServerSet => gameserverset::run(cx).boxed(),
            Self::Fleet => fleet::run(cx).boxed(),
            Self::FleetAutoscaler => fleet_autoscaler::run(cx).boxed(),
        }
    }
}

/// Runs controllers until `stop` is ready. With a lease they run while it is ours, and what is under way ends at once when it is lost;
/// dropping the future does the same.
pub async fn run(
    client: Client,
    settings: Settings,
    parts: &[Part],
    stop: impl Future<Output = ()>,
) {
    settings.gates.warn();
    let work = async {
        match settings.lease.clone() {
            None => lead(client.clone(), settings.clone(), parts).await,
            Some(terms) => {
                let lead = || lead(client.clone(), settings.clone(), parts);
                cluster::run_while_leader(&client, &terms, &settings.clock, lead).await;
            }
        }
    };
    tokio::select! {
        () = work => {}
        () = stop => {}
    }
    if let Some(terms) = &settings.lease {
        cluster::release_lease(&client, terms, &settings.clock).await;
    }
}

/// Does the work, from a fresh look at everything.
async fn lead(client: Client, settings: Settings, parts: &[Part]) {
    let (events, mut sending) = EventRecorder::new(client.clone(), settings.clock.clone());
    let cx = Context::new(client, settings, events);
    parts.iter().for_each(|part| part.watch(&cx));
    let following = {
        let cx = Arc::clone(&cx);
        async move {
            cx.stores.run(&cx.client, cx.settings.namespace.as_deref(), &cx.settings.random).await
        }
    };
    let working = async {
        cx.stores.synced().await;
        cx.seed_ports();
        let names: Vec<&str> = parts.iter().map(|part| part.name()).collect();
        tracing::info!(controllers = %names.join(", "), "controllers are active");
        first_ended(parts.iter().map(|part| (part.name(), part.run(Arc::clone(&cx))))).await
    };
    let beside = [("watches", spawned(following).boxed()), ("events", spawned(sending()).boxed())];
    let (task, cause) = tokio::select! {
        ended = first_ended(beside) => ended,
        ended = working => ended,
    };
    tracing::error!(task, cause, "a part of the controllers ended unexpectedly; all of them stop");
}

/// Runs tasks of which none should end until one does; returns its name, and why it ended.
async fn first_ended(
    tasks: impl IntoIterator<Item = (&'static str, BoxFuture<'static, ()>)>,
) -> (&'static str, String) {
    let tasks = tasks.into_iter().map(|(name, task)| async move {
        let ended = process::catch_panic(task).await;
        (name, ended.err().unwrap_or_else(|| "it returned".to_owned()))
    });
    let mut tasks: FuturesUnordered<_> = tasks.collect();
    match tasks.next().await {
        Some(ended) => ended,
        None => std::future::pending().await,
    }
}

/// Runs a future as a task of its own that ends with this one. Its panic is a panic here.
async fn spawned(work: impl Future<Output = ()> + Send + 'static) {
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(work);
    if let Some(Err(ended)) = tasks.join_next().await
        && let Ok(panic) = ended.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_that_returns_ends_all() {
        let tasks = [("Fleet", std::future::pending().boxed()), ("GameServer", async {}.boxed())];
        assert_eq!(first_ended(tasks).await, ("GameServer", "it returned".to_owned()));
    }

    #[tokio::test]
    async fn one_that_panics_ends_all_and_its_cause_is_known() {
        let panics = async { panic!("no luck") };
        let tasks = [
            ("watches", spawned(panics).boxed()),
            ("events", spawned(std::future::pending()).boxed()),
        ];
        assert_eq!(first_ended(tasks).await, ("watches", "it panicked: no luck".to_owned()));
    }
}
