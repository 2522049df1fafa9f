//! What others call.

pub mod allocator;
pub mod proto;
