//! The parts that every client of the Kubernetes API shares: informer caches, a work queue, preconditioned writes, events, decisions
//! and leader election.

mod cache;
mod caches;
pub mod decisions;
mod entries;
pub mod error;
mod events;
mod key;
mod lease;
mod local_addresses;
mod queue;
mod undecoded;
mod watch;
pub mod write;

pub use cache::{Cache, CacheEntry, Subscription, owner, resource_version};
pub use caches::{CachedKind, Caches, NodeCaches};
pub use decisions::{
    DecisionCounts, DecisionRecord, DecisionRecorder, DecisionSettings, Signature, SubjectKind,
};
pub use entries::{
    CachedGameServer, CachedNode, CachedNodeSpec, CachedNodeStatus, CachedObject, CachedPod,
    CachedPodSpec, CachedPodStatus, CachedWhole, CapacityBuffer, CapacityBufferSpec,
    CapacityBufferStatus, HOST_PORTS_ANNOTATION, HorizontalPodAutoscaler, LocalRef, PodCondition,
    PodIp, ScalableRef, ScaleTargetRef, ScaledObject, unneeded_since,
};
pub use error::{Error, explain};
pub use events::{EventRecorder, EventType};
pub use key::Key;
pub use lease::{LeaderElection, claim_lease, release_lease, run_while_leader};
pub use local_addresses::{LOCAL_ADDRESSES_ANNOTATION, LocalAddresses};
pub use queue::{RequeueAt, WorkQueue, enqueue_into};
pub use undecoded::Undecoded;
pub use watch::{watch, watch_dynamic};
