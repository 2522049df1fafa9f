//! The APIService for allocations, whose objects are never stored.

use serde_json::{Value, json};

use super::workload::AGGREGATED;
use super::{NAME, global};

/// Returns the APIService that makes the API server forward requests of the group.
pub(super) fn group(namespace: &str, ca_bundle: &str) -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": global("v1.allocation.agones.dev"),
        "spec": {
            "group": "allocation.agones.dev", "version": "v1",
            // Agones' values: the group sorts after the built-in groups of Kubernetes.
            "groupPriorityMinimum": 1000, "versionPriority": 15,
            "caBundle": ca_bundle,
            "service": {"name": NAME, "namespace": namespace, "port": AGGREGATED},
        },
    })
}
