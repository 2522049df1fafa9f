//! What every client of the Kubernetes API shares: informer caches, a work queue, preconditioned writes, events and leader election.

mod cache;
mod entries;
pub mod error;
mod events;
mod key;
mod lease;
mod lenient;
mod queue;
mod unreadable;
mod watch;
pub mod write;

pub use cache::{Cache, CacheEntry, owner, resource_version};
pub use entries::CachedGameServer;
pub use error::{Error, explain};
pub use events::{EventRecorder, EventType};
pub use key::Key;
pub use lease::{LeaderElection, claim_lease, release_lease, run_while_leader};
pub use lenient::Lenient;
pub use queue::{RequeueAt, WorkQueue, enqueue_into};
pub use unreadable::unreadable_objects;
pub use watch::watch;
