//! Selects a game server for an allocation request and applies the request to it.

mod apply;
mod clusters;
mod index;
mod order;
mod request;
mod scan;
mod selector;

pub use apply::{LAST_ALLOCATED, apply};
pub use clusters::{ClusterPolicy, next_cluster};
pub use index::{Index, Picked};
pub use request::{
    Allocation, CounterAction, CounterBounds, CounterVerb, ListAction, ListBounds, Request,
    Requirement, Selector, Warning,
};
pub use scan::{allocate, choose};
