//! What may the controllers and servers do?

use serde_json::{Value, json};

use super::{NAME, global, named};

/// Makes the controllers' account and its rights.
pub(super) fn controllers(namespace: &str) -> Vec<Value> {
    let all = json!(["get", "list", "watch", "create", "update", "patch", "delete"]);
    let read = json!(["get", "list", "watch"]);
    let rule = |group: &str, resources: &[&str], verbs: &Value| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let games =
        ["gameservers", "gameserversets", "gameserversets/status", "fleets", "fleets/status"];
    let ours: Vec<String> = api::KINDS
        .iter()
        .filter(|kind| kind.group == "plimsoll.dev")
        .flat_map(|kind| [kind.plural.to_owned(), format!("{}/status", kind.plural)])
        .collect();
    let ours: Vec<&str> = ours.iter().map(String::as_str).collect();
    let rules = [
        rule("agones.dev", &games, &all),
        // Whoever owns an object that holds up its owner's deletion needs this.
        rule("agones.dev", &["gameservers/finalizers", "fleets/finalizers"], &json!(["update"])),
        rule("agones.dev", &["gameserversets/finalizers"], &json!(["update"])),
        rule(
            "autoscaling.agones.dev",
            &["fleetautoscalers", "fleetautoscalers/status"],
            &json!(["get", "list", "watch", "update", "patch"]),
        ),
        rule("multicluster.agones.dev", &["gameserverallocationpolicies"], &read),
        rule("plimsoll.dev", &ours, &all),
        rule("", &["pods"], &all),
        rule("", &["pods/eviction"], &json!(["create"])),
        rule("", &["nodes", "namespaces", "secrets"], &read),
        rule("", &["events"], &json!(["create", "patch"])),
        rule("coordination.k8s.io", &["leases"], &json!(["get", "create", "update", "patch"])),
    ];
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named(NAME, namespace)}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": global(NAME), "rules": rules,
        }),
        bound("ClusterRoleBinding", &global(NAME), "ClusterRole", NAME, namespace),
    ]
}

/// Makes the rights of an aggregated API: to read who vouches for the API server, and to ask it about callers.
pub(super) fn aggregated(namespace: &str) -> Vec<Value> {
    let delegator = global("plimsoll-auth-delegator");
    let reader = named("plimsoll-authentication-reader", "kube-system");
    let (ask, read) = ("system:auth-delegator", "extension-apiserver-authentication-reader");
    vec![
        bound("ClusterRoleBinding", &delegator, "ClusterRole", ask, namespace),
        bound("RoleBinding", &reader, "Role", read, namespace),
    ]
}

/// Gives a role to the controllers' account.
fn bound(kind: &str, metadata: &Value, role_kind: &str, role: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata,
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role},
    })
}
