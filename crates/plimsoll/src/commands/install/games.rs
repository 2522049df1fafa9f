//! Objects for game-server namespaces: the ServiceAccount of the SDK servers, and a PodDisruptionBudget for game servers.

use serde_json::{Value, json};

use super::{global, named};

/// The ServiceAccount of SDK servers, with the name that Agones uses.
const SDK: &str = "agones-sdk";

/// Returns the cluster-scoped objects that all game-server namespaces share.
pub(super) fn cluster() -> Vec<Value> {
    let rules = json!([
        {
            "apiGroups": ["agones.dev"], "resources": ["gameservers"],
            "verbs": ["list", "watch", "patch"],
        },
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    ]);
    vec![json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": global(SDK), "rules": rules,
    })]
}

/// Returns the objects of one game-server namespace.
pub(super) fn in_namespace(namespace: &str) -> Vec<Value> {
    let account = json!({"kind": "ServiceAccount", "name": SDK, "namespace": namespace});
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named(SDK, namespace)}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": named(SDK, namespace), "subjects": [account],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": SDK},
        }),
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": named("agones-gameserver-safe-to-evict-false", namespace),
            "spec": {
                "maxUnavailable": "0%",
                "selector": {"matchLabels": {"agones.dev/safe-to-evict": "false"}},
            },
        }),
    ]
}
