//! Which game server a request gets, and what the request does to it.

mod request;

pub use request::{
    Allocation, CounterAction, CounterBounds, CounterVerb, ListAction, ListBounds, Request,
    Requirement, Selector, Warning,
};
