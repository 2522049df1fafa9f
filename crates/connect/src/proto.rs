//! The protobuf contracts of node group providers and expanders as Rust: messages, clients and servers. The `.proto` files are in
//! `crates/api/proto`.

mod kubernetes;
mod releases;

pub use releases::{OptionDurations, Period};

/// Declares a module for each contract that the build script of the calling crate has compiled.
#[macro_export]
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
    /// The fields of Kubernetes' own kinds that the other contracts need.
    core_v1 = "k8s.io.api.core.v1",
    /// Cluster Autoscaler's protocol for providers of node groups, as a client writes it and as a server reads it.
    external_grpc = "clusterautoscaler.cloudprovider.v1.externalgrpc",
    /// Cluster Autoscaler's protocol for expanders.
    grpc_expander = "grpcplugin",
}
