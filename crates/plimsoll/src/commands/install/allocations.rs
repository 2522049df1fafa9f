//! Who answers for the group of allocations? We do: no object of it is ever stored.

use serde_json::{Value, json};

use super::workload::AGGREGATED;
use super::{NAME, global};

/// Tells the API server to pass requests of the group on.
pub(super) fn group(namespace: &str, ca_bundle: &str) -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": global("v1.allocation.agones.dev"),
        "spec": {
            "group": "allocation.agones.dev", "version": "v1",
            // Upstream's: the group is looked for after those of Kubernetes itself.
            "groupPriorityMinimum": 1000, "versionPriority": 15,
            "caBundle": ca_bundle,
            "service": {"name": NAME, "namespace": namespace, "port": AGGREGATED},
        },
    })
}
