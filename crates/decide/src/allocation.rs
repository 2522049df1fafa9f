//! Which game server a request gets, and what the request does to it.

mod apply;
mod index;
mod order;
mod request;
mod scan;
mod selector;

pub use apply::{LAST_ALLOCATED, apply};
pub use index::{Index, Picked};
pub use request::{
    Allocation, CounterAction, CounterBounds, CounterVerb, ListAction, ListBounds, Request,
    Requirement, Selector, Warning,
};
pub use scan::{allocate, choose};
