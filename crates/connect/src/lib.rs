//! The outside world, one file each: the webhooks and Wasm modules that autoscalers ask.
//!
//! ```no_run
//! # async fn example(policy: &api::autoscaling::Policy) {
//! let ask = plimsoll_connect::Ask::new();
//! let reply = ask.about("uid-of-the-autoscaler", policy, Default::default()).await;
//! # }
//! ```

mod ask;
mod call;
pub mod trust;
#[cfg(feature = "wasm")]
mod wasm;
mod webhook;

pub use ask::Ask;
pub use call::CallError;
#[cfg(feature = "wasm")]
pub use wasm::WasmError;
