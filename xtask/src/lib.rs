//! Shared code of developer commands and measurements: runs programs, and starts the real systems to compare with.

pub mod conformance;
pub mod docker;
pub mod kube;
pub mod process;
pub mod prometheus;
pub mod python;
pub mod run;
pub mod servers;
