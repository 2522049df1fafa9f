//! What does a namespace with game servers need? The account that their SDK servers use, and a budget that keeps them.

use serde_json::{Value, json};

use super::{global, named};

/// The account of SDK servers, under the name that Agones gave it.
const SDK: &str = "agones-sdk";

/// Makes what all such namespaces share.
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

/// Makes what each has of its own.
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
