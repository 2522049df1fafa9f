//! The controllers on an engine: fleets, sets and game servers from birth to death.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing, also in its helpers")]

mod autoscalers;
mod client;
mod cluster;
mod decisions;
mod endpoints;
mod fleets;
mod lease;
mod nodes;
mod policies;
mod servers;
mod standin;
mod suite;
mod trouble;
mod workloads;
mod writes;
