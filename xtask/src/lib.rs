//! What developer commands and measurements share: how programs are run, and the real systems to compare with.

pub mod conformance;
pub mod docker;
pub mod kube;
pub mod process;
pub mod python;
pub mod run;
