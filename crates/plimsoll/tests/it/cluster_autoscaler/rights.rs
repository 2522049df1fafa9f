//! The rights that the public Helm chart gives Cluster Autoscaler: nodes may be updated but not patched, events are those of the core
//! group, and the Lease and the ConfigMaps are known by name.

use serde_json::{Value, json};

/// The account of the program.
pub(super) const ACCOUNT: &str = "cluster-autoscaler";

const READ: [&str; 3] = ["watch", "list", "get"];

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// Returns a rule about objects with these names.
pub(super) fn named(group: &str, resources: &[&str], names: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "resourceNames": names, "verbs": verbs})
}

/// Returns a rule about nodes.
pub(super) fn nodes(verbs: &[&str]) -> Value {
    rule("", &["nodes"], verbs)
}

/// Returns the rules about groups of Cluster API. The chart has none about `machinesets/scale`, and none that allows a patch of Machines.
pub(super) fn cluster_api() -> [Value; 2] {
    const GROUP: &str = "cluster.x-k8s.io";
    let kinds = ["machinedeployments", "machinepools", "machines", "machinesets"];
    let scaled = ["machinedeployments/scale", "machinepools/scale"];
    [
        rule(GROUP, &kinds, &["get", "list", "update", "watch"]),
        rule(GROUP, &scaled, &["get", "patch", "update"]),
    ]
}

fn cluster_rules() -> Vec<Value> {
    let read = [
        "namespaces",
        "pods",
        "services",
        "replicationcontrollers",
        "persistentvolumeclaims",
        "persistentvolumes",
    ];
    let storage =
        ["storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"];
    vec![
        rule("", &["events", "endpoints"], &["create", "patch"]),
        rule("", &["pods/eviction"], &["create"]),
        rule("", &["pods/status"], &["update"]),
        named("", &["endpoints"], &["cluster-autoscaler"], &["get", "update"]),
        nodes(&["watch", "list", "get", "update"]),
        rule("", &read, &READ),
        rule("batch", &["jobs", "cronjobs"], &READ),
        rule("policy", &["poddisruptionbudgets"], &["watch", "list"]),
        rule("apps", &["daemonsets", "replicasets", "statefulsets"], &READ),
        rule("storage.k8s.io", &storage, &READ),
        rule("", &["configmaps"], &["list", "watch"]),
        rule("coordination.k8s.io", &["leases"], &["create"]),
        named("coordination.k8s.io", &["leases"], &["cluster-autoscaler"], &["get", "update"]),
    ]
}

/// Returns the account, its roles and their bindings, in one namespace. `provider`: what the rules of a provider add to the Role and, except
/// for ConfigMaps, to the ClusterRole.
pub(super) fn objects(namespace: &str, provider: &[Value]) -> Vec<Value> {
    let maps = ["cluster-autoscaler-status", "cluster-autoscaler-priority-expander"];
    let mut rules = vec![
        rule("", &["configmaps"], &["create"]),
        named("", &["configmaps"], &maps, &["delete", "get", "update"]),
    ];
    rules.extend(provider.iter().cloned());
    let mut cluster_rules = cluster_rules();
    let is_of_cluster = |rule: &&Value| rule["resources"][0] != "configmaps";
    cluster_rules.extend(provider.iter().filter(is_of_cluster).cloned());
    let api = "rbac.authorization.k8s.io/v1";
    let subjects = json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}]);
    let role = |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
    let metadata = json!({"name": ACCOUNT, "namespace": namespace});
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": namespace}, "rules": cluster_rules}),
        json!({
            "apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": namespace},
            "roleRef": role("ClusterRole", namespace), "subjects": subjects,
        }),
        json!({"apiVersion": api, "kind": "Role", "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": api, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": role("Role", ACCOUNT), "subjects": subjects,
        }),
    ]
}
