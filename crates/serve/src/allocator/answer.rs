//! The status of an allocation: the game server that was allocated.

use std::collections::BTreeMap;

use api::allocation::{AllocationState, GameServerAllocationStatus, GameServerMetadata};
use cluster::CachedGameServer;

/// Returns the status of an allocation that got this server.
pub(super) fn allocated(server: &CachedGameServer) -> GameServerAllocationStatus {
    let metadata = &server.object.metadata;
    let status = server.object.status.clone().unwrap_or_default();
    let texts = |map: &Option<BTreeMap<_, _>>| map.clone().unwrap_or_default();
    GameServerAllocationStatus {
        state: AllocationState::Allocated,
        game_server_name: metadata.name.clone().unwrap_or_default(),
        ports: status.ports.unwrap_or_default(),
        address: status.address,
        addresses: status.addresses.unwrap_or_default(),
        node_name: status.node_name,
        source: "local".to_owned(),
        metadata: Some(GameServerMetadata {
            labels: texts(&metadata.labels),
            annotations: texts(&metadata.annotations),
        }),
        counters: status.counters,
        lists: status.lists,
    }
}

/// Returns a status without a game server.
pub(super) fn without_server(state: AllocationState) -> GameServerAllocationStatus {
    GameServerAllocationStatus { state, ..GameServerAllocationStatus::default() }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use api::agones::GameServer;
    use cluster::CacheEntry as _;
    use serde_json::json;

    use super::*;

    /// Returns a server as the API would.
    pub(in crate::allocator) fn object(name: &str, version: &str, state: &str) -> GameServer {
        serde_json::from_value(json!({
            "apiVersion": "agones.dev/v1", "kind": "GameServer",
            "metadata": {"name": name, "namespace": "default", "resourceVersion": version, "managedFields": [{}]},
            "spec": {"template": {"spec": {"containers": []}}},
            "status": {"state": state, "address": "10.0.0.1", "ports": [{"name": "game", "port": 7000}],
                       "counters": {"rooms": {"count": 0, "capacity": 2}}},
        }))
        .unwrap()
    }

    pub(in crate::allocator) fn server(
        name: &str,
        version: &str,
        state: &str,
    ) -> Arc<CachedGameServer> {
        Arc::new(CachedGameServer::from_object(object(name, version, state)))
    }

    #[test]
    fn a_status_has_the_name_address_ports_and_counters_of_the_server() {
        let answer = allocated(&server("a", "7", "Allocated"));
        assert_eq!(answer.state, AllocationState::Allocated);
        assert_eq!((answer.game_server_name.as_str(), answer.address.as_str()), ("a", "10.0.0.1"));
        assert_eq!(answer.ports[0].port, 7000);
        assert_eq!(answer.counters.unwrap()["rooms"].capacity, 2);
    }
}
