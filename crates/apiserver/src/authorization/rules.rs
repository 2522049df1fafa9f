//! The rules that apply to a user: those of every authenticated user, and those that bindings give it.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Action, RBAC};
use crate::core::Core;
use crate::request::Caller;

/// The role with all rights. It exists even where no object of that name does.
const CLUSTER_ADMIN: &str = "cluster-admin";
/// The group of every user that is known.
const AUTHENTICATED: &str = "system:authenticated";
/// The paths that every authenticated user may read, as with Kubernetes' role `system:discovery`.
const DISCOVERY: [&str; 12] = [
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
    "/",
];

/// A rule of a Role or ClusterRole.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Rule {
    verbs: Vec<String>,
    api_groups: Vec<String>,
    resources: Vec<String>,
    resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    paths: Vec<String>,
}

/// A RoleBinding or ClusterRoleBinding.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Binding {
    subjects: Vec<Subject>,
    role_ref: RoleRef,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RoleRef {
    kind: String,
    name: String,
}

/// Returns the rules for what a user does in a namespace; an empty one stands for the cluster.
pub(super) fn of(core: &Core, caller: &Caller, namespace: &str) -> Vec<Rule> {
    let mut rules = Vec::new();
    if caller.groups.iter().any(|group| group == AUTHENTICATED) {
        rules.extend(of_everyone());
    }
    for binding in bindings(core, "clusterrolebindings", "ClusterRoleBinding", "") {
        if binding.names(caller, "") {
            rules.extend(role(core, &binding.role_ref, ""));
        }
    }
    if !namespace.is_empty() {
        let prefix = format!("{namespace}/");
        for binding in bindings(core, "rolebindings", "RoleBinding", &prefix) {
            if binding.names(caller, namespace) {
                rules.extend(role(core, &binding.role_ref, namespace));
            }
        }
    }
    rules
}

/// Returns the rules of every authenticated user: discovery, and questions about itself.
fn of_everyone() -> [Rule; 3] {
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    let create = |group: &str, resources: &[&str]| Rule {
        verbs: texts(&["create"]),
        api_groups: texts(&[group]),
        resources: texts(resources),
        ..Rule::default()
    };
    let discovery =
        Rule { verbs: texts(&["get", "head"]), paths: texts(&DISCOVERY), ..Rule::default() };
    let access = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"];
    [
        discovery,
        create("authorization.k8s.io", &access),
        create("authentication.k8s.io", &["selfsubjectreviews"]),
    ]
}

fn bindings(core: &Core, collection: &str, kind: &str, prefix: &str) -> Vec<Binding> {
    let page = core.store.list(&storage(collection), prefix, None, usize::MAX, None);
    let items = page.map(|page| page.items).unwrap_or_default();
    let api_version = format!("{RBAC}/v1");
    let read = items.iter().filter_map(|(_, object)| object.value(&api_version, kind).ok());
    // One that cannot be read grants nothing.
    read.filter_map(|value| serde_json::from_value(value).ok()).collect()
}

/// Returns the collection of a kind in the store.
fn storage(plural: &str) -> String {
    apimachinery::resource::qualified(plural, RBAC)
}

/// Returns the rules of a role; one that does not exist has none.
fn role(core: &Core, role: &RoleRef, namespace: &str) -> Vec<Rule> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Role {
        rules: Option<Vec<Rule>>,
    }
    let (collection, key) = match role.kind.as_str() {
        "ClusterRole" => ("clusterroles", role.name.clone()),
        _ => ("roles", format!("{namespace}/{}", role.name)),
    };
    match core.store.get(&storage(collection), &key) {
        Some(object) => {
            let value = object.value(&format!("{RBAC}/v1"), &role.kind).unwrap_or_default();
            let role: Role = serde_json::from_value(value).unwrap_or_default();
            role.rules.unwrap_or_default()
        }
        None if collection == "clusterroles" && key == CLUSTER_ADMIN => vec![Rule::all()],
        None => Vec::new(),
    }
}

