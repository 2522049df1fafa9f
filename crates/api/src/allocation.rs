//! `allocation.agones.dev/v1`: requests for game servers.

mod actions;
mod dialect;
mod gameserverallocation;
mod selector;
mod status;
mod validation;
mod view;

pub use actions::{CounterAction, ListAction, MetaPatch};
pub use gameserverallocation::{
    GameServerAllocation, GameServerAllocationSpec, MultiClusterSetting,
};
pub use selector::{CounterSelector, GameServerSelector, ListSelector, SelectedState};
pub use status::{AllocationState, GameServerAllocationStatus, GameServerMetadata};

pub(crate) use gameserverallocation::KIND as GAME_SERVER_ALLOCATION;
