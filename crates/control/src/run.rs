//! Which controllers run, and when? All that were asked for, while this process is the active one.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use cluster::{CachedKind, Caches, DecisionRecorder, EventRecorder, Subscription};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use kube::Client;

use crate::context::Context;
use crate::settings::Settings;
use crate::{
    autoscale_policy, fleet, fleet_autoscaler, gameserver, gameserverset, nodes, scaling_policy,
    workload,
};

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
    /// Scaling policies.
    ScalingPolicy,
    /// Policies of services.
    AutoScalePolicy,
    /// Node autoscalers.
    Nodes,
    /// Deployments, ReplicaSets, Jobs and DaemonSets. Only for the embedded engine: a cluster has its own controller manager.
    Workload,
}

impl Part {
    /// Every controller of Plimsoll's own kinds.
    pub const ALL: [Self; 7] = [
        Self::GameServer,
        Self::GameServerSet,
        Self::Fleet,
        Self::FleetAutoscaler,
        Self::ScalingPolicy,
        Self::AutoScalePolicy,
        Self::Nodes,
    ];

    /// Every controller, for the embedded engine.
    pub const EMBEDDED: [Self; 8] = [
        Self::GameServer,
        Self::GameServerSet,
        Self::Fleet,
        Self::FleetAutoscaler,
        Self::ScalingPolicy,
        Self::AutoScalePolicy,
        Self::Nodes,
        Self::Workload,
    ];

    /// Returns the name of the kind that it controls.
    fn name(self) -> &'static str {
        match self {
            Self::GameServer => "GameServer",
            Self::GameServerSet => "GameServerSet",
            Self::Fleet => "Fleet",
            Self::FleetAutoscaler => "FleetAutoscaler",
            Self::Workload => "Workload",
            Self::ScalingPolicy => "ScalingPolicy",
            Self::AutoScalePolicy => "AutoScalePolicy",
            Self::Nodes => "NodeAutoscaler",
        }
    }

    /// Enqueues objects when something changes, until the subscriptions are dropped.
    fn watch(self, cx: &Arc<Context>) -> Vec<Subscription> {
        match self {
            Self::GameServer => gameserver::watch(cx),
            Self::GameServerSet => gameserverset::watch(cx),
            Self::Fleet => fleet::watch(cx),
            // They subscribe when they run.
            Self::FleetAutoscaler
            | Self::ScalingPolicy
            | Self::AutoScalePolicy
            | Self::Nodes
            | Self::Workload => Vec::new(),
        }
    }

    fn run(self, cx: Arc<Context>) -> BoxFuture<'static, ()> {
        match self {
            Self::GameServer => gameserver::run(cx).boxed(),
            Self::GameServerSet => gameserverset::run(cx).boxed(),
            Self::Fleet => fleet::run(cx).boxed(),
            Self::FleetAutoscaler => fleet_autoscaler::run(cx).boxed(),
            Self::Workload => workload::run(cx).boxed(),
            Self::ScalingPolicy => scaling_policy::run(cx).boxed(),
            Self::AutoScalePolicy => autoscale_policy::run(cx).boxed(),
            Self::Nodes => nodes::run(cx).boxed(),
        }
    }
}

/// Returns the kinds that controllers need in the caches.
pub fn required_kinds(parts: &[Part]) -> BTreeSet<CachedKind> {
    let mut kinds = shared_kinds(parts);
    if parts.contains(&Part::ScalingPolicy) {
        kinds.extend(scaling_policy::KINDS);
    }
    if parts.contains(&Part::AutoScalePolicy) {
        kinds.extend(autoscale_policy::KINDS);
    }
    if parts.contains(&Part::Nodes) {
        kinds.insert(CachedKind::NodeScaling);
    }
    kinds
}

/// Returns the kinds that have to be synced before any controller starts. Policies and node autoscalers wait for their own: game servers do
/// not need them.
fn shared_kinds(parts: &[Part]) -> BTreeSet<CachedKind> {
    use CachedKind::{Fleet, FleetAutoscaler, GameServer, GameServerSet, Node, Pod};
    let shared = [Fleet, GameServerSet, GameServer, Pod, Node].into_iter();
    // The controllers of nodes and workloads have others.
    let has_own = |part: &Part| matches!(part, Part::Nodes | Part::Workload);
    let shared = shared.filter(|_| !parts.iter().all(has_own));
    let own = parts.contains(&Part::FleetAutoscaler).then_some(FleetAutoscaler);
    let nodes = parts.contains(&Part::Workload).then_some(Node);
    shared.chain(own).chain(nodes).collect()
}

/// Runs controllers until `stop` is ready, on caches that follow the kinds they require. With a lease they run while it is ours, and what is
/// in progress ends at once when it is lost; dropping the future does the same.
pub async fn run(
    client: Client,
    caches: Arc<Caches>,
    settings: Settings,
    parts: &[Part],
    stop: impl Future<Output = ()>,
) {
    settings.gates.warn();
    let lead = || lead(client.clone(), Arc::clone(&caches), settings.clone(), parts);
    let work = async {
        match &settings.lease {
            None => lead().await,
            Some(terms) => {
                cluster::run_while_leader(&client, terms, &settings.clock, lead).await;
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

/// Runs the controllers for one leadership term, on top of the caches. They may be a moment behind the API server, as they always are: every
/// write names the version that it was decided on.
async fn lead(client: Client, caches: Arc<Caches>, settings: Settings, parts: &[Part]) {
    caches.synced(&shared_kinds(parts)).await;
    let (events, mut sending) = EventRecorder::new(client.clone(), settings.clock.clone());
    let (clock, journal) = (settings.clock.clone(), settings.decisions.clone());
    let (decisions, recording) = DecisionRecorder::new(client.clone(), clock, journal);
    // It is restarted independently: decisions are made whether they are recorded or not.
    let _recording = settings.supervisor.spawn("decision recorder", recording);
    let scales_fleets = [Part::GameServerSet, Part::Nodes].iter().all(|part| parts.contains(part));
    let (cx, mut subscriptions) =
        Context::new(client, caches, settings, events, decisions, scales_fleets);
    subscriptions.extend(parts.iter().flat_map(|part| part.watch(&cx)));
    let names: Vec<&str> = parts.iter().map(|part| part.name()).collect();
    tracing::info!(controllers = %names.join(", "), "controllers are active");
    let controllers = parts.iter().map(|part| (part.name(), part.run(Arc::clone(&cx))));
    let statuses = Arc::clone(&cx.sources).write_statuses().boxed();
    let events = [("events", spawned(sending()).boxed()), ("statuses of sources", statuses)];
    let (task, cause) = first_ended(controllers.chain(events)).await;
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
        let panics = async { panic!("boom") };
        let tasks = [
            ("watches", spawned(panics).boxed()),
            ("events", spawned(std::future::pending()).boxed()),
        ];
        assert_eq!(first_ended(tasks).await, ("watches", "it panicked: boom".to_owned()));
    }
}
