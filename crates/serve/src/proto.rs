//! The protobuf contracts as Rust: messages, services, and their JSON. The `.proto` files are in `crates/api/proto`.

pub mod json;

macro_rules! generated {
    ($(#[doc = $doc:literal] $module:ident = $package:literal),* $(,)?) => {
        $(
            #[doc = $doc]
            #[allow(
                clippy::all,
                clippy::allow_attributes_without_reason,
                clippy::wildcard_enum_match_arm,
                clippy::too_many_lines,
                reason = "generated"
            )]
            pub mod $module {
                tonic::include_proto!($package);
            }
        )*
    };
}

generated! {
    /// The stable SDK service.
    sdk = "agones.dev.sdk",
    /// Counters and lists.
    beta = "agones.dev.sdk.beta",
    /// Player tracking.
    alpha = "agones.dev.sdk.alpha",
    /// The allocator's service.
    allocation = "allocation",
}
