//! Shared code of developer commands and measurements: runs programs, and starts the real systems to compare with.

pub mod conformance;
pub(crate) mod debian;
pub mod docker;
pub mod kube;
pub mod process;
pub mod prometheus;
pub mod python;
pub(crate) mod rabbitmq;
pub mod run;
pub mod servers;
