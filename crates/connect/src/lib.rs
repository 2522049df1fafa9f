//! Outside systems, one file each: metric sources, scaling targets, node group providers, and the webhooks and Wasm
//! modules that autoscalers ask.
//!
//! ```no_run
//! # async fn example(policy: &api::autoscaling::Policy) {
//! let ask = plimsoll_connect::Ask::new();
//! let reply = ask.about("uid-of-the-autoscaler", policy, Default::default()).await;
//! # }
//! ```

mod ask;
mod call;
mod endpoint;
pub mod providers;
mod registry;
pub mod sources;
pub mod targets;
pub mod trust;
#[cfg(feature = "wasm")]
mod wasm;
mod webhook;

pub use ask::Ask;
pub use call::CallError;
pub use registry::{Context, OpenError};
#[cfg(feature = "wasm")]
pub use wasm::WasmError;
