//! `agones.dev/v1`: game servers, the sets they come in, and fleets.

mod counts;
pub(crate) mod dialect;
mod fleet;
mod gameserver;
mod gameserverset;
mod live;
mod priority;
mod sdk;
mod template;
pub(crate) mod view;

pub use counts::{AggregateCount, CounterStatus, ListStatus, PlayerAggregate};
pub use fleet::{Fleet, FleetSpec, FleetStatus, RollingUpdate, Strategy, StrategyType};
pub use gameserver::{
    Eviction, EvictionSafe, GameServer, GameServerPort, GameServerSpec, GameServerStatus, Health,
    LogLevel, NodeAddress, PlayerSpec, PlayerStatus, PortPolicy, PortProtocol, SdkServer,
    StatusPort,
};
pub use gameserverset::{GameServerSet, GameServerSetSpec, GameServerSetStatus};
pub use priority::{Order, Priority, PriorityType};
pub use sdk::{SDK_PREFIX, sdk_annotation, sdk_label};
pub use template::{GameServerTemplate, PodTemplate};
pub use view::{may_evacuate, server as server_view};

pub(crate) use fleet::KIND as FLEET;
pub(crate) use gameserver::KIND as GAME_SERVER;
pub(crate) use gameserverset::KIND as GAME_SERVER_SET;
pub(crate) use priority::{fill_order, for_allocation, mixed};

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The label that names the fleet of a game server or set.
pub const FLEET_LABEL: &str = "agones.dev/fleet";
/// The label that names the set of a game server.
pub const GAME_SERVER_SET_LABEL: &str = "agones.dev/gameserverset";
/// The finalizer that holds a game server until its pod is gone.
pub const FINALIZER: &str = "agones.dev/controller";
/// The annotation with the SDK version that an object was created for.
pub const SDK_VERSION_ANNOTATION: &str = "agones.dev/sdk-version";
/// The annotation with the address of a game server in development.
pub const DEV_ADDRESS_ANNOTATION: &str = "agones.dev/dev-address";
/// The annotation with the time of the last allocation of a game server.
pub const LAST_ALLOCATED_ANNOTATION: &str = "agones.dev/last-allocated";
/// The annotation with the time at which a game server got into the state Error.
pub const ERRORED_AT_ANNOTATION: &str = "agones.dev/errored-at";
/// The annotation with the number of game servers in a row that failed soon after they were created, before this one replaced them.
pub const FAILED_BEFORE_ANNOTATION: &str = "plimsoll.dev/failed-before";
/// The annotation of a game server whose pod is being deleted: it keeps its players, and gets no more.
pub const LEAVING_ANNOTATION: &str = "plimsoll.dev/leaving";
/// The annotation of a game server whose node is being emptied, with the time: its set replaces it, and it is allocated last.
pub const EVACUATE_ANNOTATION: &str = "plimsoll.dev/evacuate";
/// The annotation of a fleet, or of a set without one, whose idle game servers stay where they are if it is `false`.
pub const EVACUATION_ANNOTATION: &str = "plimsoll.dev/evacuation";
/// The annotation that enables upstream's exact sizes: see `docs/compatibility.md`.
pub const COMPAT_ANNOTATION: &str = "plimsoll.dev/compat";
/// The release of Agones whose wire we speak.
pub const SDK_VERSION: &str = "1.61.0";

/// How game servers are spread over nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Scheduling {
    /// Fill nodes one after the other, so that whole nodes become free.
    #[default]
    Packed,
    /// Spread over all nodes.
    Distributed,
}

/// Labels and annotations for Allocated game servers beyond the desired number of replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllocationOverflow {
    /// Labels to add to the game server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations to add to the game server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl AllocationOverflow {
    fn problems(&self, path: &str) -> Vec<crate::Problem> {
        let mut out = crate::labels::labels(&self.labels, &format!("{path}.labels"));
        out.extend(crate::labels::annotations(&self.annotations, &format!("{path}.annotations")));
        out
    }
}

/// Whether Go's encoder would leave the number out.
pub(crate) fn is_zero<N: Default + PartialEq>(n: &N) -> bool {
    *n == N::default()
}
