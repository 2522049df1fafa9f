//! Game servers: ports, a pod, an address, and what becomes of them when the pod does not do well.

mod act;
mod address;
mod observe;
mod pod;
mod waiting;

pub(crate) use waiting::Waiting;

use std::sync::Arc;

use cluster::{CachedNode, Error, Key, RequeueAt, Subscription, enqueue_into};
use decide::gameserver::Need;

use crate::context::Context;

/// Has a game server looked at when it, its pod or its node changes.
pub(crate) fn watch(cx: &Arc<Context>) -> Vec<Subscription> {
    let add = enqueue_into(&cx.queues.servers);
    let weak = Arc::downgrade(cx);
    let servers = cx.caches.servers.subscribe(move |old, new| match (old, new) {
        (_, Some(server)) => add(Key::from_meta(&server.object.metadata)),
        (Some(gone), None) => {
            let key = Key::from_meta(&gone.object.metadata);
            weak.upgrade().into_iter().for_each(|cx| cx.waiting.forget(&key));
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
        // Nodes report every few seconds that they are there, and mostly nothing else.
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

/// Works on game servers for as long as it is polled.
pub(crate) async fn run(cx: Arc<Context>) {
    let limit = cx.settings.concurrency;
    cx.queues.servers.run(limit, |key| turn(key, Arc::clone(&cx))).await;
}

/// Looks at one game server and does the one thing that it needs.
async fn turn(key: Key, cx: Arc<Context>) -> Result<RequeueAt, Error> {
    let Some(seen) = observe::server(&key, &cx.caches) else { return Ok(None) };
    let again = waiting::tell(&seen, &cx);
    match decide::gameserver::next(&seen.seen) {
        Need::Nothing => Ok(again),
        Need::Begin => act::begin(&seen, &cx).await,
        Need::OtherPorts => act::other_ports(&seen, &cx).await,
        Need::Leave => act::leave(&seen, &cx).await,
        Need::CreatePod => act::create_pod(&seen, &cx).await,
        Need::DeletePod => act::delete_pod(&seen, &cx).await,
        Need::Delete => act::delete(&seen, &cx).await,
        Need::LetGo => act::let_go(&seen, &cx).await,
        Need::Address => act::write(&seen, None, &cx).await,
        Need::Move { to, because } => act::write(&seen, Some((to, because)), &cx).await,
    }
}
