//! The controller of game servers: their ports, pods and addresses, and their states when a pod fails.

mod act;
mod address;
mod observe;
mod pod;
mod unschedulable;

pub(crate) use unschedulable::ReportedUnschedulable;

use std::sync::Arc;

use cluster::{CachedNode, Error, Key, RequeueAt, Subscription, enqueue_into};
use decide::gameserver::Need;

use crate::context::Context;

/// Enqueues a game server when it, its pod or its node changes.
pub(crate) fn watch(cx: &Arc<Context>) -> Vec<Subscription> {
    let add = enqueue_into(&cx.queues.servers);
    let weak = Arc::downgrade(cx);
    let servers = cx.caches.servers.subscribe(move |old, new| match (old, new) {
        (_, Some(server)) => add(Key::from_meta(&server.object.metadata)),
        (Some(gone), None) => {
            let key = Key::from_meta(&gone.object.metadata);
            weak.upgrade().into_iter().for_each(|cx| cx.unschedulable.forget(&key));
        }
        (None, None) => {}
    });
    let add = enqueue_into(&cx.queues.servers);
    // A pod has the name of its game server.
    let pods = cx.caches.pods.subscribe(move |old, new| {
        if let Some(pod) = new.or(old) {
            add(Key::from_meta(&pod.metadata));
        }
    });
    let (add, weak) = (enqueue_into(&cx.queues.servers), Arc::downgrade(cx));
    let nodes = cx.caches.nodes.subscribe(move |old, new| {
        let is_same = |(old, new): (&Arc<CachedNode>, &Arc<CachedNode>)| {
            old.status.addresses == new.status.addresses
                && old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        };
        // Nodes renew their status every few seconds, mostly without a change that matters.
        if old.zip(new).is_some_and(is_same) {
            return;
        }
        if let (Some(node), Some(cx)) = (new.or(old), weak.upgrade()) {
            let name = node.metadata.name.as_deref().unwrap_or_default();
            cx.nodes.pods_on(name).into_iter().for_each(&add);
        }
    });
    vec![servers, pods, nodes]
}

/// Reconciles game servers for as long as it is polled.
pub(crate) async fn run(cx: Arc<Context>) {
    let limit = cx.settings.concurrency;
    cx.queues.servers.run(limit, |key| reconcile(key, Arc::clone(&cx))).await;
}

/// Observes one game server and does the one thing that it needs next.
async fn reconcile(key: Key, cx: Arc<Context>) -> Result<RequeueAt, Error> {
    let Some(observed) = observe::server(&key, &cx.caches) else { return Ok(None) };
    let requeue_at = unschedulable::report(&observed, &cx);
    match decide::gameserver::next(&observed.observation) {
        Need::Nothing => Ok(requeue_at),
        Need::ApplyDefaults => act::apply_defaults(&observed, &cx).await,
        Need::ReassignPorts => act::reassign_ports(&observed, &cx).await,
        Need::MarkLeaving => act::mark_leaving(&observed, &cx).await,
        Need::CreatePod => act::create_pod(&observed, &cx).await,
        Need::DeletePod => act::delete_pod(&observed, &cx).await,
        Need::Delete => act::delete(&observed, &cx).await,
        Need::RemoveFinalizer => act::remove_finalizer(&observed, &cx).await,
        Need::SetAddress => act::write_state(&observed, None, &cx).await,
        Need::Transition { to, because } => {
            act::write_state(&observed, Some((to, because)), &cx).await
        }
    }
}
