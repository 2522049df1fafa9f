//! Deployments, ReplicaSets, Jobs and DaemonSets, on the embedded engine and beside Kubernetes' own controller manager.

mod against_kubernetes;
mod daemon_sets;
mod deployments;
mod jobs;
mod replica_sets;
mod stage;
