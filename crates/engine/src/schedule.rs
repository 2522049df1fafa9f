//! Which node runs a pod?
//!
//! One task sees every change of pods and nodes. Pods without a node are looked at together: those that fit somewhere,
//! by the rules that decisions about nodes use, are bound to the node that suits them best; the others are told why
//! not, and are looked at again when something changed that could let them in.

mod prefer;
mod seen;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt as _;
use process::Supervised;
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::core::Core;
use crate::rest::internal::{PodRef, set_condition};
use crate::store::{Change, Object};
use seen::{Seen, Waiting};

/// How many pods are bound at the same time.
const AT_ONCE: usize = 256;

/// What is to be done with a pod that had no node.
struct Verdict {
    pod: Waiting,
    /// Its node, or why there is none.
    place: Result<Box<str>, String>,
}

/// Starts scheduling. It ends when the engine stops.
pub(crate) fn start(core: &Arc<Core>) -> Supervised {
    let of_task = Arc::clone(core);
    core.supervisor.spawn("scheduler", move || {
        // The feed is opened before the present is looked at, so that nothing falls between the two.
        let feed = of_task.store.feed();
        run(Arc::clone(&of_task), feed)
    })
}

async fn run(core: Arc<Core>, mut feed: UnboundedReceiver<Arc<Change>>) {
    let mut stopping = core.stopping();
    let mut seen = Seen::default();
    for collection in ["namespaces", "nodes", "pods"] {
        core.store.each_of(collection, |key, object| {
            note(&mut seen, &core, collection, key, Some(object))
        });
    }
    loop {
        let verdicts = seen.decide();
        let acting = futures::stream::iter(verdicts).map(|verdict| carry_out(&core, verdict));
        acting.buffer_unordered(AT_ONCE).for_each(|()| std::future::ready(())).await;
        let change = tokio::select! {
            change = feed.recv() => change,
            _ = stopping.changed() => return,
        };
        let Some(change) = change else { return };
        see(&mut seen, &core, &change);
        // Whatever else has happened meanwhile is looked at together.
        while let Ok(change) = feed.try_recv() {
            see(&mut seen, &core, &change);
        }
    }
}

fn see(seen: &mut Seen, core: &Core, change: &Change) {
    let object = (!change.deleted).then_some(&change.object);
    note(seen, core, &change.collection, &change.key, object);
}

fn note(seen: &mut Seen, core: &Core, collection: &str, key: &Arc<str>, object: Option<&Object>) {
    match collection {
        "pods" => seen.pod(core, key, object),
        "nodes" => seen.node(core, key, object),
        "namespaces" => seen.namespace(key, object),
        "persistentvolumeclaims" | "persistentvolumes" | "storageclasses.storage.k8s.io" => {
            seen.storage_changed(core);
        }
        _ => {}
    }
}

async fn carry_out(core: &Arc<Core>, verdict: Verdict) {
    let pod = PodRef::new(core, &verdict.pod.key, &verdict.pod.uid);
    match verdict.place {
        Ok(node) => pod.bind(&node).await,
        Err(why) => refuse(&pod, &why).await,
    }
}

/// Says in the pod's status, and in an event, why it has no node. Nothing is written that is there already.
async fn refuse(pod: &PodRef, why: &str) {
    let now = pod.now();
    let is_news = AtomicBool::new(false);
    pod.change(&["spec", "status"], |pod| {
        let conditions = pod["status"]["conditions"].as_array();
        let before = conditions.into_iter().flatten().find(|c| c["type"] == "PodScheduled");
        let is_known =
            before.is_some_and(|c| c["reason"] == "Unschedulable" && c["message"] == why);
        let has_node = pod["spec"]["nodeName"].as_str().is_some_and(|n| !n.is_empty());
        if is_known || has_node {
            return;
        }
        is_news.store(true, Ordering::Relaxed);
        let since =
            before.filter(|c| c["status"] == "False").map(|c| c["lastTransitionTime"].clone());
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why,
            "lastProbeTime": null, "lastTransitionTime": since.unwrap_or_else(|| now.clone()),
        });
        set_condition(pod, condition);
    })
    .await;
    if is_news.into_inner() {
        pod.event("default-scheduler", "Warning", "FailedScheduling", why).await;
    }
}
