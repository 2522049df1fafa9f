//! `multicluster.agones.dev/v1`: which other clusters an allocation asks.

mod gameserverallocationpolicy;

pub use gameserverallocationpolicy::{
    ConnectionInfo, GameServerAllocationPolicy, GameServerAllocationPolicySpec,
};

pub(crate) use gameserverallocationpolicy::KIND as GAME_SERVER_ALLOCATION_POLICY;
