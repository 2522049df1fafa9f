//! What others call.

pub mod proto;
