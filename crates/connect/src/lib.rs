//! Outside systems, one file each: metric sources, scaling targets, node group providers, and the webhooks and Wasm
//! modules that autoscalers call.
//!
//! ```no_run
//! # async fn example(policy: &api::autoscaling::Policy) {
//! let ask = plimsoll_connect::Ask::new();
//! let reply = ask.about("uid-of-the-autoscaler", policy, Default::default()).await;
//! # }
//! ```

mod ask;
mod aws;
mod call;
mod connection;
mod docker_engine;
mod endpoint;
pub mod expander;
mod grpc;
mod metric_source;
mod nomad;
pub mod proto;
pub mod providers;
mod rancher;
mod registry;
mod secret;
mod services;
mod shared;
mod socket;
pub mod sources;
pub mod targets;
mod tls;
pub mod trust;
#[cfg(feature = "wasm")]
mod wasm;
mod webhook;

pub use ask::Ask;
pub use call::CallError;
pub use connection::ConnectionError;
pub use registry::{Context, OpenError};
pub use secret::SecretError;
pub use shared::Shared;
pub use tls::TlsError;
#[cfg(feature = "wasm")]
pub use wasm::WasmError;
