//! What every client of the Kubernetes API shares: informer caches, a work queue, preconditioned writes, events and leader election.

mod cache;
mod caches;
mod entries;
pub mod error;
mod events;
mod key;
mod lease;
mod queue;
mod undecoded;
mod watch;
pub mod write;

pub use cache::{Cache, CacheEntry, Subscription, owner, resource_version};
pub use caches::{CachedKind, Caches};
pub use entries::{
    CachedGameServer, CachedNode, CachedNodeSpec, CachedNodeStatus, CachedPod, CachedPodSpec,
    CachedPodStatus, HOST_PORTS_ANNOTATION, PodCondition, PodIp,
};
pub use error::{Error, explain};
pub use events::{EventRecorder, EventType};
pub use key::Key;
pub use lease::{LeaderElection, claim_lease, release_lease, run_while_leader};
pub use queue::{RequeueAt, WorkQueue, enqueue_into};
pub use undecoded::Undecoded;
pub use watch::watch;
