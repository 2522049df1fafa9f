//! How do the books hear of changes?

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use cluster::Lenient;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource, ResourceExt as _};
use serde::Deserialize;
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
                    error = %cluster::explain(&err),
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

/// A node, as far as it matters to who is sent there.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = Node)]
struct Host {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: HostSpec,
    #[serde(default)]
    status: HostStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct HostSpec {
    #[serde(default)]
    taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct HostStatus {
    #[serde(default)]
    conditions: Vec<NodeCondition>,
}

impl Host {
    /// Whether anything says that nobody hears of it, or that it does not work. One that says nothing at all is up.
    fn is_up(&self) -> bool {
        let is_cut_off = |taint: &Taint| {
            matches!(
                taint.key.as_str(),
                "node.kubernetes.io/unreachable" | "node.kubernetes.io/not-ready"
            )
        };
        let is_unready = |c: &NodeCondition| c.type_ == "Ready" && c.status != "True";
        !self.spec.taints.iter().any(is_cut_off) && !self.status.conditions.iter().any(is_unready)
    }
}

/// Whether a node is up; one that cannot be read is taken to be.
fn is_up(node: &Lenient<Host>) -> bool {
    match node {
        Lenient::Object(host) => host.is_up(),
        Lenient::Unreadable { .. } => true,
    }
}

/// Follows nodes, to hear which are not ready or gone. Who may not see nodes takes all of them for ready. That the first list is there, or
/// never will be, is told to `complete`.
pub(super) async fn nodes(shared: Arc<Shared>, complete: watch::Sender<bool>) {
    let api: Api<Lenient<Host>> = Api::all(shared.client.clone());
    let mut events = std::pin::pin!(watcher::watcher(api, watcher::Config::default()));
    let mut pause = PAUSE.0;
    let (mut known, mut listed) = (HashSet::new(), HashSet::new());
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(node)) => {
                listed.insert(node.name_any());
                shared.books().see_node(&node.name_any(), is_up(&node));
            }
            Ok(Event::InitDone) => {
                let gone = known.difference(&listed);
                gone.for_each(|name: &String| shared.books().see_node(name, false));
                known = std::mem::take(&mut listed);
                complete.send_replace(true);
                pause = PAUSE.0;
            }
            Ok(Event::Apply(node)) => {
                shared.books().see_node(&node.name_any(), is_up(&node));
                known.insert(node.name_any());
            }
            Ok(Event::Delete(node)) => {
                shared.books().see_node(&node.name_any(), false);
                known.remove(&node.name_any());
            }
            Err(err) => {
                complete.send_replace(true);
                tracing::debug!(
                    error = %cluster::explain(&err),
                    "the watch of nodes broke; will retry"
                );
                tokio::time::sleep(pause).await;
                pause = PAUSE.1.min(pause * 2);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_node_is_up_unless_something_says_otherwise() {
        let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
        let taint = |key: &str| json!([{"key": key, "effect": "NoExecute"}]);
        for (taints, conditions, is_up) in [
            (json!([]), json!([]), true),
            (json!([]), ready("True"), true),
            (json!([]), ready("False"), false),
            (json!([]), ready("Unknown"), false),
            (taint("node.kubernetes.io/unreachable"), ready("True"), false),
            (taint("node.kubernetes.io/not-ready"), json!([]), false),
            (taint("node.kubernetes.io/unschedulable"), ready("True"), true),
        ] {
            let node: Value = json!({
                "metadata": {"name": "n"},
                "spec": {"taints": taints},
                "status": {"conditions": conditions},
            });
            let host: Host = serde_json::from_value(node.clone()).unwrap();
            assert_eq!(host.is_up(), is_up, "{node}");
        }
        let bare: Host = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
        assert!(bare.is_up());
    }
}
