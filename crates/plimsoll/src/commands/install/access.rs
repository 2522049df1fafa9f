//! What may the controllers and servers do?

use serde_json::{Value, json};

use super::{NAME, global, named};

/// The API of roles.
const RBAC: &str = "rbac.authorization.k8s.io/v1";
/// The Lease that the active controller holds: `cluster::LeaderElection::new` names it.
const LEASE: &str = "plimsoll-controller-lock";

/// Makes the controllers' account and its rights: what they ask for, and nothing else. A test runs them with no more than this.
pub(super) fn controllers(namespace: &str) -> Vec<Value> {
    let games = "agones.dev";
    let rules = [
        rule(
            games,
            &["gameservers"],
            &["get", "list", "watch", "create", "update", "patch", "delete"],
        ),
        rule(games, &["gameserversets"], &["list", "watch", "create", "patch", "delete"]),
        rule(games, &["fleets"], &["list", "watch", "patch"]),
        rule(games, &["gameserversets/status", "fleets/status"], &["patch"]),
        // Whoever makes an object that holds up its owner's deletion needs this.
        rule(
            games,
            &["gameservers/finalizers", "gameserversets/finalizers", "fleets/finalizers"],
            &["update"],
        ),
        rule("autoscaling.agones.dev", &["fleetautoscalers"], &["list", "watch"]),
        rule("autoscaling.agones.dev", &["fleetautoscalers/status"], &["patch"]),
        rule("multicluster.agones.dev", &["gameserverallocationpolicies"], &["list"]),
        rule("", &["pods"], &["get", "list", "watch", "create", "delete"]),
        rule("", &["nodes"], &["list", "watch"]),
        rule("", &["events"], &["create"]),
    ];
    let mut all = vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named(NAME, namespace)}),
        json!({
            "apiVersion": RBAC, "kind": "ClusterRole", "metadata": global(NAME), "rules": rules,
        }),
        bound("ClusterRoleBinding", &global(NAME), "ClusterRole", NAME, namespace),
    ];
    all.extend(lease(namespace));
    all
}

/// Makes the right to the one Lease that says who is active. A right to create cannot name what is created, so that one holds for any
/// Lease of our own namespace.
fn lease(namespace: &str) -> Vec<Value> {
    let mut own = rule("coordination.k8s.io", &["leases"], &["get", "update"]);
    own["resourceNames"] = json!([LEASE]);
    let rules = [own, rule("coordination.k8s.io", &["leases"], &["create"])];
    let metadata = named(NAME, namespace);
    vec![
        json!({"apiVersion": RBAC, "kind": "Role", "metadata": metadata, "rules": rules}),
        bound("RoleBinding", &metadata, "Role", NAME, namespace),
    ]
}

/// Makes the right of an aggregated API to read who vouches for the API server.
pub(super) fn aggregated(namespace: &str) -> Value {
    let reader = named("plimsoll-authentication-reader", "kube-system");
    let role = "extension-apiserver-authentication-reader";
    bound("RoleBinding", &reader, "Role", role, namespace)
}

/// Makes the right to read the Secrets in a namespace with game servers that connect to other clusters; none, if none are named.
pub(super) fn other_clusters(secrets: &[String], game: &str, namespace: &str) -> Vec<Value> {
    if secrets.is_empty() {
        return Vec::new();
    }
    let mut read = rule("", &["secrets"], &["get"]);
    read["resourceNames"] = json!(secrets);
    let metadata = named("plimsoll-other-clusters", game);
    let role = "plimsoll-other-clusters";
    vec![
        json!({"apiVersion": RBAC, "kind": "Role", "metadata": metadata, "rules": [read]}),
        bound("RoleBinding", &metadata, "Role", role, namespace),
    ]
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// Gives a role to the controllers' account.
fn bound(kind: &str, metadata: &Value, role_kind: &str, role: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": RBAC, "kind": kind, "metadata": metadata,
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role},
    })
}
