//! The controller of game server sets: creates and deletes game servers, and writes the status.

mod act;
mod retained;
mod status;

pub(crate) use retained::ReportedRetained;
pub(crate) use status::replace;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::agones::{FLEET_LABEL, GameServerSet};
use cluster::{CachedGameServer, Caches, Error, Key, RequeueAt, Subscription, enqueue_into};
use decide::fleet::{Limits, Mode};
use decide::gameserver::GameServer;

use crate::context::Context;

/// Enqueues a set when it or one of its game servers changes.
pub(crate) fn watch(cx: &Arc<Context>) -> Vec<Subscription> {
    let (size, sums) = (enqueue_into(&cx.queues.sets), enqueue_into(&cx.queues.set_statuses));
    let sets = cx.caches.sets.subscribe(move |old, new| {
        let Some(set) = new else {
            old.map(|set| Key::from_meta(&set.metadata)).into_iter().for_each(|key| {
                size(key.clone());
                sums(key);
            });
            return;
        };
        let shape = |set: &Arc<GameServerSet>| {
            (set.metadata.generation, set.metadata.deletion_timestamp.is_some())
        };
        // A change of the status does not change the size.
        if old.map(shape) != Some(shape(set)) {
            size(Key::from_meta(&set.metadata));
            sums(Key::from_meta(&set.metadata));
        }
    });
    let (size, sums) = (enqueue_into(&cx.queues.sets), enqueue_into(&cx.queues.set_statuses));
    let evacuating = AtomicUsize::new(0);
    let servers = cx.caches.servers.subscribe(move |old, new| {
        let Some(set) = new.or(old).and_then(|server| set_of(server)) else { return };
        let view = |server: &Arc<CachedGameServer>| Arc::clone(&server.view);
        let (old, new) = (old.map(view), new.map(view));
        let is_marked =
            |view: &Option<Arc<GameServer>>| view.as_ref().is_some_and(|view| view.is_evacuating);
        match (is_marked(&old), is_marked(&new)) {
            (false, true) => drop(evacuating.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(evacuating.fetch_sub(1, Ordering::Relaxed)),
            (true, true) | (false, false) => {}
        }
        let may_replace = evacuating.load(Ordering::Relaxed) > 0;
        if changes_size(old.as_deref(), new.as_deref(), may_replace) {
            size(set.clone());
        }
        sums(set);
    });
    vec![sets, servers]
}

/// Reconciles sets for as long as it is polled.
pub(crate) async fn run(cx: Arc<Context>) {
    let limit = cx.settings.concurrency;
    let limiter = status::WriteLimiter::default();
    tokio::join!(
        cx.queues.sets.run(limit, |key| reconcile(key, Arc::clone(&cx))),
        cx.queues.set_statuses.run(limit, |key| status::reconcile(
            key,
            Arc::clone(&cx),
            limiter.clone()
        )),
    );
}

/// Creates and deletes game servers until one set has its size.
async fn reconcile(key: Key, cx: Arc<Context>) -> Result<RequeueAt, Error> {
    let Some(set) = cx.caches.sets.get(&key) else {
        cx.retained.forget(&key);
        return Ok(None);
    };
    let uid = set.metadata.uid.as_deref().unwrap_or_default();
    let servers = cx.caches.servers.owned(uid, |server| Arc::clone(&server.view));
    let mode = mode(&set, &cx.caches);
    let (view, now) = (set.view(mode), cx.clock.now());
    let (pass, marked) = {
        let (nodes, limits, overflow) =
            (cx.nodes.occupancy(), Limits::for_mode(mode), set.overflow());
        let pass = decide::fleet::reconcile(&view, &servers, &nodes, limits, now);
        let marked = overflow.map(|(labels, annotations)| {
            decide::fleet::overflow(&view, &labels, &annotations, &servers, &nodes)
        });
        (pass, marked.unwrap_or_default())
    };
    act::mark(&set, &marked, &cx).await?;
    act::shut_down(&set, &pass.delete, &cx).await?;
    retained::report(&set, &pass.retained, &cx);
    act::create(&set, pass.create, &pass.failed_before, &cx).await?;
    Ok(pass.requeue_at(now).map(|at| cx.clock.timer(at)))
}

/// Returns the mode of a set: that of its fleet, or its own where it has none.
fn mode(set: &GameServerSet, caches: &Caches) -> Mode {
    let fleet = set.metadata.labels.as_ref().and_then(|labels| labels.get(FLEET_LABEL));
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let fleet = fleet.and_then(|name| caches.fleets.get(&Key::new(namespace, name.as_str())));
    fleet.map_or_else(|| set.mode(), |fleet| fleet.mode())
}

/// Returns the key of the set that controls a game server.
fn set_of(server: &CachedGameServer) -> Option<Key> {
    let meta = &server.object.metadata;
    let owners = meta.owner_references.iter().flatten();
    let mut owners = owners.filter(|o| o.controller == Some(true) && o.kind == "GameServerSet");
    let name = owners.next()?.name.as_str();
    Some(Key::new(meta.namespace.as_deref().unwrap_or_default(), name))
}

/// Returns whether a change of a game server can change the size of its set. Whether it is Ready only matters where it may replace another.
fn changes_size(old: Option<&GameServer>, new: Option<&GameServer>, may_replace: bool) -> bool {
    let counted = |server: &GameServer| {
        let state = server.state;
        (
            server.is_being_deleted(),
            server.is_deletable(),
            state.is_before_pod_runs(),
            state.is_terminal().then_some(state),
            server.is_evacuating,
            may_replace && state.is_active(),
        )
    };
    old.map(counted) != new.map(counted)
}
