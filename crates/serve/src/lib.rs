//! The network services of Plimsoll: the SDK server, the allocator, admission webhooks, metrics and health checks.

pub mod admission;
pub mod allocator;
pub mod external_grpc;
pub mod health;
pub mod listen;
pub mod metrics;
pub mod proto;
pub mod sdk;
pub mod tls;
