//! The ServiceAccount and roles of the controllers and servers.

use serde_json::{Value, json};

use super::{NAME, global, named};
use crate::args::Part;

/// The API version of roles and bindings.
const RBAC: &str = "rbac.authorization.k8s.io/v1";
/// The Lease for leader election, with the name that `cluster::LeaderElection::new` uses.
const LEASE: &str = "plimsoll-controller-lock";
/// The namespace of the Secrets that metric sources and targets name, wherever Plimsoll itself runs.
const SOURCES_NAMESPACE: &str = "plimsoll-system";
const GAMES: &str = "agones.dev";
const OWN: &str = "plimsoll.dev";
/// The Lease of a Cluster Autoscaler, in its usual namespace.
const CLUSTER_AUTOSCALER_LEASE: &str = "cluster-autoscaler";

/// Returns the controllers' ServiceAccount and a role with exactly the permissions that these parts and the servers use. A test runs them
/// with this role.
pub(super) fn controllers(namespace: &str, parts: &[Part]) -> Vec<Value> {
    let mut rules = always();
    rules.extend(parts.iter().flat_map(|part| match part {
        Part::GameServer => game_servers(),
        Part::GameServerSet => game_server_sets(),
        Part::Fleet => fleets(),
        Part::FleetAutoscaler => fleet_autoscalers(),
        Part::ScalingPolicy | Part::AutoScalePolicy | Part::Nodes => Vec::new(),
    }));
    // All of them follow the objects of game servers.
    if parts.iter().any(|part| *part != Part::Nodes) {
        rules.push(rule(GAMES, &["gameserversets"], &["list", "watch"]));
        rules.push(rule("", &["pods"], &["list", "watch"]));
    }
    if has_policies(parts) {
        rules.extend(policies(parts));
    }
    if parts.contains(&Part::Nodes) {
        rules.extend(nodes());
    }
    let mut all = vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named(NAME, namespace)}),
        json!({
            "apiVersion": RBAC, "kind": "ClusterRole", "metadata": global(NAME), "rules": rules,
        }),
        bound("ClusterRoleBinding", &global(NAME), "ClusterRole", NAME, namespace),
    ];
    all.extend(lease(namespace));
    if parts.contains(&Part::Nodes) {
        all.extend(cluster_autoscaler(namespace));
    }
    all
}

/// Returns the role to read the Lease of a Cluster Autoscaler, so that nodes are left alone while one is active, and to write the ConfigMap
/// that others read its status from.
fn cluster_autoscaler(namespace: &str) -> [Value; 2] {
    let mut read = rule("coordination.k8s.io", &["leases"], &["get"]);
    read["resourceNames"] = json!([CLUSTER_AUTOSCALER_LEASE]);
    let mut status = rule("", &["configmaps"], &["get", "update"]);
    status["resourceNames"] = json!(["cluster-autoscaler-status"]);
    let rules = [read, status, rule("", &["configmaps"], &["create"])];
    let role = "plimsoll-cluster-autoscaler";
    let metadata = named(role, "kube-system");
    [
        json!({"apiVersion": RBAC, "kind": "Role", "metadata": metadata, "rules": rules}),
        bound("RoleBinding", &metadata, "Role", role, namespace),
    ]
}

/// Returns the role to scale the groups of a Cluster API that runs on this cluster, with the infrastructure templates that describe their
/// nodes by resource.
pub(super) fn cluster_api(templates: &[String], namespace: &str) -> Vec<Value> {
    const GROUP: &str = "cluster.x-k8s.io";
    let scaled = ["machinedeployments", "machinesets", "machinepools"];
    let mut rules = vec![
        rule(GROUP, &scaled, &["list"]),
        rule(
            GROUP,
            &scaled.map(|it| format!("{it}/scale")).each_ref().map(String::as_str),
            &["get", "update"],
        ),
        rule(GROUP, &["machines"], &["get", "list", "update"]),
    ];
    if !templates.is_empty() {
        let templates: Vec<&str> = templates.iter().map(String::as_str).collect();
        rules.push(rule("infrastructure.cluster.x-k8s.io", &templates, &["list"]));
    }
    let metadata = global("plimsoll-cluster-api");
    vec![
        json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": metadata, "rules": rules}),
        bound("ClusterRoleBinding", &metadata, "ClusterRole", "plimsoll-cluster-api", namespace),
    ]
}

/// Whether the parts include controllers that use metric sources and scaling targets.
pub(super) fn has_policies(parts: &[Part]) -> bool {
    parts.iter().any(|part| matches!(part, Part::ScalingPolicy | Part::AutoScalePolicy))
}

/// The permissions of the allocator, the metrics and the recorders, whichever controllers run.
fn always() -> Vec<Value> {
    vec![
        rule(GAMES, &["gameservers"], &["get", "list", "watch", "update", "patch"]),
        rule(GAMES, &["fleets"], &["list", "watch"]),
        rule("autoscaling.agones.dev", &["fleetautoscalers"], &["list", "watch"]),
        rule("multicluster.agones.dev", &["gameserverallocationpolicies"], &["list"]),
        rule("", &["nodes"], &["list", "watch"]),
        rule("", &["events"], &["create"]),
        rule(OWN, &["decisions"], &["get", "list", "create", "patch", "delete"]),
    ]
}

