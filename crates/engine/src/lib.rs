//! The embedded Kubernetes API: an API server in this process, with objects on disk and watches from memory.

mod clock;
pub mod fields;
pub mod patch;
mod quote;
#[allow(dead_code, reason = "the request path uses more of it as it grows")]
mod resource;
#[allow(dead_code, unused_imports, reason = "the request path uses more of it as it grows")]
pub mod schema;
pub mod selector;
#[allow(dead_code, reason = "the request path uses more of it as it grows")]
mod status;
#[allow(dead_code, unused_imports, reason = "the request path uses more of it as it grows")]
mod store;

pub use clock::Clock;
pub use store::{History, StoreError};
