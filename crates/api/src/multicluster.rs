//! `multicluster.agones.dev/v1`: the other clusters that an allocation tries.

mod gameserverallocationpolicy;

pub use gameserverallocationpolicy::{
    ConnectionInfo, GameServerAllocationPolicy, GameServerAllocationPolicySpec,
};

pub(crate) use gameserverallocationpolicy::KIND as GAME_SERVER_ALLOCATION_POLICY;
