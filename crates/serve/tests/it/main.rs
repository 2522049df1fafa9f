//! The services that other programs call, called by their own clients: on the embedded engine, and on a real API server if there is one.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing, also in its helpers")]

mod admission;
mod allocator;
mod external_grpc;
mod go_client;
mod listen;
mod metrics;
mod sdk;
mod webhooks;
