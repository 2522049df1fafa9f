//! What caches keep of our own kinds: the object without its field managers, with the defaults that admission gives it.

use std::sync::Arc;

use api::agones::{Fleet, GameServer, GameServerSet};
use api::autoscaling::FleetAutoscaler;
use decide::gameserver;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::CacheEntry;

/// A game server, and its view for decisions.
#[derive(Debug)]
pub struct CachedGameServer {
    /// The object.
    pub object: GameServer,
    /// What decisions read of it.
    pub view: Arc<gameserver::GameServer>,
    /// Whether it was stored without its defaults, because no webhook admitted it. Here it has them.
    pub is_bare: bool,
}

impl CacheEntry for CachedGameServer {
    type Object = GameServer;

    fn from_object(mut object: GameServer) -> Self {
        object.metadata.managed_fields = None;
        let is_bare = object.fill();
        let view = Arc::new(object.view());
        Self { object, view, is_bare }
    }

    fn meta(&self) -> &ObjectMeta {
        &self.object.metadata
    }
}

impl CacheEntry for Fleet {
    type Object = Self;

    fn from_object(mut object: Self) -> Self {
        object.metadata.managed_fields = None;
        object.spec.fill();
        object
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl CacheEntry for FleetAutoscaler {
    type Object = Self;

    fn from_object(mut object: Self) -> Self {
        object.metadata.managed_fields = None;
        object.spec.fill();
        object
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl CacheEntry for GameServerSet {
    type Object = Self;

    fn from_object(mut object: Self) -> Self {
        object.metadata.managed_fields = None;
        object
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}
