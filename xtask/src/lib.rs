//! What developer commands and measurements share: how programs are run, and a real Kubernetes to compare with.

pub mod conformance;
pub mod kube;
pub mod process;
pub mod python;
pub mod run;
