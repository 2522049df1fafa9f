//! A GameServer as the SDK's message.

use api::agones::GameServer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::proto::sdk::{self, game_server as part, game_server::status};

/// Converts an object into the message.
pub(super) fn from_object(server: &GameServer) -> sdk::GameServer {
    sdk::GameServer {
        object_meta: Some(object_meta(server)),
        spec: Some(spec(server)),
        status: Some(game_server_status(server)),
    }
}

fn object_meta(server: &GameServer) -> part::ObjectMeta {
    let meta = server.metadata.clone();
    let seconds = |time: Option<Time>| time.map_or(0, |time| time.0.as_second());
    part::ObjectMeta {
        name: meta.name.unwrap_or_default(),
        namespace: meta.namespace.unwrap_or_default(),
        uid: meta.uid.unwrap_or_default(),
        resource_version: meta.resource_version.unwrap_or_default(),
        generation: meta.generation.unwrap_or_default(),
        creation_timestamp: seconds(meta.creation_timestamp),
        deletion_timestamp: seconds(meta.deletion_timestamp),
        annotations: meta.annotations.unwrap_or_default(),
        labels: meta.labels.unwrap_or_default(),
    }
}

fn spec(server: &GameServer) -> part::Spec {
    let health = &server.spec.health;
    let health = part::spec::Health {
        disabled: health.disabled,
        period_seconds: health.period_seconds,
        failure_threshold: health.failure_threshold,
        initial_delay_seconds: health.initial_delay_seconds,
    };
    part::Spec { health: Some(health) }
}

fn game_server_status(server: &GameServer) -> part::Status {
    let current = server.status.clone().unwrap_or_default();
    let address =
        |a: api::agones::NodeAddress| status::Address { r#type: a.type_, address: a.address };
    let players = |p: api::agones::PlayerStatus| status::PlayerStatus {
        count: p.count,
        capacity: p.capacity,
        ids: p.ids.unwrap_or_default(),
    };
    let counter = |c: api::agones::CounterStatus| status::CounterStatus {
        count: c.count,
        capacity: c.capacity,
    };
    let list =
        |l: api::agones::ListStatus| status::ListStatus { capacity: l.capacity, values: l.values };
    part::Status {
        state: current.state,
        address: current.address,
        addresses: current.addresses.unwrap_or_default().into_iter().map(address).collect(),
        ports: current
            .ports
            .unwrap_or_default()
            .into_iter()
            .map(|p| status::Port { name: p.name, port: p.port })
            .collect(),
        players: current.players.map(players),
        counters: current
            .counters
            .unwrap_or_default()
            .into_iter()
            .map(|(k, c)| (k, counter(c)))
            .collect(),
        lists: current.lists.unwrap_or_default().into_iter().map(|(k, l)| (k, list(l))).collect(),
    }
}
