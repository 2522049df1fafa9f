//! How do the books hear of changes?

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use control::Lenient;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::Shared;
use super::server::{Server, Shown};

/// How long to wait before a watch that failed is tried again: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Follows game servers for as long as the allocator lives. The first complete list is told to `complete`.
pub(super) async fn servers(shared: Arc<Shared>, complete: watch::Sender<bool>) {
    let resource = ApiResource::erase::<Server>(&());
    let (client, settings) = (shared.client.clone(), &shared.settings);
    if settings.replaces {
        let api: Api<Lenient<DynamicObject>> = match &settings.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        follow(&shared, api, complete).await;
    } else {
        let api: Api<Shown> = match &settings.namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        };
        follow(&shared, api, complete).await;
    }
}

async fn follow<K>(shared: &Shared, api: Api<K>, complete: watch::Sender<bool>)
where
    K: Resource + DeserializeOwned + Clone + Debug + Send + Into<Server> + 'static,
{
    let mut events = std::pin::pin!(watcher::watcher(api, watcher::Config::default()));
    let mut pause = PAUSE.0;
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(err) => {
                tracing::warn!(
                    error = %process::log::chain(&err),
                    "the watch of game servers broke; will retry"
                );
                tokio::time::sleep(pause).await;
                pause = PAUSE.1.min(pause * 2);
                continue;
            }
        };
        pause = PAUSE.0;
        // What has to be read of a server is read before the books are taken.
        match event {
            Event::Init => shared.books().start_list(),
            Event::InitApply(server) => {
                let server = server.into();
                shared.books().see_listed(server);
            }
            Event::InitDone => {
                shared.books().end_list();
                complete.send_replace(true);
            }
            Event::Apply(server) if shared.books().knows(server.meta()) => {}
            Event::Apply(server) => {
                let server: Server = server.into();
                shared.books().see(server);
            }
            Event::Delete(server) => {
                let server = server.into();
                shared.books().see_gone(server);
            }
        }
    }
}

/// Follows nodes, only to hear which are gone. Who may not see nodes has their servers tried in the order of their last load.
pub(super) async fn nodes(shared: Arc<Shared>) {
    let api: Api<Lenient<PartialObjectMeta<Node>>> = Api::all(shared.client.clone());
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
                    error = %process::log::chain(&err),
                    "the watch of nodes broke; will retry"
                );
                tokio::time::sleep(pause).await;
                pause = PAUSE.1.min(pause * 2);
            }
        }
    }
}
