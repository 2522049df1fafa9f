//! How do the books hear of changes?

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt as _};
use tokio::sync::watch;

use super::Shared;
use super::server::Server;

/// How long to wait before a watch that failed is tried again: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Follows game servers for as long as the allocator lives. The first complete list is told to `complete`.
pub(super) async fn servers(shared: Arc<Shared>, complete: watch::Sender<bool>) {
    let api: Api<Server> = match &shared.settings.namespace {
        Some(namespace) => Api::namespaced(shared.client.clone(), namespace),
        None => Api::all(shared.client.clone()),
    };
    let mut events = std::pin::pin!(watcher::watcher(api, watcher::Config::default()));
    let mut pause = PAUSE.0;
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(err) => {
                tracing::warn!(
                    error = &err as &dyn std::error::Error,
                    "the watch of game servers broke; will retry"
                );
                tokio::time::sleep(pause).await;
                pause = PAUSE.1.min(pause * 2);
                continue;
            }
        };
        pause = PAUSE.0;
        let mut books = shared.books();
        match event {
            Event::Init => books.start_list(),
            Event::InitApply(server) => books.see_listed(server),
            Event::InitDone => {
                books.end_list();
                complete.send_replace(true);
            }
            Event::Apply(server) => books.see(server),
            Event::Delete(server) => books.see_gone(server),
        }
    }
}

/// Follows nodes, only to hear which are gone. Who may not see nodes has their servers tried in the order of their last load.
pub(super) async fn nodes(shared: Arc<Shared>) {
    let api: Api<PartialObjectMeta<Node>> = Api::all(shared.client.clone());
    let mut events = std::pin::pin!(watcher::watcher(api, watcher::Config::default()));
    let mut pause = PAUSE.0;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Delete(node)) => shared.books().see_node_gone(&node.name_any()),
            Ok(Event::Init | Event::InitApply(_) | Event::InitDone | Event::Apply(_)) => {
                pause = PAUSE.0;
            }
            Err(err) => {
                tracing::debug!(
                    error = &err as &dyn std::error::Error,
                    "the watch of nodes broke; will retry"
                );
                tokio::time::sleep(pause).await;
                pause = PAUSE.1.min(pause * 2);
            }
        }
    }
}
