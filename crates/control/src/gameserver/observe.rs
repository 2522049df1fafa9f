//! Observes a game server, its pod and its node.

use std::sync::Arc;

use api::agones::{DEV_ADDRESS_ANNOTATION, FINALIZER, GameServer, GameServerStatus};
use cluster::{CachedGameServer, CachedNode, CachedPod, Caches, Key};
use decide::gameserver::{self, GameServerObservation, PodPlacement};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::address;
use crate::ports::port_owner;

/// A game server with its pod and its node.
pub(super) struct ObservedGameServer {
    pub(super) server: Arc<CachedGameServer>,
    pub(super) pod: Option<Arc<CachedPod>>,
    pub(super) node: Option<Arc<CachedNode>>,
    pub(super) observation: GameServerObservation,
}

impl ObservedGameServer {
    /// The address of a developer's machine, for a server that runs there.
    pub(super) fn dev_address(&self) -> Option<&str> {
        dev_address(&self.server)
    }
}

fn dev_address(server: &CachedGameServer) -> Option<&str> {
    let annotations = server.object.metadata.annotations.as_ref();
    annotations.and_then(|a| a.get(DEV_ADDRESS_ANNOTATION)).map(String::as_str)
}

/// Observes one game server; `None` when it is gone.
pub(super) fn server(key: &Key, caches: &Caches) -> Option<ObservedGameServer> {
    let server = caches.servers.get(key)?;
    let meta = &server.object.metadata;
    let pod = caches.pods.get(key).filter(|pod| cluster::owner(&**pod) == meta.uid.as_deref());
    let node = pod.as_ref().and_then(|pod| pod.spec.node_name.as_deref());
    let node = node.and_then(|name| caches.nodes.get(&Key::new("", name)));
    let status = server.object.status.clone().unwrap_or_default();
    let finalizers = meta.finalizers.as_deref().unwrap_or_default();
    let observation = GameServerObservation {
        state: server.view.state,
        is_terminating: meta.deletion_timestamp.is_some(),
        has_finalizer: finalizers.iter().any(|name| name == FINALIZER || name == LEGACY_FINALIZER),
        lacks_defaults: server.is_bare,
        is_in_set: is_in_set(meta),
        is_leaving: server.view.is_leaving,
        is_dev: dev_address(&server).is_some(),
        has_address: !status.node_name.is_empty(),
        pod: pod.as_ref().map(|pod| gameserver::Pod {
            health: pod.health(),
            is_terminating: pod.metadata.deletion_timestamp.is_some(),
            placement: placement(pod, node.as_deref(), &server.object, &status),
        }),
    };
    Some(ObservedGameServer { server, pod, node, observation })
}

/// The finalizer of Agones before 1.40, which is taken away as well.
pub(super) const LEGACY_FINALIZER: &str = "agones.dev";

/// Returns whether a set controls it.
fn is_in_set(meta: &ObjectMeta) -> bool {
    let mut owners = meta.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && owner.kind == "GameServerSet")
}

fn placement(
    pod: &CachedPod,
    node: Option<&CachedNode>,
    server: &GameServer,
    status: &GameServerStatus,
) -> PodPlacement {
    let Some(name) = pod.spec.node_name.as_deref() else {
        return match pod.unschedulable() {
            None => PodPlacement::Pending,
            Some(_) if pod.lacks_ports() && port_owner(server, Some(pod)).can_change() => {
                PodPlacement::PortsTaken
            }
            Some(_) => PodPlacement::Unschedulable,
        };
    };
    let Some(node) = node.filter(|node| node.metadata.deletion_timestamp.is_none()) else {
        return PodPlacement::Unknown;
    };
    if address::public(node).is_none() {
        return PodPlacement::Unknown;
    }
    let is_at = |address: &str| node.status.addresses.iter().any(|a| a.address == address);
    if status.node_name.is_empty() || (status.node_name == name && is_at(&status.address)) {
        PodPlacement::Scheduled
    } else {
        PodPlacement::Moved
    }
}
