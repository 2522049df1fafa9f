//! The ServiceAccount and roles of the controllers and servers.

use serde_json::{Value, json};

use super::{NAME, global, named};

/// The API version of roles and bindings.
const RBAC: &str = "rbac.authorization.k8s.io/v1";
/// The Lease for leader election, with the name that `cluster::LeaderElection::new` uses.
const LEASE: &str = "plimsoll-controller-lock";

/// Returns the controllers' ServiceAccount and a role with exactly the permissions they use. A test runs them with this role.
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
        // Required to create objects whose owner reference has `blockOwnerDeletion`.
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

/// Returns the role for the leader election Lease. RBAC cannot restrict `create` by name, so that verb covers all Leases of our own namespace.
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

/// Returns the role binding that lets the aggregated API read the API server's client CA.
pub(super) fn aggregated(namespace: &str) -> Value {
    let reader = named("plimsoll-authentication-reader", "kube-system");
    let role = "extension-apiserver-authentication-reader";
    bound("RoleBinding", &reader, "Role", role, namespace)
}

/// Returns the role to read the named Secrets in a game-server namespace; nothing if no Secret is named.
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

/// Returns a binding of a role to the controllers' ServiceAccount.
fn bound(kind: &str, metadata: &Value, role_kind: &str, role: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": RBAC, "kind": kind, "metadata": metadata,
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role},
    })
}