fn game_servers() -> Vec<Value> {
    vec![
        rule(GAMES, &["gameservers"], &["delete"]),
        may_own("gameservers"),
        rule("", &["pods"], &["get", "create", "delete"]),
    ]
}

fn game_server_sets() -> Vec<Value> {
    vec![
        rule(GAMES, &["gameservers"], &["create", "delete"]),
        rule(GAMES, &["gameserversets/status"], &["patch"]),
        may_own("gameserversets"),
    ]
}

fn fleets() -> Vec<Value> {
    vec![
        rule(GAMES, &["gameserversets"], &["create", "patch", "delete"]),
        rule(GAMES, &["fleets/status"], &["patch"]),
        may_own("fleets"),
    ]
}

/// Required to create objects whose owner reference has `blockOwnerDeletion`.
fn may_own(resource: &str) -> Value {
    rule(GAMES, &[&format!("{resource}/finalizers")], &["update"])
}

fn fleet_autoscalers() -> Vec<Value> {
    vec![
        rule(GAMES, &["fleets"], &["patch"]),
        rule("autoscaling.agones.dev", &["fleetautoscalers/status"], &["patch"]),
    ]
}

/// Policies, their sources and their targets. A target of another kind needs a role of its own.
fn policies(parts: &[Part]) -> Vec<Value> {
    let mut rules = vec![
        rule(OWN, &["scalingpolicies"], &["list", "watch"]),
        rule(OWN, &["metricsources"], &["get", "list", "watch"]),
        rule(OWN, &["metricsources/status"], &["patch"]),
        rule("apps", &["deployments", "statefulsets", "replicasets"], &["get", "list", "watch"]),
        rule(
            "apps",
            &["deployments/scale", "statefulsets/scale", "replicasets/scale"],
            &["get", "patch"],
        ),
        rule(GAMES, &["fleets"], &["get"]),
        rule(GAMES, &["fleets/scale"], &["get", "patch"]),
        // The other autoscalers of a target.
        rule("autoscaling", &["horizontalpodautoscalers"], &["list", "watch"]),
        rule("keda.sh", &["scaledobjects"], &["list", "watch"]),
        // The source `kubernetes`. The resources of the last two groups are named after the metrics.
        rule("metrics.k8s.io", &["pods"], &["get", "list"]),
        rule("custom.metrics.k8s.io", &["*"], &["get", "list"]),
        rule("external.metrics.k8s.io", &["*"], &["get", "list"]),
    ];
    if parts.contains(&Part::ScalingPolicy) {
        rules.push(rule(OWN, &["scalingpolicies/status"], &["patch"]));
    }
    if parts.contains(&Part::AutoScalePolicy) {
        rules.push(rule(OWN, &["autoscalepolicies"], &["list", "watch"]));
        rules.push(rule(OWN, &["autoscalepolicies/status"], &["patch"]));
    }
    rules
}

fn nodes() -> Vec<Value> {
    let listed = [
        "namespaces",
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "podtemplates",
        "replicationcontrollers",
    ];
    let controllers = ["daemonsets", "deployments", "replicasets", "statefulsets"];
    vec![
        rule(OWN, &["nodeautoscalers"], &["list", "watch"]),
        rule(OWN, &["nodegroups"], &["get", "list", "watch", "create", "patch", "delete"]),
        rule(OWN, &["nodeautoscalers/status", "nodegroups/status"], &["patch"]),
        rule("", &["nodes"], &["get", "create", "update", "delete"]),
        rule("", &["pods/eviction"], &["create"]),
        rule("", &listed, &["list", "watch"]),
        rule("apps", &controllers, &["list", "watch"]),
        rule("autoscaling.x-k8s.io", &["capacitybuffers"], &["list", "watch"]),
        rule("autoscaling.x-k8s.io", &["capacitybuffers/status"], &["patch"]),
        rule("batch", &["jobs"], &["list", "watch"]),
        rule("policy", &["poddisruptionbudgets"], &["list", "watch"]),
        rule("storage.k8s.io", &["storageclasses", "csinodes"], &["list", "watch"]),
    ]
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
    secret_reader("plimsoll-other-clusters", secrets, game, namespace)
}

/// Returns the role to read the credentials of metric sources and targets; nothing if no Secret is named.
pub(super) fn sources(secrets: &[String], namespace: &str) -> Vec<Value> {
    secret_reader("plimsoll-sources", secrets, SOURCES_NAMESPACE, namespace)
}

/// Returns a role to read Secrets by name, and its binding.
fn secret_reader(role: &str, secrets: &[String], place: &str, namespace: &str) -> Vec<Value> {
    if secrets.is_empty() {
        return Vec::new();
    }
    let mut read = rule("", &["secrets"], &["get"]);
    read["resourceNames"] = json!(secrets);
    let metadata = named(role, place);
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
