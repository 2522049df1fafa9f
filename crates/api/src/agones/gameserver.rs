//! GameServer: one process that players connect to.

mod admission;
mod ports;
mod spec;
mod status;
mod validation;

pub use ports::{GameServerPort, PortPolicy, PortProtocol};
pub use spec::{Eviction, EvictionSafe, GameServerSpec, Health, LogLevel, PlayerSpec, SdkServer};
pub use status::{GameServerStatus, NodeAddress, PlayerStatus, StatusPort};

pub(crate) use admission::KIND;
pub(crate) use validation::problems;

pub use spec::GameServer;
