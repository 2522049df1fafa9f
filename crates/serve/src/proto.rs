//! The protobuf contracts as Rust: messages, services, and their JSON. The `.proto` files are in `crates/api/proto`.

pub mod json;

connect::generated! {
    /// The stable SDK service.
    sdk = "agones.dev.sdk",
    /// Counters and lists.
    beta = "agones.dev.sdk.beta",
    /// Player tracking.
    alpha = "agones.dev.sdk.alpha",
    /// The allocator's service.
    allocation = "allocation",
}