impl Binding {
    /// Whether a user is among the subjects.
    fn names(&self, caller: &Caller, namespace: &str) -> bool {
        self.subjects.iter().any(|subject| match subject.kind.as_str() {
            "User" => subject.name == caller.user,
            "Group" => caller.groups.contains(&subject.name),
            "ServiceAccount" => {
                let namespace = match subject.namespace.as_str() {
                    "" => namespace,
                    namespace => namespace,
                };
                caller.user == crate::tokens::user_name(namespace, &subject.name)
            }
            _ => false,
        })
    }
}

impl Rule {
    /// Returns the rule that allows everything.
    pub(super) fn all() -> Self {
        let all = || vec!["*".to_owned()];
        Self {
            verbs: all(),
            api_groups: all(),
            resources: all(),
            resource_names: Vec::new(),
            paths: all(),
        }
    }

    /// Whether the rule allows something.
    pub(super) fn covers(&self, action: &Action) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|t| t == "*" || t == wanted);
        match action {
            Action::Path { verb, path } => {
                has(&self.verbs, verb) && self.paths.iter().any(|rule| covers_path(rule, path))
            }
            Action::Resource { verb, group, resource, subresource, name, .. } => {
                has(&self.verbs, verb)
                    && has(&self.api_groups, group)
                    && self.covers_resource(resource, subresource)
                    && (self.resource_names.is_empty() || self.resource_names.contains(name))
            }
        }
    }

    fn covers_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|rule| match rule.split_once('/') {
            _ if rule == "*" => true,
            None => subresource.is_empty() && rule == resource,
            Some((of, sub)) => sub == subresource && (of == "*" || of == resource),
        })
    }

    /// Returns the part about resources, as reviews show it.
    pub(super) fn resource_rule(&self) -> Option<Value> {
        let Self { verbs, api_groups, resources, resource_names, .. } = self;
        if resources.is_empty() {
            return None;
        }
        let mut rule = json!({"verbs": verbs, "apiGroups": api_groups, "resources": resources});
        if !resource_names.is_empty() {
            rule["resourceNames"] = json!(resource_names);
        }
        Some(rule)
    }

    /// Returns the part about other paths, as reviews show it.
    pub(super) fn path_rule(&self) -> Option<Value> {
        let Self { verbs, paths, .. } = self;
        (!paths.is_empty()).then(|| json!({"verbs": verbs, "nonResourceURLs": paths}))
    }
}

fn covers_path(rule: &str, path: &str) -> bool {
    rule == path || rule.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(rule: Value) -> Rule {
        serde_json::from_value(rule).unwrap()
    }

    fn get(resource: &str, name: &str) -> Action {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Action::Resource {
            verb: "get".to_owned(),
            group: String::new(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: "n".to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn a_rule_covers_its_resources_and_no_others() {
        let pods = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        let log = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["pods/log"]});
        let status = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["*/status"]});
        let one = json!({
            "verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"],
        });
        let other = json!({"verbs": ["list"], "apiGroups": [""], "resources": ["*"]});
        let group = json!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["*"]});
        for (given, resource, name, expected) in [
            (&pods, "pods", "p", true),
            (&pods, "pods/log", "p", false),
            (&pods, "secrets", "p", false),
            (&log, "pods/log", "p", true),
            (&log, "pods", "p", false),
            (&status, "nodes/status", "a", true),
            (&one, "pods", "p", true),
            (&one, "pods", "q", false),
            (&other, "pods", "p", false),
            (&group, "pods", "p", false),
        ] {
            let covers = rule(given.clone()).covers(&get(resource, name));
            assert_eq!(covers, expected, "{given} and {resource} {name}");
        }
        assert!(Rule::all().covers(&get("secrets", "s")));
    }

    #[test]
    fn paths_are_covered_by_name_or_by_prefix() {
        let action = |path: &str| Action::Path { verb: "get".to_owned(), path: path.to_owned() };
        let [discovery, _, _] = of_everyone();
        for (path, expected) in [
            ("/apis", true),
            ("/apis/apps/v1", true),
            ("/version", true),
            ("/metrics", false),
            ("/apiss", false),
        ] {
            assert_eq!(discovery.covers(&action(path)), expected, "{path}");
        }
    }
}
